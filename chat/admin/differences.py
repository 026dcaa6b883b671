"""The difference between two requests as a page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from chat.inspection.differences import ADDED, CHANGED, GONE, SAME, Difference, Pair

EXCERPT = 600  # characters of a message
SHOWN_SAME = 2  # messages without a difference; more of them are folded
LABELS = {
    SAME: ("same", "quiet"),
    CHANGED: ("changed", "warning"),
    ADDED: ("added", "good"),
    GONE: ("gone", "bad"),
}


@dataclass(frozen=True)
class Row:
    """One message of either request. `text` is None for who may not see it."""

    pair: Pair
    label: str
    badge: str
    text: str | None
    more: int
    """Characters that are not shown."""


@dataclass(frozen=True)
class Group:
    """Messages of one state that follow each other."""

    rows: tuple[Row, ...]

    @property
    def is_folded(self) -> bool:
        return self.rows[0].pair.state == SAME and len(self.rows) > SHOWN_SAME

    @property
    def tokens(self) -> int:
        return sum(row.pair.line.tokens for row in self.rows)


@dataclass(frozen=True)
class Shown:
    difference: Difference
    groups: tuple[Group, ...]
    summary: str

    @property
    def is_same(self) -> bool:
        counts = self.difference.counts
        return not (counts[CHANGED] or counts[ADDED] or counts[GONE] or self.difference.parameters)


def shown(difference: Difference) -> Shown:
    counts = difference.counts
    said = [f"{counts[state]:,} {LABELS[state][0]}" for state in LABELS if counts[state]]
    return Shown(
        difference=difference,
        groups=tuple(
            Group(tuple(map(_row, pairs)))
            for _, pairs in groupby(difference.pairs, key=lambda pair: pair.state)
        ),
        summary=", ".join(said) or "no message",
    )


def _row(pair: Pair) -> Row:
    label, badge = LABELS[pair.state]
    text = pair.line.text
    more = max(len(text) - EXCERPT, 0) if text is not None else 0
    return Row(pair, label, badge, text[:EXCERPT] if text is not None else None, more)
