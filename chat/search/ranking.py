"""Which entries answer a question best: BM25 over the places where its words stand.

How rare a word is, is reckoned among the entries that may be found: nobody's ranking depends on
what others wrote.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chat.search.engines import Posting
from chat.search.entries import COLUMNS

WEIGHTS = {"own": 1.0, "previous": 0.5, "next": 0.25, "day": 0.5}
TERM_WEIGHT = 1.2  # k1 of BM25, as usual
LENGTH_WEIGHT = 0.25  # b; at the usual 0.75 short neighbours push aside what holds the words
ONLY_DAY = 1 << COLUMNS.index("day")

# Columns as the bits of a number: how often a word counts as being there, for each.
_TIMES = [
    sum(WEIGHTS[name] for bit, name in enumerate(COLUMNS) if columns >> bit & 1)
    for columns in range(1 << len(COLUMNS))
]


@dataclass(frozen=True)
class Ranked:
    """An entry that was found, and how well it fits."""

    entry: int
    score: float


def rank(postings: Sequence[Posting], words: Sequence[str], total: int, most: int) -> list[Ranked]:
    """Every entry that has one of `words`, best first, the newer first among equals.

    `total`: how many entries there are to be found. `most`: how many postings of one word were
    asked for; a word with more is too common to count where there is a rarer one.
    """
    stands, lengths = _gather(postings)
    counts = Counter(word for found in stands.values() for word in found)
    rare = {word for word, count in counts.items() if count < most} or set(counts)
    rarity = {word: _rarity(counts[word], max(total, counts[word])) for word in rare}
    average = sum(lengths.values()) / len(lengths) if lengths else 1.0
    scores = []
    for entry, found in stands.items():
        kept = {word: columns for word, columns in found.items() if word in rare}
        if not kept or _is_a_mere_number(kept, words):
            continue
        spread = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * lengths[entry] / max(average, 1.0)
        scores.append(Ranked(entry, _score(kept, rarity, TERM_WEIGHT * spread)))
    return sorted(scores, key=lambda each: (-each.score, -each.entry))


def _gather(postings: Iterable[Posting]) -> tuple[dict[int, dict[int, int]], dict[int, int]]:
    """By entry: in which columns each word stands, as bits; and how long the entry is."""
    stands: defaultdict[int, dict[int, int]] = defaultdict(dict)
    lengths: dict[int, int] = {}
    for word, column, entry, length in postings:
        found = stands[entry]
        found[word] = found.get(word, 0) | 1 << column
        lengths[entry] = length
    return dict(stands), lengths


def _rarity(count: int, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _score(found: dict[int, int], rarity: dict[int, float], spread: float) -> float:
    score = 0.0
    for word in sorted(found):  # in one order: sums of floats depend on it
        times = _TIMES[found[word]]
        score += rarity[word] * times * (TERM_WEIGHT + 1) / (times + spread)
    return score


def _is_a_mere_number(found: dict[int, int], words: Sequence[str]) -> bool:
    """Whether nothing but one number was found, and only in the date: "7" asks for no day."""
    if len(found) > 1:
        return False
    ((word, columns),) = found.items()
    return columns == ONLY_DAY and words[word].isdecimal()
