"""What a summary says, item by item: read from a model's answer, merged, and written as text.

Every item names the message that it came from. Nothing here touches a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memory.text import clean
from memory.tokens import count_text

HEADINGS = {
    "decisions": "Decisions",
    "constraints": "Constraints",
    "open_tasks": "Open tasks",
    "facts": "Facts",
}
KINDS = tuple(HEADINGS)
"""The most important first."""
OUTDATED = "outdated"
REASONING = re.compile(r"</?\s*(?:think|thinking|reasoning|thought|reflection)\b[^>]*>", re.I)
_TOOL_PROTOCOL = re.compile(
    r"</?\s*(?:tool_calls?|function_calls?|invoke|function)\b|<\|[\w▁｜|-]+\|>|\[TOOL_CALLS\]", re.I
)


@dataclass(frozen=True)
class Item:
    """One thing that is to be remembered, and the seq of the message that says it."""

    kind: str
    text: str
    seq: int


class NotASummary(ValueError):
    """An answer that cannot become a summary; the text says why, and holds none of the answer."""


def items_of(answer: Mapping[str, Any], known: Collection[int]) -> list[Item]:
    """The items of an answer, in order of kind; `NotASummary` unless every one of them is sound.

    `known` are the seqs of the messages that it was made from.
    """
    if not set(KINDS) & set(answer):
        raise NotASummary(f"it has none of {', '.join(KINDS)}")
    found = []
    for kind in KINDS:
        listed = answer.get(kind) or []
        if not isinstance(listed, list):
            raise NotASummary(f"{kind} is not a list")
        found += [_item(kind, each, known) for each in listed]
    return found


def _item(kind: str, value: Any, known: Collection[int]) -> Item:
    if not isinstance(value, Mapping):
        raise NotASummary(f"an item of {kind} is not an object with text and seq")
    text = value.get("text")
    if not isinstance(text, str) or not (line := " ".join(clean(text).split())):
        raise NotASummary(f"an item of {kind} has no text")
    if REASONING.search(line) or _TOOL_PROTOCOL.search(line):
        raise NotASummary(f"an item of {kind} holds reasoning or a tool call, not a summary")
    seq = value.get("seq")
    if isinstance(seq, str) and re.fullmatch("[0-9]{1,18}", seq):
        seq = int(seq)
    if isinstance(seq, bool) or not isinstance(seq, int) or seq not in known:
        raise NotASummary(f"an item of {kind} names no message that it was made from")
    return Item(kind, line, seq)


def outdated_in(answer: Mapping[str, Any], older: Sequence[Item]) -> list[Item]:
    """The older items that an answer says hold no more; it names them as `labelled` does."""
    listed = answer.get(OUTDATED)
    named = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else ()
    return [item for label, item in labelled(older) if label in named]


def labelled(items: Sequence[Item]) -> list[tuple[str, Item]]:
    """Items with the short names that an answer refers to them by."""
    return [(f"p{number}", item) for number, item in enumerate(items, 1)]


def merged(
    older: Sequence[Item], newer: Sequence[Item], outdated: Collection[Item] = ()
) -> list[Item]:
    """What held before and holds still, then what is new; each thing once, by kind."""
    found: dict[tuple[str, str], Item] = {}
    for item in [*(each for each in older if each not in outdated), *newer]:
        found.setdefault((item.kind, item.text.casefold()), item)
    return [item for kind in KINDS for item in found.values() if item.kind == kind]


def fitting(items: Sequence[Item], limit: int, encoding: str) -> list[Item]:
    """As many of the items as their text may have tokens, the important ones.

    Facts leave first, then open tasks, the oldest of each first; then constraints, then
    decisions, from the middle on, so that the first ones and the newest ones stay.
    """
    kept = list(items)
    costs = {id(item): count_text(_line(item), encoding) + 1 for item in kept}
    beside = sum(count_text(heading, encoding) + 3 for heading in HEADINGS.values())
    total = beside + sum(costs.values())
    while kept and total > limit and count_text(text_of(kept), encoding) > limit:
        least = _least_important(kept)
        kept = [item for item in kept if item is not least]
        total -= costs[id(least)]
    return kept


def _least_important(items: Sequence[Item]) -> Item:
    for kind in reversed(KINDS):
        those = [item for item in items if item.kind == kind]
        if those:
            return those[0] if kind in ("facts", "open_tasks") else those[len(those) // 2]
    raise ValueError("there is no item")


def text_of(items: Sequence[Item]) -> str:
    """The items as they are sent: a heading for each kind, a line for each item."""
    parts = []
    for kind, heading in HEADINGS.items():
        lines = [_line(item) for item in items if item.kind == kind]
        if lines:
            parts.append("\n".join([f"{heading}:", *lines]))
    return "\n\n".join(parts)


def _line(item: Item) -> str:
    return f"- {item.text}"


def as_data(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]


def from_data(data: Any) -> list[Item]:
    """Items as a row keeps them."""
    return [Item(each["kind"], each["text"], each["seq"]) for each in data]
