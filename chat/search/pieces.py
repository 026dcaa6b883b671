"""Ranking pieces of text for a question by their words (`memory.words`)."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory.words import question_tokens, tokens

_TERM_WEIGHT, _LENGTH_WEIGHT = 1.2, 0.75  # k1 and b of BM25, as usual

NOWHERE = array("L")


@dataclass(frozen=True)
class Hit:
    """One piece that matches, by its place among the pieces."""

    piece: int
    score: float


class WordIndex:
    """Pieces of text, ranked for a question by BM25. Built once, then only read."""

    def __init__(self, pieces: Sequence[str]) -> None:
        # By token: piece, times, piece, times, ... An array takes a tenth of a list of pairs.
        self._found: dict[str, array[int]] = defaultdict(lambda: array("L"))
        self._lengths: list[int] = []
        for number, piece in enumerate(pieces):
            counted = Counter(tokens(piece))
            self._lengths.append(sum(counted.values()))
            for token, times in counted.items():
                self._found[token].extend((number, times))
        self._average = sum(self._lengths) / len(self._lengths) if self._lengths else 0.0

    def search(self, question: str, limit: int) -> list[Hit]:
        """The best `limit` pieces, best first; equal ones in their order. None match: nothing."""
        scores: Mapping[int, float] = self._scores(question_tokens(question))
        best = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
        return [Hit(piece, score) for piece, score in best[:limit]]

    def _scores(self, asked: Sequence[str]) -> dict[int, float]:
        scores: dict[int, float] = defaultdict(float)
        for token in asked:
            places = self._found.get(token, NOWHERE)
            holding = len(places) // 2
            rarity = math.log(1 + (len(self._lengths) - holding + 0.5) / (holding + 0.5))
            for number, times in zip(places[::2], places[1::2], strict=True):
                length = self._lengths[number] / self._average
                spread = _TERM_WEIGHT * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length)
                scores[number] += rarity * times * (_TERM_WEIGHT + 1) / (times + spread)
        return scores
