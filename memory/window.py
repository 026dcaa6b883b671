"""Choosing which messages stay: the newest that fit, and nothing cut in half.

Two ways. Message-exact (`align_to_turns=False`) follows LangChain4j's chat memory: the oldest
message goes first, one at a time, and a request for tools takes the results that follow it along.
Whole exchanges (`align_to_turns=True`): a user message and everything up to the next user message
go together, oldest first, so that a window starts with a user message and no tool group is cut.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

from memory.messages import Message, require_messages

CountTokens = Callable[[Message], int]
T = TypeVar("T")

MAX_MESSAGES = "max_messages"
MAX_TOKENS = "max_tokens"
ORPHAN_TOOL = "orphan_tool"
SYSTEM_REPLACED = "system_replaced"


@dataclass(frozen=True)
class WindowPolicy:
    """What a window may hold. Both limits hold at once; equal to the limit fits.

    `stride=n` moves the start of a full window in steps of n messages, so that consecutive
    requests begin with the same messages and a provider's prompt cache keeps hitting.
    """

    max_messages: int | None = 20
    max_tokens: int | None = None
    align_to_turns: bool = True
    system_first: bool = True
    stride: int = 0

    def __post_init__(self) -> None:
        require_limits(self.max_messages, self.max_tokens, self.stride)


@dataclass(frozen=True)
class Trimmed:
    """What stays, and what went with the reason for each."""

    kept: tuple[Message, ...]
    dropped: tuple[tuple[Message, str], ...]


class WindowTooSmall(ValueError):
    """The policy cannot hold the newest exchange, which is never evicted."""

    def __init__(self, size: Size, policy: WindowPolicy) -> None:
        self.messages = size.messages
        self.tokens = size.tokens
        super().__init__(
            f"the newest exchange has {size.messages} messages and {size.tokens} tokens; the window"
            f" holds max_messages={policy.max_messages}, max_tokens={policy.max_tokens}."
            " Raise the limit or shorten the message"
        )


@dataclass(frozen=True)
class Size:
    """Messages and tokens of an exchange; tokens are 0 where no token limit asks for them."""

    messages: int
    tokens: int

    def __add__(self, other: Size) -> Size:
        return Size(self.messages + other.messages, self.tokens + other.tokens)


def require_limits(max_messages: int | None, max_tokens: int | None, stride: int) -> None:
    """Raise unless at least one limit is set, each is a positive int, and the stride fits."""
    for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens)):
        if value is not None and not _is_int(value, at_least=1):
            raise ValueError(f"{name} is {value!r}; use a positive integer, or None for no limit")
    if max_messages is None and max_tokens is None:
        raise ValueError("max_messages and max_tokens are both None; set at least one of them")
    if not _is_int(stride, at_least=0):
        raise ValueError(f"stride is {stride!r}; use 0 or a positive integer")
    if max_messages is not None and stride >= max_messages > 0 and stride > 0:
        raise ValueError(f"stride is {stride}; it must be smaller than max_messages={max_messages}")


def trim(messages: Iterable[Message], policy: WindowPolicy, count_tokens: CountTokens) -> Trimmed:
    """The newest of `messages` that `policy` holds; the input is left as it is.

    Raises WindowTooSmall, with whole exchanges only, when not even the newest one fits.
    """
    found = require_messages(messages)
    if policy.align_to_turns:
        return _trim_exchanges(found, policy, count_tokens)
    return _trim_messages(found, policy, count_tokens)


# --- Message-exact --------------------------------------------------------------------------------


def _trim_messages(
    messages: list[Message], policy: WindowPolicy, count_tokens: CountTokens
) -> Trimmed:
    costs = _costs(messages, policy, count_tokens)
    left = Size(len(messages), sum(costs))
    pinned: list[int] = []
    evicted: list[tuple[int, str]] = []
    position = 0
    while position < len(messages):
        if not pinned and messages[position].role == "system":
            pinned.append(position)  # a system message at the head of what is left stays
            position += 1
            continue
        end = _group_end(messages, position)
        reason = crossed(left, policy.max_messages, policy.max_tokens)
        if reason is None and end < len(messages) and _inside_step(evicted, policy.stride):
            reason = evicted[-1][1]
        if reason is None:
            break
        evicted += [(gone, reason) for gone in range(position, end)]
        left += Size(position - end, -sum(costs[position:end]))
        position = end
    kept = [messages[index] for index in (*pinned, *range(position, len(messages)))]
    dropped = [(messages[index], reason) for index, reason in evicted]
    repaired = repair_tools(kept, drop_unanswered=False)
    dropped += [(kept[index], ORPHAN_TOOL) for index in repaired.dropped]
    return Trimmed(tuple(message for _, message in repaired.kept), tuple(dropped))


def _inside_step(evicted: Sequence[object], stride: int) -> bool:
    return stride > 0 and len(evicted) % stride != 0


def _group_end(messages: Sequence[Message], start: int) -> int:
    """The end of what leaves with `messages[start]`: a request takes the results right after it."""
    end = start + 1
    if messages[start].tool_calls:
        while end < len(messages) and messages[end].role == "tool":
            end += 1
    return end


# --- Whole exchanges ------------------------------------------------------------------------------


def _trim_exchanges(
    messages: list[Message], policy: WindowPolicy, count_tokens: CountTokens
) -> Trimmed:
    repaired = repair_tools(messages, drop_unanswered=True)
    dropped = [(messages[index], ORPHAN_TOOL) for index in repaired.dropped]
    system, spoken, replaced = _split_system(repaired.kept)
    dropped += [(messages[index], SYSTEM_REPLACED) for index in replaced]
    groups = exchanges(spoken, lambda item: item[1].role)
    fixed = _size([message for _, message in system], policy, count_tokens)
    sizes = [_size([message for _, message in group], policy, count_tokens) for group in groups]
    first, reason = first_that_fits(sizes, policy.max_messages, policy.max_tokens, fixed)
    if groups and first == len(groups):
        raise WindowTooSmall(fixed + sizes[-1], policy)
    starts = list(accumulate((len(group) for group in groups), initial=1))
    first = step_start(starts[: len(groups)], first, policy.stride)
    dropped += [
        (message, reason or MAX_MESSAGES) for group in groups[:first] for _, message in group
    ]
    kept = [item for group in groups[first:] for item in group]
    return Trimmed(_in_place(system, kept, policy.system_first), tuple(dropped))


def _split_system(
    items: Sequence[tuple[int, Message]],
) -> tuple[list[tuple[int, Message]], list[tuple[int, Message]], list[int]]:
    """The one system message that counts (the newest), the other messages, replaced indexes."""
    systems = [item for item in items if item[1].role == "system"]
    spoken = [item for item in items if item[1].role != "system"]
    return systems[-1:], spoken, [index for index, _ in systems[:-1]]


def _in_place(
    system: list[tuple[int, Message]], kept: list[tuple[int, Message]], system_first: bool
) -> tuple[Message, ...]:
    ordered = [*system, *kept]
    if not system_first:
        ordered.sort(key=lambda item: item[0])
    return tuple(message for _, message in ordered)


def exchanges(items: Sequence[T], role_of: Callable[[T], str]) -> list[list[T]]:
    """`items` in whole exchanges; what stands before the first user message is one of its own."""
    groups: list[list[T]] = []
    for item in items:
        if role_of(item) == "user" or not groups:
            groups.append([])
        groups[-1].append(item)
    return groups


def first_that_fits(
    sizes: Sequence[Size],
    max_messages: int | None,
    max_tokens: int | None,
    fixed: Size = Size(0, 0),
) -> tuple[int, str | None]:
    """The index of the oldest exchange that fits with all newer ones, and what stopped the next.

    The index is `len(sizes)` when not even the newest fits; the reason is None when all fit.
    """
    total = fixed
    for index in range(len(sizes) - 1, -1, -1):
        total += sizes[index]
        if reason := crossed(total, max_messages, max_tokens):
            return index + 1, reason
    return 0, None


def step_start(starts: Sequence[int], first: int, stride: int, before: int = 0) -> int:
    """The index where a window that moves in steps of `stride` begins, `first` at the earliest.

    `starts` are the positions (1, 2, ...) where exchanges begin, `before` the position of the
    exchange before them (0: there is none). A full window may only begin at the first exchange of
    a stretch of `stride` positions; where no such exchange is left, at `first`.
    """
    if stride == 0 or first >= len(starts) or (first == 0 and before == 0):
        return first
    for index in range(first, len(starts)):
        previous = starts[index - 1] if index else before
        if (starts[index] - 1) // stride != (previous - 1) // stride:
            return index
    return first


# --- Both -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repaired:
    """Messages with their index in the list that was given, and the indexes that were left out."""

    kept: tuple[tuple[int, Message], ...]
    dropped: tuple[int, ...]


def repair_tools(
    messages: Sequence[Message], *, drop_unanswered: bool, still_running: bool = True
) -> Repaired:
    """`messages` without tool results that no call asked for.

    A result belongs to the nearest assistant message before it with nothing but results between.
    With `drop_unanswered` calls that lack a result go too, with the results that they have; the
    text beside them stays. With `still_running` calls at the very end are left alone: their answers
    are on the way.
    """
    kept: list[tuple[int, Message]] = []
    dropped: list[int] = []
    position = 0
    while position < len(messages):
        end = _results_end(messages, position)
        group = range(position, end)
        answered, orphans = _pair(messages, group)
        dropped += orphans
        complete = len(answered) == len(messages[position].tool_calls)
        running = still_running and end == len(messages)
        if complete or running or not drop_unanswered:
            kept += [(index, messages[index]) for index in group if index not in orphans]
        else:
            dropped += answered
            if messages[position].content:
                kept.append((position, replace(messages[position], tool_calls=())))
            else:
                dropped.append(position)
        position = end
    return Repaired(tuple(kept), tuple(sorted(dropped)))


def _results_end(messages: Sequence[Message], start: int) -> int:
    """The end of the run of tool results that follows (or begins at) `start`."""
    end = start + 1
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    return end


def _pair(messages: Sequence[Message], group: range) -> tuple[list[int], set[int]]:
    """Of a message and the results after it: results that answer its calls, and orphans."""
    waiting = Multiset(call.id for call in messages[group.start].tool_calls)
    answered: list[int] = []
    orphans: set[int] = set()
    for index in group:
        if messages[index].role != "tool":
            continue
        if waiting[messages[index].tool_call_id] > 0:
            waiting[messages[index].tool_call_id] -= 1
            answered.append(index)
        else:
            orphans.add(index)
    return answered, orphans


def crossed(size: Size, max_messages: int | None, max_tokens: int | None) -> str | None:
    """The name of the limit that `size` is over, or None."""
    if max_messages is not None and size.messages > max_messages:
        return MAX_MESSAGES
    if max_tokens is not None and size.tokens > max_tokens:
        return MAX_TOKENS
    return None


def _costs(
    messages: Sequence[Message], policy: WindowPolicy, count_tokens: CountTokens
) -> list[int]:
    if policy.max_tokens is None:
        return [0] * len(messages)
    return [count_tokens(message) for message in messages]


def _size(messages: Sequence[Message], policy: WindowPolicy, count_tokens: CountTokens) -> Size:
    return Size(len(messages), sum(_costs(messages, policy, count_tokens)))


def _is_int(value: object, *, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least
