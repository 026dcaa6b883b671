"""Searching text by words, in any language: one tokenizer, and a ranking over pieces of text.

Words are compared in NFKC without regard to case. Scripts that write no blanks between words are
indexed as pairs of neighbouring characters and as single ones, so that any part of a word is found.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

WORD_LENGTH = 64  # characters; what is longer is no word that anyone looks for
QUESTION_LENGTH = 20_000  # characters of a question that are looked at: its two ends
QUESTION_TOKENS = 200

# Han, kana, bopomofo, and the scripts of South-East Asia, as far as NFKC leaves them.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUNS = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>[^\W_{_UNSPACED}]+)")

_TERM_WEIGHT, _LENGTH_WEIGHT = 1.2, 0.75  # k1 and b of BM25, as usual

NOWHERE = array("L")

_COMMON = """
    a about am an and any are as at be been but by can could did do does for from had has have he
    her here him his how i if in into is it its just me my no not of on or our please she should so
    some tell than that the their them then there these they this those to up us was we were what
    when where which who whom why will with would you your
    一下 一个 什么 怎么 这个 那个 我们 你们 他们 可以 是否 如何 请问
    请告 告诉 诉我 我的 你的 的是 是什 么是
    吗 呢 吧 的 了 是 我 你 他 她 它 在 有 和 与 或 请
"""
STOP_WORDS = frozenset(_COMMON.split())
"""What says nothing about a subject, in English and Chinese; a question is asked without it."""


def tokens(text: str) -> Iterator[str]:
    """What `text` is found by: its words, and for unspaced scripts pairs and single characters."""
    for is_unspaced, run in _runs(text):
        if not is_unspaced:
            yield run
            continue
        yield from run
        yield from _pairs(run)


def question_tokens(text: str) -> list[str]:
    """What `text` asks for: each once, in order; single characters only where they stand alone."""
    if len(text) > QUESTION_LENGTH:
        half = QUESTION_LENGTH // 2
        text = f"{text[:half]} {text[-half:]}"
    found: dict[str, None] = {}
    for is_unspaced, run in _runs(text):
        asked = _pairs(run) if is_unspaced and len(run) > 1 else [run]
        found.update((each, None) for each in asked if each not in STOP_WORDS)
        if len(found) >= QUESTION_TOKENS:
            break
    return list(found)[:QUESTION_TOKENS]


def _runs(text: str) -> Iterator[tuple[bool, str]]:
    for match in _RUNS.finditer(unicodedata.normalize("NFKC", text).casefold()):
        run = match.group()
        if match.lastgroup == "unspaced":
            yield True, run
        elif len(run) <= WORD_LENGTH:
            yield False, run


def _pairs(run: str) -> Iterator[str]:
    return (run[start : start + 2] for start in range(len(run) - 1))


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
