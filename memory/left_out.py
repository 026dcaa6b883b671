"""What of the history is not sent, and why: ranges of seqs, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory.parts import HistoryMessage
from memory.running_turn import as_repaired
from memory.window import MAX_MESSAGES, MAX_TOKENS, ORPHAN_TOOL, exchanges, repair_tools

AWAITING_SUMMARY = "awaiting_summary"
BEFORE_FORGET_LINE = "before_forget_line"
BUDGET = "budget"
COVERED_BY_SUMMARY = "covered_by_summary"
IDLE = "idle"
MEMORY_OFF = "memory_off"
NO_ANSWER = "no_answer"
OTHER_BRANCH = "other_branch"
STRICT_ROLES = "strict_roles"
SYSTEM_MESSAGE = "system_message"

Group = list[HistoryMessage]


@dataclass(frozen=True)
class LeftOut:
    """The messages from one seq through another that are not sent, and why."""

    from_seq: int
    through_seq: int
    reason: str


def one(message: HistoryMessage, reason: str) -> LeftOut:
    return LeftOut(message.seq, message.seq, reason)


def merged(ranges: Iterable[LeftOut]) -> list[LeftOut]:
    """`ranges` in order; one inside or right behind another of the same reason joins it."""
    result: list[LeftOut] = []
    for each in sorted(ranges, key=lambda found: (found.from_seq, -found.through_seq)):
        last = result[-1] if result else None
        if last and each.through_seq <= last.through_seq:
            continue
        if last and each.reason == last.reason and each.from_seq <= last.through_seq + 1:
            result[-1] = replace(last, through_seq=each.through_seq)
        else:
            result.append(each)
    return result


# --- What may be sent -----------------------------------------------------------------------------


def sendable(messages: Sequence[HistoryMessage]) -> tuple[list[Group], list[LeftOut]]:
    """Whole exchanges that have an answer, and what cannot be sent, message by message.

    An exchange without any answer text is left out whole; so are tool results without a call,
    calls without all their results, and system messages, which only the operator may write.
    """
    spoken = [each for each in messages if each.message.role != "system"]
    unsent = [one(each, SYSTEM_MESSAGE) for each in messages if each.message.role == "system"]
    repaired = repair_tools(
        [each.message for each in spoken], drop_unanswered=True, still_running=False
    )
    unsent += [one(spoken[index], ORPHAN_TOOL) for index in repaired.dropped]
    kept = [as_repaired(spoken[index], message) for index, message in repaired.kept]
    groups = []
    for group in exchanges(kept, lambda each: each.message.role):
        if any(each.message.role == "assistant" and each.message.has_text for each in group):
            groups.append(group)
        else:
            unsent += [one(each, NO_ANSWER) for each in group]
    return groups, unsent


def beginning_with_user(
    groups: list[Group], unsent: list[LeftOut]
) -> tuple[list[Group], list[LeftOut]]:
    """Without what an assistant said first, where nothing can stand before it."""
    if not groups or groups[0][0].message.role == "user":
        return groups, unsent
    return groups[1:], [*unsent, *(one(each, STRICT_ROLES) for each in groups[0])]


# --- The ranges of one request --------------------------------------------------------------------


def with_summary(ranges: Sequence[LeftOut], covered: int) -> list[LeftOut]:
    """`ranges` where a summary stands for everything from the forget line through `covered`."""
    line = max(
        (each.through_seq for each in ranges if each.reason == BEFORE_FORGET_LINE), default=0
    )
    if covered <= line:
        return list(ranges)
    before = [each for each in ranges if each.through_seq <= line]
    return [*before, LeftOut(line + 1, covered, COVERED_BY_SUMMARY), *_from(ranges, covered + 1)]


def with_awaiting(ranges: Sequence[LeftOut], awaiting: Sequence[HistoryMessage]) -> list[LeftOut]:
    """`ranges` where `awaiting`, newest messages of what the limits evicted, may be sent after all.

    Those before them have to wait for the summary.
    """
    if not awaiting:
        return list(ranges)
    result: list[LeftOut] = []
    for each in ranges:
        if each.reason not in (MAX_MESSAGES, MAX_TOKENS):
            result.append(each)
            continue
        first = max(awaiting[0].seq, each.from_seq)
        if first > each.from_seq:
            end = min(first - 1, each.through_seq)
            result.append(LeftOut(each.from_seq, end, AWAITING_SUMMARY))
        taken = [(found.seq, found.seq) for found in awaiting]
        result += _between(taken, first, each.through_seq)
    return result


def before(ranges: Sequence[LeftOut], current: int) -> list[LeftOut]:
    """The parts of `ranges` before the input that is answered; what is behind it was left."""
    return [
        replace(each, through_seq=min(each.through_seq, current - 1))
        for each in ranges
        if each.from_seq < current
    ]


def with_branches(ranges: Sequence[LeftOut], sent: Iterable[int], last: int) -> list[LeftOut]:
    """`ranges` completed up to `last`, the newest seq of the session.

    Of what is neither `sent` nor in one of them nothing else is known: it is of a branch that was
    left.
    """
    taken = [(each.from_seq, each.through_seq) for each in ranges] + [(seq, seq) for seq in sent]
    return [*ranges, *_between(taken, 1, last)]


def _between(taken: Iterable[tuple[int, int]], start: int, end: int) -> list[LeftOut]:
    """What is left from `start` through `end` without `taken`: messages of other branches."""
    found = []
    position = start
    for first, through in sorted(taken):
        if position < first and position <= end:
            found.append(LeftOut(position, min(first - 1, end), OTHER_BRANCH))
        position = max(position, through + 1)
    if position <= end:
        found.append(LeftOut(position, end, OTHER_BRANCH))
    return found


def _from(ranges: Sequence[LeftOut], start: int) -> list[LeftOut]:
    """The parts of `ranges` from `start` on."""
    return [
        replace(each, from_seq=max(each.from_seq, start))
        for each in ranges
        if each.through_seq >= start
    ]
