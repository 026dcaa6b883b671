from __future__ import annotations

from typing import Any

import pytest

from memory.messages import Message, ToolCall
from memory.window import (
    MAX_MESSAGES,
    MAX_TOKENS,
    ORPHAN_TOOL,
    SYSTEM_REPLACED,
    WindowPolicy,
    WindowTooSmall,
    trim,
)

S = Message.system
U = Message.user
A = Message.assistant
T = Message.tool


def call(*ids: str, text: str | None = None) -> Message:
    return A(text, tuple(ToolCall(each, "f") for each in ids))


def words(message: Message) -> int:
    """A toy cost: one token a word."""
    return len((message.content or "").split())


def kept(messages: list[Message], count: Any = words, **policy: Any) -> list[Message]:
    return list(trim(messages, WindowPolicy(**policy), count).kept)


TALK = [U("q1"), A("a1"), U("q2"), A("a2"), U("q3"), A("a3")]


# --- Policies


@pytest.mark.parametrize("limit", [0, -1, True, False, 2.0, "2"])
def test_a_limit_that_is_no_positive_integer_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_messages is"):
        WindowPolicy(max_messages=limit)
    with pytest.raises(ValueError, match="max_tokens is"):
        WindowPolicy(max_tokens=limit)


def test_a_window_without_any_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="both None"):
        WindowPolicy(max_messages=None)


@pytest.mark.parametrize("stride", [-1, True, 20, 21])
def test_a_stride_that_cannot_be_is_refused(stride: Any) -> None:
    with pytest.raises(ValueError, match="stride is"):
        WindowPolicy(max_messages=20, stride=stride)


@pytest.mark.parametrize("bad", [None, U("x"), [None], [U("x"), "y"], 7])
@pytest.mark.parametrize("aligned", [True, False])
def test_what_is_no_list_of_messages_is_refused(bad: Any, aligned: bool) -> None:
    with pytest.raises(TypeError, match="Message"):
        trim(bad, WindowPolicy(3, align_to_turns=aligned), words)


# --- Whole exchanges


def test_the_oldest_exchange_goes_whole() -> None:
    trimmed = trim(TALK, WindowPolicy(5), words)
    assert list(trimmed.kept) == TALK[2:]
    assert trimmed.dropped == ((TALK[0], MAX_MESSAGES), (TALK[1], MAX_MESSAGES))


def test_equal_to_the_limit_fits() -> None:
    assert kept(TALK, max_messages=6) == TALK
    assert kept(TALK, max_messages=None, max_tokens=6) == TALK
    assert kept(TALK, max_messages=None, max_tokens=5) == TALK[2:]


def test_both_limits_hold_at_once() -> None:
    talk = [U("one two three"), A("x"), U("q"), A("a"), U("r"), A("b")]
    trimmed = trim(talk, WindowPolicy(6, max_tokens=4), words)
    assert list(trimmed.kept) == talk[2:]
    assert {reason for _, reason in trimmed.dropped} == {MAX_TOKENS}
    assert kept(talk, max_messages=2, max_tokens=100) == talk[4:]


def test_nothing_is_counted_without_a_token_limit() -> None:
    def never(message: Message) -> int:
        raise AssertionError("counted")

    assert kept(TALK, never, max_messages=4) == TALK[2:]


def test_what_stands_before_the_first_question_goes_first() -> None:
    assert kept([A("hello"), *TALK[:4]], max_messages=4) == TALK[:4]
    assert kept([A("hello"), *TALK[:2]], max_messages=3) == [A("hello"), *TALK[:2]]


def test_the_newest_exchange_is_never_evicted() -> None:
    with pytest.raises(WindowTooSmall, match=r"2 messages and 0 tokens.*max_messages=1"):
        trim(TALK, WindowPolicy(1), words)
    with pytest.raises(WindowTooSmall) as refused:
        trim([U("a b c"), A("d")], WindowPolicy(None, 3), words)
    assert (refused.value.messages, refused.value.tokens) == (2, 4)


def test_the_question_of_a_running_turn_with_many_tools_stays() -> None:
    running = [U("q"), call("1"), T("1", "x"), call("2"), T("2", "y")]
    assert kept([*TALK, *running], max_messages=5) == running


def test_a_tool_group_is_never_cut() -> None:
    group = [U("q"), call("1", "2"), T("1", "x"), T("2", "y"), A("done")]
    assert kept([*group, U("r"), A("b")], max_messages=6) == [U("r"), A("b")]
    assert kept([*group, U("r"), A("b")], max_messages=7) == [*group, U("r"), A("b")]


