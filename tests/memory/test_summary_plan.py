"""What a summary is due for and made from, over plain messages."""

from __future__ import annotations

import pytest

from memory.history import MemoryPolicy, rebuild
from memory.messages import Message, ToolCall
from memory.parts import sent_tokens
from memory.summary_plan import chunk, due_before, entries, shortened
from memory.tokens import count_text
from tests.memory.conversation import (
    ListReader,
    answered,
    asked,
    policy,
    seqs,
    state,
    stored,
    talk,
)

pytestmark = pytest.mark.pure
O200K = "o200k_base"


def due(messages: int, limits: MemoryPolicy, covered: int = 0, idle_line: int = 0) -> int:
    """What is due in a session of so many messages."""
    now = state(messages, forget_line=covered, idle_line=idle_line)
    reader = ListReader(talk(messages // 2), forget_line=now.floor)
    return due_before(rebuild(reader, now, limits), covered, idle_line, limits)


# --- When -----------------------------------------------------------------------------------------


def test_nothing_is_due_while_the_window_holds_everything() -> None:
    assert due(20, policy(max_messages=20)) == 0
    assert due(0, policy(max_messages=20)) == 0


def test_one_exchange_too_many_makes_everything_due_but_the_newest_half_of_the_window() -> None:
    assert due(22, policy(max_messages=20)) == 13  # 13 to 22 stay: ten messages
    assert due(10, policy(max_messages=6)) == 7  # two exchanges at least, though they are four


def test_after_a_summary_nothing_is_due_until_the_window_is_full_again() -> None:
    limits = policy(max_messages=20)
    assert [due(n, limits, covered=12) for n in (22, 24, 26, 28, 30, 32)] == [0, 0, 0, 0, 0, 0]
    assert due(34, limits, covered=12) == 25


def test_a_limit_of_tokens_keeps_about_half_of_its_tokens() -> None:
    each = sum(sent_tokens(message, O200K) for message in talk(1))
    assert due(40, policy(max_messages=None, max_tokens=20 * each)) == 0
    assert due(42, policy(max_messages=None, max_tokens=20 * each)) == 23


def test_where_the_window_holds_one_exchange_the_one_before_it_stays_too() -> None:
    assert due(10, policy(max_messages=2)) == 7
    assert due(4, policy(max_messages=2)) == 1  # and then there is nothing to cover before it


def test_what_a_pause_put_out_of_the_window_is_due() -> None:
    assert due(12, policy(max_messages=20), idle_line=8) == 9
    assert due(12, policy(max_messages=20), covered=8, idle_line=8) == 0


# --- From what ------------------------------------------------------------------------------------


def test_a_chunk_is_whole_exchanges_from_the_oldest_on() -> None:
    found = chunk(talk(10), before=13, limit=10_000, encoding=O200K, is_end=True)
    assert found is not None
    assert seqs(found.covered) == seqs(found.sent) == list(range(1, 13))


def test_a_chunk_holds_about_its_tokens_and_at_least_one_exchange() -> None:
    rows = talk(10)
    small = chunk(rows, before=21, limit=1, encoding=O200K, is_end=True)
    assert small is not None
    assert seqs(small.covered) == [1, 2]
    two = chunk(rows, before=21, limit=2 * small.tokens, encoding=O200K, is_end=True)
    assert two is not None
    assert seqs(two.covered) == [1, 2, 3, 4]


def test_the_last_exchange_of_a_page_waits_for_the_rest_of_it() -> None:
    found = chunk(talk(3)[:5], before=99, limit=10_000, encoding=O200K, is_end=False)
    assert found is not None
    assert seqs(found.covered) == [1, 2, 3, 4]
    assert chunk(talk(1), before=99, limit=10_000, encoding=O200K, is_end=False) is None


def test_a_tool_group_is_never_cut() -> None:
    call = ToolCall("c1", "lookup", '{"q": "x"}')
    rows = [
        asked(1),
        stored(2, Message.assistant(None, [call])),
        stored(3, Message.tool("c1", "what the tool said " * 200, name="lookup")),
        answered(4),
        *talk(2, first=5),
    ]
    found = chunk(rows, before=9, limit=50, encoding=O200K, is_end=True)
    assert found is not None
    assert seqs(found.sent) == [1, 2, 3, 4]
    told = entries(found.sent, 200, O200K)
    assert told[1]["calls"] == [{"name": "lookup", "arguments": '{"q": "x"}'}]
    assert told[2]["name"] == "lookup"
    assert "characters left out" in told[2]["text"]
    assert told[2]["text"].startswith("what the tool said")


def test_turns_without_an_answer_are_covered_and_not_told() -> None:
    rows = [asked(1), *talk(1, first=2), asked(4), *talk(2, first=5)]
    found = chunk(rows, before=7, limit=10_000, encoding=O200K, is_end=True)
    assert found is not None
    assert (seqs(found.covered), seqs(found.sent)) == ([1, 2, 3, 4, 5, 6], [2, 3, 5, 6])
    assert chunk([asked(1), asked(2)], 9, 10_000, O200K, is_end=True) is None


def test_an_answer_that_was_cut_off_says_so() -> None:
    told = entries([asked(1), answered(2, "half of", is_partial=True)], 1_000, O200K)
    assert told == [
        {"seq": 1, "role": "user", "text": "question 1"},
        {
            "seq": 2,
            "role": "assistant",
            "text": "half of\n\n[This answer was cut off before it was finished.]",
        },
    ]


def test_only_what_is_too_long_is_shortened_and_in_its_middle() -> None:
    huge = "begin " + "x y z " * 20_000 + "end"
    told = entries([asked(1, "short"), answered(2, huge)], 500, O200K)
    assert told[0]["text"] == "short"
    text = told[1]["text"]
    assert text.startswith("begin x y z")
    assert text.endswith("x y z end")
    assert "characters left out" in text
    assert sum(count_text(each["text"], O200K) for each in told) <= 500


@pytest.mark.parametrize("text", ["a" * 1_000_000, "字" * 300_000, "😀" * 200_000, "\n" * 300_000])
def test_a_text_of_any_kind_is_shortened_to_its_share(text: str) -> None:
    cut = shortened(text, 300, O200K)
    assert count_text(cut, O200K) <= 300
    assert len(cut) > 100
