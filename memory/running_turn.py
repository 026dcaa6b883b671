"""What a running turn has said and done behind its input: calls of tools and their results.

All of it is sent, after the input. Only the results of tools give way, and only where the turn
would not fit even without any history: the longest are shortened, to one common size, in the copy
that is sent. What is stored stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.blocks import shortened_result
from memory.messages import Message
from memory.parts import HistoryMessage, Part, Scale, history_part, joined, with_content
from memory.window import repair_tools

RUNNING = "running"
SHORTENED = "shortened"


def answered_calls(
    running: Sequence[HistoryMessage],
) -> tuple[list[HistoryMessage], list[HistoryMessage]]:
    """What can be sent, each call with exactly its results, and what cannot."""
    repaired = repair_tools(
        [each.message for each in running], drop_unanswered=True, still_running=False
    )
    sent = [as_repaired(running[index], message) for index, message in repaired.kept]
    return sent, [running[index] for index in repaired.dropped]


def as_repaired(found: HistoryMessage, message: Message) -> HistoryMessage:
    """`found` as it can be sent: without calls that have no results it costs less than stored."""
    return found if message == found.message else replace(found, message=message, tokens=None)


def running_parts(running: Sequence[HistoryMessage], others: int, scale: Scale) -> list[Part]:
    """The parts of the running turn, its results as short as they must be beside `others` tokens.

    Where even the shortest do not fit they are given all the same; the caller has to look.
    """
    parts = joined([history_part(each, scale, RUNNING) for each in running], scale)
    results = [part.tokens for part in parts if _is_result(part)]
    said = sum(part.tokens for part in parts) - sum(results)
    size = _common_size(results, scale.room_beside(others + said))
    return [
        _shortened(part, size, scale) if _is_result(part) and part.tokens > size else part
        for part in parts
    ]


def _is_result(part: Part) -> bool:
    return part.sent.role == "tool"


def _common_size(sizes: Sequence[int], room: int) -> int:
    """The largest size to which all that are above it can be cut so that they fit into `room`."""
    ascending = sorted(sizes)
    for position, size in enumerate(ascending):
        share = room // (len(ascending) - position)
        if size > share:
            return max(share, 0)
        room -= size
    return max(sizes, default=0)


def _shortened(part: Part, size: int, scale: Scale) -> Part:
    """`part` with the longest beginning of its text that costs at most `size`, and a mark.

    At least the mark is there, unless it costs more than what it stands for.
    """
    text = part.sent.content
    best, shown, beyond = _cut(part, text, 0, scale), 0, len(text)
    attempt = min(max(size, 1), beyond - 1)
    while attempt > shown:
        cut = _cut(part, text, attempt, scale)
        if cut.tokens <= size:
            best, shown = cut, attempt
        else:
            beyond = attempt
        attempt = min(shown * 2, (shown + beyond) // 2) if shown else beyond // 2
    return best if best.tokens < part.tokens else part


def _cut(part: Part, text: str, shown: int, scale: Scale) -> Part:
    return with_content(part, shortened_result(text, shown), scale, mark=SHORTENED)
