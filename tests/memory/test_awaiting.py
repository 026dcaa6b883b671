"""Evicted messages that no summary covers: read newest first, as far as they can be sent."""

from __future__ import annotations

from typing import Any

from memory.awaiting import MOST, read_awaiting
from memory.context import HistoryMessage, sent_tokens
from memory.history import rebuild
from tests.memory.conversation import ListReader, answered, asked, policy, seqs, state, talk


def awaiting(
    history: list[HistoryMessage],
    covered: int = 0,
    room: int | None = None,
    forget_line: int = 0,
    **limits: Any,
) -> tuple[list[int], list[int]]:
    """The seqs that wait, and the pages that were read for them."""
    reader = ListReader(history, forget_line)
    where, rules = state(history[-1].seq, forget_line), policy(**{"max_messages": 4, **limits})
    window = rebuild(reader, where, rules)
    reader.read.clear()
    found = read_awaiting(reader, window, where, rules, covered, room)
    return seqs(found), reader.read


def test_everything_between_the_summary_and_the_window_waits() -> None:
    assert awaiting(talk(10), covered=10)[0] == [11, 12, 13, 14, 15, 16]
    assert awaiting(talk(10))[0] == list(range(1, 17))


def test_nothing_is_read_where_nothing_waits() -> None:
    assert awaiting(talk(2)) == ([], [])
    assert awaiting(talk(10), covered=16) == ([], [])
    assert awaiting(talk(10), covered=18) == ([], [])
    assert awaiting(talk(10), forget_line=16) == ([], [])


def test_nothing_from_before_the_forget_line_waits() -> None:
    assert awaiting(talk(10), forget_line=12)[0] == [13, 14, 15, 16]


def test_whole_exchanges_as_far_as_there_is_room_and_always_the_newest() -> None:
    cost = sum(sent_tokens(each, "o200k_base") for each in talk(1))
    assert awaiting(talk(10), room=2 * cost)[0] == [13, 14, 15, 16]
    assert awaiting(talk(10), room=2 * cost - 1)[0] == [15, 16]
    assert awaiting(talk(10), room=0)[0] == [15, 16]


def test_the_cost_depends_on_the_room_and_not_on_the_history() -> None:
    _, short = awaiting(talk(500), room=600)
    found, long = awaiting(talk(20_000), room=600)
    assert long == short
    assert sum(long) <= 200
    assert found[-1] == 39_996


def test_without_a_known_room_a_thousand_messages_are_read_in_five_pages() -> None:
    found, pages = awaiting(talk(20_000))
    assert (pages, sum(pages)) == ([40, 80, 160, 320, 400], MOST)
    assert (len(found), found[0] % 2) == (MOST, 1)


def test_an_empty_window_leaves_its_newest_exchange_waiting() -> None:
    assert awaiting(talk(3), max_messages=1)[0] == [1, 2, 3, 4, 5, 6]


def test_a_page_that_ends_inside_an_exchange_is_cut_at_its_question() -> None:
    history = [answered(1, "Welcome"), *talk(20, first=2), *talk(3, first=42)]
    found, pages = awaiting(history, room=120, max_messages=6)
    assert pages == [40]
    assert found[0] % 2 == 0
    assert awaiting([answered(1, "Welcome"), *talk(4, first=2)])[0] == [1, 2, 3, 4, 5]


def test_failed_turns_between_them_come_along_for_their_reasons() -> None:
    history = [*talk(2), asked(5), asked(6), *talk(2, first=7)]
    assert awaiting(history)[0] == [1, 2, 3, 4, 5, 6]
