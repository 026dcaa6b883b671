"""The words of a text, in any language: what it is found by, and what a question asks for.

Words are compared in NFKC without regard to case, English ones by their stem. Scripts that write no
blanks between words are indexed as pairs of neighbouring characters and as single ones, so that any
part of a word is found. No token holds anything but letters, digits and marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache

from snowballstemmer.english_stemmer import EnglishStemmer

WORD_LENGTH = 64  # characters; what is longer is no word that anyone looks for
QUESTION_LENGTH = 20_000  # characters of a question that are looked at: its two ends
QUESTION_TOKENS = 200

# Han, kana, bopomofo, and the scripts of South-East Asia, as far as NFKC leaves them.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and accents, which are no letters of their own and yet belong to the word: of Latin,
# Hebrew and Arabic, and the scripts of India as a whole (without their two full stops).
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff"
)
_RUNS = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>(?:[^\W_{_UNSPACED}]|[{_MARKS}])+)",
)

_DOTTED_I = "i\u0307"  # the Turkish capital İ without regard to case

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
            yield stem(run)
            continue
        yield from run
        yield from _pairs(run)


def question_tokens(text: str) -> list[str]:
    """What `text` asks for: each once, in order; single characters only where they stand alone."""
    stems = dict.fromkeys(stem(word) for word in question_words(text))
    return [token for token in stems if token not in STOP_WORDS]


def question_words(text: str) -> list[str]:
    """The same as it is written, but for case and width: English words whole."""
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


def stem(word: str) -> str:
    """What a word is compared by: of an English one its stem, of any other one itself."""
    return _stem(word) if word.isascii() and word.isalpha() else word


def places(text: str, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where `text` as it stands has a token of `wanted`: start and end, in order, not joined."""
    for match in _RUNS.finditer(text):
        run = match.group()
        normal = _normal(run)
        if match.lastgroup == "unspaced" and len(normal) == len(run):
            yield from _places_in_unspaced(normal, match.start(), wanted)
        elif any(token in wanted for token in tokens(run)):
            yield match.span()


def _places_in_unspaced(run: str, start: int, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    for at, character in enumerate(run, start):
        if run[at - start : at - start + 2] in wanted:
            yield at, min(at + 2, start + len(run))
        elif character in wanted:
            yield at, at + 1


def _runs(text: str) -> Iterator[tuple[bool, str]]:
    for match in _RUNS.finditer(_normal(text)):
        run = match.group()
        if match.lastgroup == "unspaced":
            yield True, run
        elif len(run) <= WORD_LENGTH:
            yield False, run


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace(_DOTTED_I, "i")


def _pairs(run: str) -> Iterator[str]:
    return (run[start : start + 2] for start in range(len(run) - 1))


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    return str(EnglishStemmer().stemWord(word))
