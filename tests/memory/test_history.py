from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.context import HistoryMessage, LeftOut, Window
from memory.history import extend, off, rebuild
from memory.messages import Message, ToolCall
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


def window(messages: list[HistoryMessage], forget_line: int = 0, **limits: Any) -> Window:
    newest = messages[-1].seq if messages else 0
    reader = ListReader(messages, forget_line)
    return rebuild(reader, state(newest, forget_line), policy(**limits))


def test_a_short_history_is_there_whole() -> None:
    found = window(talk(3))
    assert seqs(found.messages) == [1, 2, 3, 4, 5, 6]
    assert (found.left_out, found.source, found.before_seq) == ((), "rebuild", 0)


def test_no_history_is_an_empty_window() -> None:
    assert window([]) == Window((), (), "rebuild", policy=policy().described())


def test_the_limit_counts_history_alone() -> None:
    found = window(talk(23), max_messages=20)
    assert seqs(found.messages) == list(range(27, 47))
    assert found.left_out == (LeftOut(1, 26, "max_messages"),)


@pytest.mark.parametrize(("limit", "first"), [(2, 9), (3, 9), (4, 7), (9, 3), (10, 1)])
def test_whole_exchanges_only(limit: int, first: int) -> None:
    assert seqs(window(talk(5), max_messages=limit).messages) == list(range(first, 11))


def test_a_limit_that_holds_no_exchange_leaves_history_out_and_says_so() -> None:
    found = window(talk(5), max_messages=1)
    assert (found.messages, found.left_out) == ((), (LeftOut(1, 10, "max_messages"),))


def with_tools(first: int, results: int) -> list[HistoryMessage]:
    """An exchange in which a tool was called `results` times at once."""
    calls = [ToolCall(str(n), "look") for n in range(results)]
    return [
        asked(first),
        stored(first + 1, Message.assistant(None, calls)),
        *(stored(first + 2 + n, Message.tool(str(n), "found")) for n in range(results)),
        answered(first + 2 + results),
    ]


def test_an_exchange_that_only_its_tools_make_too_long_stays_while_it_is_the_newest() -> None:
    history = [*talk(1), *with_tools(3, results=4)]
    found = window(history, max_messages=3)
    assert seqs(found.messages) == list(range(3, 10))
    assert (found.left_out, found.before_seq) == ((LeftOut(1, 2, "max_messages"),), 1)
    assert seqs(window([*history, *talk(1, first=10)], max_messages=3).messages) == [10, 11]
    assert window(history, max_messages=1).messages == ()
    assert window(history, max_messages=3, max_tokens=20).messages == ()


def test_the_token_limit_cuts_where_it_is_crossed() -> None:
    heavy = [asked(1, "word " * 100), answered(2), *talk(2, first=3)]
    found = window(heavy, max_tokens=60)
    assert seqs(found.messages) == [3, 4, 5, 6]
    assert found.left_out == (LeftOut(1, 2, "max_tokens"),)
    assert seqs(window(heavy, max_tokens=60, max_messages=2).messages) == [5, 6]
    assert seqs(window(heavy, max_tokens=60, max_messages=None).messages) == [3, 4, 5, 6]


def test_the_mark_of_a_cut_off_answer_counts() -> None:
    count = {"tokens": 10, "encoding": "o200k_base"}
    whole = [stored(1, Message.user("q"), **count), answered(2, "a", **count)]
    cut = [whole[0], answered(2, "a", is_partial=True, **count)]
    assert seqs(window(whole, max_tokens=20).messages) == [1, 2]
    assert window(cut, max_tokens=20).messages == ()


