"""Which entries answer a question best: BM25F over the places where its words stand.

BM25F (Robertson, Zaragoza and Taylor, 2004) adds up how often a word stands in each column, by the
column's weight and length, before it bounds what one word can add. How rare a word is, is reckoned
among the entries that may be found: nobody's ranking depends on what others wrote. Where the
figures come from: docs/memory.md, "Search and recall".
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chat.search.engines import Posting
from chat.search.entries import COLUMNS, Lengths

OWN, PREVIOUS, NEXT, DAY = 1.0, 0.75, 0.25, 0.75  # how much a word counts in each column
LENGTH_WEIGHTS = 0.25, 0.75, 0.75  # b of `entries.TEXTS`; a date has no length
TERM_WEIGHT = 0.9  # k1
ONLY_DAY = 1 << COLUMNS.index("day")

# Columns as the bits of a number: 1 or 0 for each.
_STANDS = [tuple(bits >> column & 1 for column in range(4)) for bits in range(1 << len(COLUMNS))]

Weights = tuple[float, float, float, float]
"""How much a word counts in each of `entries.COLUMNS`."""


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
    slopes = _slopes(lengths.values())
    scores = []
    for entry, found in stands.items():
        kept = {word: columns for word, columns in found.items() if word in rare}
        if not kept or _is_a_mere_number(kept, words):
            continue
        scores.append(Ranked(entry, _score(kept, rarity, _weights(lengths[entry], slopes))))
    return sorted(scores, key=lambda each: (-each.score, -each.entry))


def _gather(postings: Iterable[Posting]) -> tuple[dict[int, dict[int, int]], dict[int, Lengths]]:
    """By entry: in which columns each word stands, as bits; and how long its texts are."""
    stands: defaultdict[int, dict[int, int]] = defaultdict(dict)
    lengths: dict[int, Lengths] = {}
    for word, column, entry, length in postings:
        found = stands[entry]
        found[word] = found.get(word, 0) | 1 << column
        lengths[entry] = length
    return dict(stands), lengths


def _slopes(lengths: Iterable[Lengths]) -> list[float]:
    """Of each text: how much less a word counts there for every word that the text has."""
    averages = (max(sum(column) / len(column), 1.0) for column in zip(*lengths, strict=True))
    return [b / average for b, average in zip(LENGTH_WEIGHTS, averages, strict=False)]


def _weights(lengths: Lengths, slopes: Sequence[float]) -> Weights:
    """In a long text a word counts less than in a short one: 1 - b + b * length / average."""
    own, previous, following = lengths
    return (
        OWN / (1 - LENGTH_WEIGHTS[0] + slopes[0] * own),
        PREVIOUS / (1 - LENGTH_WEIGHTS[1] + slopes[1] * previous),
        NEXT / (1 - LENGTH_WEIGHTS[2] + slopes[2] * following),
        DAY,
    )


def _rarity(count: int, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _score(found: Mapping[int, int], rarity: Mapping[int, float], weights: Weights) -> float:
    own, previous, following, day = weights
    score = 0.0
    for word in sorted(found):  # in one order: sums of floats depend on it
        in_own, in_previous, in_next, in_day = _STANDS[found[word]]
        times = in_own * own + in_previous * previous + in_next * following + in_day * day
        score += rarity[word] * times * (TERM_WEIGHT + 1) / (times + TERM_WEIGHT)
    return score


def _is_a_mere_number(found: Mapping[int, int], words: Sequence[str]) -> bool:
    """Whether nothing but one number was found, and only in the date: "7" asks for no day."""
    if len(found) > 1:
        return False
    ((word, columns),) = found.items()
    return columns == ONLY_DAY and words[word].isdecimal()
