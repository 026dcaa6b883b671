"""The optional second leg of the search: messages whose text means something like the question.

CHAT_SEARCH_EMBEDDINGS names what makes the vectors. They are made with an entry, lie beside its
words and leave with it. They count little: words find more than small models do.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import sqrt
from operator import mul
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from chat.search.engines import Engine
from chat.search.scopes import Scope

logger = logging.getLogger(__name__)

MOST_COMPARED = 5_000  # messages, the newest ones, where the database compares none
MOST_NEAR = 30
WEIGHT = 0.1  # of the vectors; words have 1
RANK_OFFSET = 10  # k of reciprocal rank fusion


class Embedder(Protocol):
    """What CHAT_SEARCH_EMBEDDINGS names, or makes when it is called."""

    name: str
    """Of the model: vectors of another one are not compared."""

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector a text, all of one length."""


def embedder() -> Embedder | None:
    """What makes the vectors; None where there is no second leg, or what is named does not work."""
    path = settings.CHAT_SEARCH_EMBEDDINGS
    return _embedder(path) if path else None


@lru_cache(maxsize=4)
def _embedder(path: str) -> Embedder | None:
    try:
        made: Embedder = import_string(path)()
    except Exception:
        logger.exception("%s does not work here: there is no search by meaning.", path)
        return None
    return made


def write(engine: Engine, texts: Mapping[int, str]) -> None:
    """Make the vectors of entries. What fails is logged: the words find a message all the same."""
    made = embedder()
    if made is None or not texts:
        return
    try:
        vectors = [packed(each) for each in made.embed(list(texts.values()))]
    except Exception:
        logger.exception("No vectors were made of %s messages.", len(texts))
        return
    engine.write_vectors(made.name, dict(zip(texts, vectors, strict=True)))


def nearest(engine: Engine, scope: Scope, question: str) -> list[int]:
    """The entries of `scope` whose vectors are nearest to the question's, the nearest first."""
    made = embedder()
    if made is None:
        return []
    try:
        asked = array("f", packed(made.embed([question])[0]))
    except Exception:
        logger.exception("A question has no vector; it is asked by its words alone.")
        return []
    found = engine.nearest(scope, made.name, asked, MOST_NEAR)
    return _compared(engine, scope, made.name, asked) if found is None else found


def _compared(engine: Engine, scope: Scope, model: str, asked: array[float]) -> list[int]:
    """The same among the newest entries, compared here one by one."""
    found = engine.vectors(scope, model, MOST_COMPARED)
    near = sorted((-_alike(asked, vector), -entry) for entry, vector in found)
    return [-entry for _, entry in near[:MOST_NEAR]]


def fuse(by_words: Sequence[int], by_meaning: Sequence[int]) -> dict[int, float]:
    """Both rankings as one, by the places in them, best first."""
    scores = dict.fromkeys(chain(by_words, by_meaning), 0.0)
    for weight, ranking in ((1.0, by_words), (WEIGHT, by_meaning)):
        for place, entry in enumerate(ranking, 1):
            scores[entry] += weight / (RANK_OFFSET + place)
    return dict(sorted(scores.items(), key=lambda each: (-each[1], -each[0])))


def packed(vector: Sequence[float]) -> bytes:
    """A vector of the length 1 as it is stored."""
    length = sqrt(sum(map(mul, vector, vector))) or 1.0
    return array("f", (each / length for each in vector)).tobytes()


def _alike(one: array[float], other: bytes) -> float:
    vector = array("f", other)
    return sum(map(mul, one, vector)) if len(vector) == len(one) else -1.0