def test_a_long_pause_puts_what_was_before_it_out_of_the_window() -> None:
    where = state(10, forget_line=2, idle_line=6)
    found = rebuild(ListReader(talk(5), 6), where, policy(max_messages=20))
    assert [each.seq for each in found.messages] == [7, 8, 9, 10]
    assert found.left_out == (LeftOut(1, 2, "before_forget_line"), LeftOut(3, 6, "idle"))
    earlier = state(10, forget_line=6, idle_line=2)
    assert rebuild(ListReader(talk(5), 6), earlier, policy(max_messages=20)).left_out == (
        LeftOut(1, 6, "before_forget_line"),
    )


def test_nothing_from_before_the_forget_line_comes_back() -> None:
    found = window(talk(5), forget_line=6)
    assert seqs(found.messages) == [7, 8, 9, 10]
    assert found.left_out == (LeftOut(1, 6, "before_forget_line"),)
    everything = window(talk(5), forget_line=10)
    assert (everything.messages, everything.left_out) == (
        (),
        (LeftOut(1, 10, "before_forget_line"),),
    )


def test_turns_without_an_answer_take_no_room_and_are_named() -> None:
    history = [*talk(2), asked(5), asked(6), answered(7, ""), *talk(1, first=8)]
    found = window(history, max_messages=4)
    assert seqs(found.messages) == [3, 4, 8, 9]
    assert found.left_out == (LeftOut(1, 2, "max_messages"), LeftOut(5, 7, "no_answer"))


def test_an_outage_of_a_thousand_turns_does_not_push_memory_out() -> None:
    history = [*talk(2), *(asked(seq) for seq in range(5, 1_005)), *talk(1, first=1_005)]
    found = window(history, max_messages=6)
    assert seqs(found.messages) == [1, 2, 3, 4, 1_005, 1_006]
    assert found.left_out == (LeftOut(5, 1_004, "no_answer"),)


def test_gaps_of_other_branches_are_named() -> None:
    history = [asked(1), answered(4), asked(5), answered(9)]
    assert window(history).left_out == (
        LeftOut(2, 3, "other_branch"),
        LeftOut(6, 8, "other_branch"),
    )


def test_regenerating_often_does_not_shrink_a_stepping_window() -> None:
    history = [asked(1), answered(40)]
    assert seqs(window(history, max_messages=20, stride=6).messages) == [1, 40]


def test_the_cost_depends_on_the_window_and_not_on_the_history() -> None:
    reader = ListReader(talk(5_000))
    rebuild(reader, state(10_000), policy(max_messages=20))
    assert reader.read == [24]


def test_history_at_and_after_the_current_input_is_not_read() -> None:
    reader = ListReader(talk(5))
    assert seqs(rebuild(reader, state(6), policy()).messages) == [1, 2, 3, 4, 5, 6]


def test_memory_off_says_so() -> None:
    found = off(state(10), policy(enabled=False))
    assert (found.messages, found.source) == ((), "off")
    assert found.left_out == (LeftOut(1, 10, "memory_off"),)
    assert off(state(0), policy(enabled=False)).left_out == ()


def test_why_it_was_rebuilt_is_in_the_source() -> None:
    assert rebuild(ListReader(talk(1)), state(2), policy(), "behind").source == "rebuild:behind"


def test_a_stride_keeps_the_beginning_of_consecutive_requests() -> None:
    starts = [window(talk(n), max_messages=8, stride=4).messages[0].seq for n in range(1, 11)]
    assert starts == [1, 1, 1, 1, 5, 5, 9, 9, 13, 13]


def test_a_session_may_set_a_smaller_limit_than_the_stride() -> None:
    assert policy(max_messages=2, stride=10).step == 1
    assert policy(max_messages=1, stride=10).step == 0
    assert policy(max_messages=None, max_tokens=9, stride=10).step == 10


@pytest.mark.parametrize(
    "limits", [{"max_messages": 0}, {"max_messages": None}, {"max_tokens": -1}]
)
def test_limits_that_no_window_can_have_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_"):
        policy(**limits)
    assert policy(enabled=False, **limits).enabled is False


