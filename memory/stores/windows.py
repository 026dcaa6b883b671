"""A session's window as the messages that any SnapshotStore takes.

What a Message has no place for (where each stands in the history, and what the window was chosen
by) is kept in parts of the type `kept`: the window's own in a system message before all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.messages import KEPT, Message, from_data, to_data
from memory.stores.base import RebuildNeeded

WINDOW, PLACE = "window", "place"
_OF_WINDOW = (
    "format_version",
    "through_seq",
    "before_seq",
    "memory_epoch",
    "policy",
    "left_out",
)


def to_messages(values: Mapping[str, Any]) -> list[Message]:
    """`values` of a snapshot; each of its `messages` is data with where it stands."""
    window = {name: values[name] for name in _OF_WINDOW}
    head = Message("system", "", parts=({"type": KEPT, WINDOW: window},))
    return [head, *(_placed(data) for data in values["messages"])]


def _placed(data: Mapping[str, Any]) -> Message:
    message = from_data(data)
    place = {name: value for name, value in data.items() if name not in to_data(message)}
    kept = {"type": KEPT, PLACE: place}
    return from_data({**to_data(message), "parts": [*message.parts, kept]})


def from_messages(memory_id: str, messages: Sequence[Message]) -> dict[str, Any]:
    """The values that `to_messages` was given; RebuildNeeded when they are none."""
    try:
        head, *others = messages
        window = head.parts[-1][WINDOW]
        values: dict[str, Any] = {name: window[name] for name in _OF_WINDOW}
        values["messages"] = [_data(each) for each in others]
    except (ValueError, LookupError, TypeError) as error:
        raise RebuildNeeded(memory_id, "unreadable") from error
    return values


def _data(message: Message) -> dict[str, Any]:
    data = to_data(message)
    *parts, kept = data.pop("parts")
    return {**data, **kept[PLACE], **({"parts": parts} if parts else {})}