def test_results_without_a_call_and_calls_without_a_result_are_left_out() -> None:
    broken = [U("q"), call("1", "2"), T("1", "x"), A("done"), T("9", "orphan"), U("r"), A("b")]
    trimmed = trim(broken, WindowPolicy(20), words)
    assert list(trimmed.kept) == [U("q"), A("done"), U("r"), A("b")]
    assert trimmed.dropped == tuple((broken[i], ORPHAN_TOOL) for i in (1, 2, 4))


def test_text_beside_a_call_without_result_stays() -> None:
    assert kept([U("q"), call("1", text="Let me look."), U("r"), A("b")], max_messages=9) == [
        U("q"),
        A("Let me look."),
        U("r"),
        A("b"),
    ]


def test_calls_at_the_end_are_still_being_answered() -> None:
    running = [U("q"), call("1", "2"), T("1", "x")]
    assert kept(running, max_messages=9) == running


def test_a_result_that_comes_twice_is_sent_once() -> None:
    twice = [U("q"), call("1"), T("1", "x"), T("1", "x"), A("done")]
    assert kept(twice, max_messages=9) == [U("q"), call("1"), T("1", "x"), A("done")]


def test_calls_without_ids_are_paired_inside_their_group() -> None:
    group = [U("q"), call("", ""), T("", "x"), T("", "y"), A("done")]
    assert kept([*group, T("", "z")], max_messages=9) == group


def test_a_system_message_is_pinned_counted_and_moved_to_the_front() -> None:
    talk = [*TALK[:2], S("rules"), *TALK[2:]]
    assert kept(talk, max_messages=5) == [S("rules"), *TALK[2:]]
    assert kept(talk, max_messages=4) == [S("rules"), *TALK[4:]]
    assert kept(talk, max_messages=7, system_first=False) == talk


def test_the_newest_system_message_counts() -> None:
    trimmed = trim([S("old"), U("q"), S("new"), A("a")], WindowPolicy(9), words)
    assert list(trimmed.kept) == [S("new"), U("q"), A("a")]
    assert trimmed.dropped == ((S("old"), SYSTEM_REPLACED),)


# --- Stride


def window_starts(count: int, **policy: Any) -> list[int]:
    """The position where the window begins, for histories of 2, 4, ... messages."""
    talk = [each for n in range(count) for each in (U(f"q{n}"), A(f"a{n}"))]
    return [end - len(kept(talk[:end], **policy)) + 1 for end in range(2, 2 * count + 1, 2)]


def test_a_stride_moves_the_start_in_steps() -> None:
    assert window_starts(10, max_messages=8, stride=4) == [1, 1, 1, 1, 5, 5, 9, 9, 13, 13]
    assert window_starts(10, max_messages=8) == [1, 1, 1, 1, 3, 5, 7, 9, 11, 13]


def test_a_stride_never_sends_more_than_the_limit() -> None:
    for stride in range(8):
        for end, start in enumerate(window_starts(30, max_messages=8, stride=stride), start=1):
            assert 2 <= 2 * end - start + 1 <= 8


def test_a_stride_moves_message_exact_windows_too() -> None:
    talk = [U(str(n)) for n in range(1, 12)]
    policy = {"max_messages": 5, "align_to_turns": False, "stride": 3}
    assert kept(talk[:5], **policy) == talk[:5]
    assert kept(talk[:6], **policy) == talk[3:6]
    assert kept(talk[:8], **policy) == talk[3:8]
    assert kept(talk[:9], **policy) == talk[6:9]


# --- Message-exact (beside the cases of test_langchain4j_windows.py)


def test_message_exact_evicts_one_message_at_a_time() -> None:
    trimmed = trim(TALK, WindowPolicy(3, align_to_turns=False), words)
    assert list(trimmed.kept) == TALK[3:]
    assert [reason for _, reason in trimmed.dropped] == [MAX_MESSAGES] * 3


def test_message_exact_leaves_out_an_oversize_newest_message() -> None:
    talk = [U("a"), A("b"), U("far too many words")]
    trimmed = trim(talk, WindowPolicy(None, 3, align_to_turns=False), words)
    assert trimmed.kept == ()
    assert [reason for _, reason in trimmed.dropped] == [MAX_TOKENS] * 3


@pytest.mark.parametrize("aligned", [True, False])
def test_the_input_is_left_as_it_is(aligned: bool) -> None:
    given = [S("old"), *TALK, S("new"), T("9", "orphan")]
    before = list(given)
    trim(given, WindowPolicy(3, align_to_turns=aligned), words)
    assert given == before


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("text", ["青云-4173", "שלום", "😄", "a\x00b", "\ud83d", "x" * 1_000_000])
def test_text_is_anyones(text: str, aligned: bool) -> None:
    talk = [U(text), A(text)]
    assert kept(talk, max_messages=2, align_to_turns=aligned) == talk