def test_the_fingerprint_covers_what_the_window_depends_on() -> None:
    base = policy().fingerprint()
    assert len(base) == 64
    for change in (
        {"max_messages": 21},
        {"max_tokens": 100},
        {"stride": 2},
        {"encoding": "cl100k_base"},
    ):
        assert policy(**change).fingerprint() != base
    assert policy(use_preferences=False).fingerprint() == base


def test_a_window_that_could_not_begin_at_a_step_moves_on_to_the_next_one() -> None:
    cost = {"encoding": "o200k_base"}
    history = [
        stored(seq, Message.user("q") if seq % 2 else Message.assistant("a"), tokens=tokens, **cost)
        for seq, tokens in enumerate([10] * 8 + [4, 4], start=1)
    ]
    rules = policy(max_messages=12, max_tokens=30, stride=8)
    before = rebuild(ListReader(history), state(8), rules)
    assert (seqs(before.messages), before.before_seq) == ([7, 8], 5)
    after = extend(before, history[8:], state(8), rules)
    assert seqs(after.messages) == [9, 10]
    assert after.messages == rebuild(ListReader(history), state(10), rules).messages


def test_regenerating_carries_the_window_on_without_the_old_answer() -> None:
    before = window(talk(2))  # up to 4; the input is 5, its first answer 6, its second 7
    after = extend(before, [asked(5), answered(7)], state(4), policy())
    assert seqs(after.messages) == [1, 2, 3, 4, 5, 7]
    assert after.left_out == (LeftOut(6, 6, "other_branch"),)


# --- A window that is carried on equals one that is rebuilt

turns = st.lists(
    st.tuples(
        st.integers(0, 3),  # seqs taken by other branches before the question
        st.integers(0, 4),  # and before the answer
        st.sampled_from(["answer", "none", "empty", "partial", "two", "huge"]),
    ),
    min_size=1,
    max_size=30,
)


def turn_messages(seq: int, before: int, between: int, kind: str) -> list[HistoryMessage]:
    question = asked(seq + before + 1)
    answer_seq = question.seq + between + 1
    texts = {
        "none": [],
        "empty": [""],
        "two": ["one", "two"],
        "huge": ["word " * 60],
    }.get(kind, ["answer"])
    return [
        question,
        *(
            answered(answer_seq + index, text, is_partial=kind == "partial")
            for index, text in enumerate(texts)
        ),
    ]


@settings(max_examples=300, deadline=None)
@given(
    turns,
    st.sampled_from([1, 2, 3, 4, 6, 9, 12]),
    st.sampled_from([None, 25, 35, 45, 60, 90, 200]),
    st.sampled_from([0, 1, 2, 3, 5, 8]),
)
def test_a_window_carried_on_by_a_turn_is_what_a_rebuild_gives(
    turns: list[tuple[int, int, str]], max_messages: int, max_tokens: int | None, stride: int
) -> None:
    rules = policy(max_messages=max_messages, max_tokens=max_tokens, stride=stride)
    history: list[HistoryMessage] = []
    carried = Window((), (), "rebuild", policy=rules.described())
    for turn in turns:
        newest = history[-1].seq if history else 0
        added = turn_messages(newest, *turn)
        carried = extend(carried, added, state(newest), rules)
        history += added
        rebuilt = rebuild(ListReader(history), state(history[-1].seq), rules)
        assert carried.messages == rebuilt.messages
        assert carried.before_seq == rebuilt.before_seq
        assert len(carried.messages) <= max_messages
        for one, other in zip(carried.left_out, rebuilt.left_out, strict=True):
            assert (one.from_seq, one.through_seq) == (other.from_seq, other.through_seq)
            assert one.reason == other.reason or {one.reason, other.reason} == {
                "max_messages",
                "max_tokens",
            }
        covered = sum(each.through_seq - each.from_seq + 1 for each in carried.left_out)
        assert covered + len(carried.messages) == history[-1].seq
