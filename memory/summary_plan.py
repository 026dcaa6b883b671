"""What the next summary of a session is made from: which turns, and how they are told to a model.

A summary covers everything but the newest part of the window, so that it is not due at every turn.
It is made from whole exchanges, in chunks of bounded size. Nothing here touches a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memory.context import HistoryMessage, Window, sendable, sent_text
from memory.history import MemoryPolicy
from memory.parts import sent_tokens
from memory.tokens import count_text
from memory.window import exchanges

LEAST_KEPT = 2  # exchanges that stay in the window word for word
ENTRY_TOKENS = 12  # of a message's seq and role in the request, about
LEAST_SHOWN = 40  # tokens of a message that is shortened


@dataclass(frozen=True)
class Chunk:
    """Whole exchanges, oldest first: all messages that are covered, and those that are sent."""

    covered: tuple[HistoryMessage, ...]
    sent: tuple[HistoryMessage, ...]
    tokens: int
    """Of `sent`, about."""


def due_before(window: Window, covered: int, idle_line: int, policy: MemoryPolicy) -> int:
    """The seq before which the next summary covers everything; 0: nothing is due.

    `window` is what the next turn would be sent of the messages after `covered`, the newest seq
    that a summary covers or the forget line. Something is due when it leaves complete turns out,
    for its limits or because a pause put them out of it.
    """
    by_limit = _kept_from(window, policy) if window.before_seq else 0
    by_pause = idle_line + 1 if idle_line > covered else 0
    return max(by_limit, by_pause)


def _kept_from(window: Window, policy: MemoryPolicy) -> int:
    """Where the part begins that stays: about half of what the limits hold, two exchanges at
    least."""
    groups = exchanges(window.messages, lambda each: each.message.role)
    if len(groups) < LEAST_KEPT:
        return window.before_seq
    kept = 0
    messages = tokens = 0
    for group in reversed(groups):
        messages += len(group)
        tokens += sum(sent_tokens(each, policy.encoding) for each in group)
        is_half = messages * 2 > (policy.max_messages or messages * 2)
        is_half |= tokens * 2 > (policy.max_tokens or tokens * 2)
        if is_half and kept >= LEAST_KEPT:
            break
        kept += 1
    return groups[len(groups) - kept][0].seq


def chunk(
    rows: Sequence[HistoryMessage], before: int, limit: int, encoding: str, *, is_end: bool
) -> Chunk | None:
    """The oldest whole exchanges of `rows` before seq `before` that hold about `limit` tokens.

    At least one that has something to send; None when there is none. `is_end`: no message follows
    `rows` before that seq, so their last exchange is whole too.
    """
    groups = exchanges([each for each in rows if each.seq < before], lambda e: e.message.role)
    if not is_end and not any(each.seq >= before for each in rows):
        groups = groups[:-1]
    covered: list[HistoryMessage] = []
    sent: list[HistoryMessage] = []
    tokens = 0
    for group in groups:
        spoken = [each for part in sendable(group)[0] for each in part]
        cost = sum(sent_tokens(each, encoding) + ENTRY_TOKENS for each in spoken)
        if sent and tokens + cost > limit:
            break
        covered += group
        sent += spoken
        tokens += cost
    return Chunk(tuple(covered), tuple(sent), tokens) if sent else None


# --- As a model is told it ------------------------------------------------------------------------


def entries(sent: Iterable[HistoryMessage], limit: int, encoding: str) -> list[dict[str, Any]]:
    """The messages as JSON-able data of at most about `limit` tokens.

    What is too long is shortened in its middle, with a mark, the longest texts first.
    """
    told = [_entry(each) for each in sent]
    sizes = [count_text(each["text"], encoding) for each in told]
    room = limit - sum(_cost_beside(each, encoding) for each in told)
    if sum(sizes) > room:
        cap = max(_common_size(sizes, room), LEAST_SHOWN)
        for each, size in zip(told, sizes, strict=True):
            if size > cap:
                each["text"] = shortened(each["text"], cap, encoding)
    return told


def _entry(message: HistoryMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"seq": message.seq, "role": message.message.role}
    if message.message.name:
        entry["name"] = message.message.name
    entry["text"] = sent_text(message)
    if message.message.tool_calls:
        entry["calls"] = [
            {"name": call.name, "arguments": call.arguments} for call in message.message.tool_calls
        ]
    return entry


def _cost_beside(entry: dict[str, Any], encoding: str) -> int:
    calls = entry.get("calls")
    told = count_text(json.dumps(calls, ensure_ascii=False), encoding) if calls else 0
    return ENTRY_TOKENS + told


def _common_size(sizes: Sequence[int], room: int) -> int:
    """The largest size to which all longer texts can be cut so that all of them fit."""
    left, waiting = room, sorted(sizes)
    for position, size in enumerate(waiting):
        share = left // (len(waiting) - position)
        if size > share:
            return share
        left -= size
    return waiting[-1] if waiting else 0


def shortened(text: str, tokens: int, encoding: str) -> str:
    """`text` with its middle left out, and a mark there, in about `tokens`."""
    share = tokens / max(count_text(text, encoding), 1)
    while True:
        half = int(len(text) * share) // 2
        cut = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n" + (
            text[-half:] if half else ""
        )
        if half == 0 or count_text(cut, encoding) <= tokens:
            return cut
        share *= 0.8
