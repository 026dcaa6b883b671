"""Messages that the limits evicted from the window and that no summary covers yet.

They are sent all the same while there is room, so that nothing is lost between the turn that
evicts them and the summary that is made of them. They are read newest first, in pages, and no more
of them than can be sent.
"""

from __future__ import annotations

from memory.context import HistoryMessage, Window, sent_tokens
from memory.history import HistoryReader, MemoryPolicy, SessionState, whole
from memory.window import exchanges

MOST = 1_000
"""Messages that are read at most; a session that has more waits for its summaries."""

_FIRST_PAGE = 40


def read_awaiting(
    reader: HistoryReader,
    window: Window,
    state: SessionState,
    policy: MemoryPolicy,
    covered: int,
    room: int | None = None,
) -> tuple[HistoryMessage, ...]:
    """What follows the message at `covered` (0: no summary) up to the window, oldest first.

    Whole exchanges, the newest of them: at most `room` tokens, but always the newest one.
    """
    if window.before_seq <= max(covered, state.floor):
        return ()
    start = window.messages[0].seq if window.messages else state.newest_seq + 1
    rows: list[HistoryMessage] = []
    page_size, is_all = _FIRST_PAGE, False
    while not is_all and len(rows) < MOST and not _exceeds(rows, room, policy):
        limit = min(page_size, MOST - len(rows))
        page = reader.newest(rows[0].seq if rows else start, limit)
        found = [each for each in reversed(page) if each.seq > covered]
        rows = [*found, *rows]
        is_all = len(found) < limit
        page_size *= 2
    return _newest(whole(rows, is_all), room, policy)


def _exceeds(rows: list[HistoryMessage], room: int | None, policy: MemoryPolicy) -> bool:
    return room is not None and sum(sent_tokens(each, policy.encoding) for each in rows) > room


def _newest(
    rows: list[HistoryMessage], room: int | None, policy: MemoryPolicy
) -> tuple[HistoryMessage, ...]:
    groups = exchanges(rows, lambda each: each.message.role)
    first = len(groups)
    total = 0
    while first:
        total += sum(sent_tokens(each, policy.encoding) for each in groups[first - 1])
        if room is not None and total > room and first < len(groups):
            break
        first -= 1
    return tuple(each for group in groups[first:] for each in group)
