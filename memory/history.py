"""The window of a session: built from the history, or carried on by the turn that just ended.

Both ways give the same window, and it depends on nothing but the chosen branch after the forget
line and the policy. The history is read from its end, only as far as the window reaches.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

from memory.context import (
    BEFORE_FORGET_LINE,
    IDLE,
    MEMORY_OFF,
    OTHER_BRANCH,
    HistoryMessage,
    LeftOut,
    Window,
    merged,
    sendable,
    sent_tokens,
)
from memory.left_out import Group
from memory.tokens import ENCODINGS
from memory.window import (
    MAX_MESSAGES,
    Size,
    crossed,
    first_that_fits,
    require_limits,
    step_start,
)

RULES = 2
"""Raised when the same history and policy would give another window than before."""

_PAGE_WITHOUT_LIMIT = 40
_LARGEST_PAGE = 1_000
_LOOK_BEYOND = 4  # messages past the limit that show where the exchange before the window begins


class HistoryReader(Protocol):
    """How the history is read: the chosen branch, after the forget line."""

    def newest(self, before_seq: int | None, limit: int) -> list[HistoryMessage]:
        """At most `limit` messages with a smaller seq than `before_seq`, newest first."""

    def holds(self, message_id: str) -> bool:
        """Whether the message is on the chosen branch, before the current input."""


@dataclass(frozen=True)
class MemoryPolicy:
    """What may be remembered. The limits count history; the current input is outside them."""

    enabled: bool
    max_messages: int | None
    max_tokens: int | None
    stride: int
    use_preferences: bool
    encoding: str
    summarize: bool = False
    """A summary stands for what it covers; what none covers yet is sent as long as it fits."""
    use_digest: bool = False
    """What is known of the user from other sessions opens a new one."""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding is {self.encoding!r}; use one of {', '.join(ENCODINGS)}")
        if self.enabled:
            require_limits(self.max_messages, self.max_tokens, self.step)

    @property
    def step(self) -> int:
        """The stride in use: always smaller than `max_messages`, whatever limit a session sets."""
        if self.max_messages is None or self.stride < self.max_messages:
            return self.stride
        return max(self.max_messages - 1, 0)

    def fingerprint(self) -> str:
        """A digest of everything that the choice of a window depends on."""
        rules = [RULES, self.max_messages, self.max_tokens, self.step, self.encoding]
        return hashlib.sha256(json.dumps(rules).encode()).hexdigest()

    def described(self) -> dict[str, Any]:
        """The policy as the manifest shows it."""
        return {
            "enabled": self.enabled,
            "max_messages": self.max_messages,
            "max_tokens": self.max_tokens,
            "stride": self.step,
            "use_preferences": self.use_preferences,
            "summarize": self.summarize,
            "use_digest": self.use_digest,
        }


@dataclass(frozen=True)
class SessionState:
    """Where a session stands when a turn begins."""

    id: uuid.UUID
    memory_epoch: int
    forget_line: int
    newest_seq: int
    """The newest complete seq of the chosen branch before the current input; 0: none."""
    idle_line: int = 0
    """The newest seq that a long pause put out of the window; 0: none."""
    last_seq: int = 0
    """The newest seq of the session, whatever its branch, the current input included; 0: not told.
    With it the manifest accounts for branches that were left behind the input, too."""

    @property
    def floor(self) -> int:
        """The window holds nothing up to this seq."""
        return max(self.forget_line, self.idle_line)


def off(state: SessionState, policy: MemoryPolicy) -> Window:
    """The window when memory is off: nothing, and that is said."""
    left_out = (LeftOut(1, state.newest_seq, MEMORY_OFF),) if state.newest_seq else ()
    return Window((), left_out, "off", policy=policy.described(), last_seq=state.last_seq)


def rebuild(
    reader: HistoryReader, state: SessionState, policy: MemoryPolicy, why: str = ""
) -> Window:
    """The window chosen from the history, read page by page until the next exchange is too much."""
    rows: list[HistoryMessage] = []
    page_size = (policy.max_messages or _PAGE_WITHOUT_LIMIT) + _LOOK_BEYOND
    at_start = state.newest_seq <= state.floor
    while not at_start:
        before = rows[0].seq if rows else state.newest_seq + 1
        page = reader.newest(before, page_size)
        rows = [*reversed(page), *rows]
        at_start = len(page) < page_size
        page_size = min(page_size * 2, _LARGEST_PAGE)
        if _overflows(whole(rows, at_start), policy):
            break
    source = f"rebuild:{why}" if why else "rebuild"
    return _choose(whole(rows, at_start), state, policy, Window((), (), source))


def extend(
    window: Window, added: Sequence[HistoryMessage], state: SessionState, policy: MemoryPolicy
) -> Window:
    """The window after a turn that added `added` to the history behind `window`."""
    newest = max([state.newest_seq, *(each.seq for each in added)])
    rows = [*window.messages, *added]
    return _choose(rows, replace(state, newest_seq=newest), policy, window)


def whole(rows: list[HistoryMessage], at_start: bool) -> list[HistoryMessage]:
    """`rows` without the exchange at their beginning that may have more before it."""
    if at_start:
        return rows
    for position, each in enumerate(rows):
        if each.message.role == "user":
            return rows[position:]
    return []


def _overflows(rows: Sequence[HistoryMessage], policy: MemoryPolicy) -> bool:
    """Whether `rows` reach past the beginning of the window."""
    groups, _ = sendable(rows)
    return _first(groups, policy)[0] > 0


def _first(groups: Sequence[Group], policy: MemoryPolicy) -> tuple[int, str | None]:
    """Where the window begins among `groups`, and what stopped the exchange before it.

    The newest exchange stays where nothing but its use of tools makes it longer than
    `max_messages`: else a turn with many calls would be forgotten by the next one.
    """
    sizes = [_size(group, policy) for group in groups]
    first, reason = first_that_fits(sizes, policy.max_messages, policy.max_tokens)
    if groups and first == len(groups):
        spoken = sum(not (e.message.tool_calls or e.message.role == "tool") for e in groups[-1])
        without_tools = Size(spoken, sizes[-1].tokens)
        if crossed(without_tools, policy.max_messages, policy.max_tokens) is None:
            return first - 1, reason
    return first, reason


def _size(group: Group, policy: MemoryPolicy) -> Size:
    if policy.max_tokens is None:
        return Size(len(group), 0)
    return Size(len(group), sum(sent_tokens(each, policy.encoding) for each in group))


def _choose(
    rows: Sequence[HistoryMessage], state: SessionState, policy: MemoryPolicy, basis: Window
) -> Window:
    """The window over `rows`, of which `basis` says what is before them."""
    groups, unsent = sendable(rows)
    first, reason = _first(groups, policy)
    first = step_start([group[0].seq for group in groups], first, policy.step, basis.before_seq)
    kept = tuple(each for group in groups[first:] for each in group)
    before_seq = groups[first - 1][0].seq if first else basis.before_seq
    known = [*basis.left_out, *unsent]
    if before_seq:
        end = kept[0].seq - 1 if kept else state.newest_seq
        reason = reason if first else _reason_before(basis, state)
        known.insert(0, LeftOut(state.floor + 1, end, reason or MAX_MESSAGES))
    left_out = _ranges(kept, known, state)
    described = policy.described()
    return Window(kept, left_out, basis.source, before_seq, described, state.last_seq)


def _reason_before(basis: Window, state: SessionState) -> str | None:
    for each in basis.left_out:
        if each.from_seq == state.floor + 1:
            return each.reason
    return None


def _ranges(
    kept: Sequence[HistoryMessage], known: Sequence[LeftOut], state: SessionState
) -> tuple[LeftOut, ...]:
    """Every range of seqs up to the newest that is not in `kept`, each with its reason."""
    ranges = [LeftOut(1, state.forget_line, BEFORE_FORGET_LINE)] if state.forget_line else []
    if state.floor > state.forget_line:
        ranges.append(LeftOut(state.forget_line + 1, state.floor, IDLE))
    edges = [state.floor, *(each.seq for each in kept), state.newest_seq + 1]
    for before, after in pairwise(edges):
        if after - before > 1:
            ranges.append(_gap(before + 1, after - 1, known))
    return tuple(merged(ranges))


def _gap(from_seq: int, through_seq: int, known: Sequence[LeftOut]) -> LeftOut:
    for each in known:
        if each.from_seq <= through_seq and each.through_seq >= from_seq:
            return LeftOut(from_seq, through_seq, each.reason)
    return LeftOut(from_seq, through_seq, OTHER_BRANCH)
