"""Minimal cases out of public reports about other memory libraries."""

from __future__ import annotations

import time
from typing import Any

import pytest

from memory.chat_memory import ChatMemory
from memory.messages import Message, ToolCall
from memory.stores import InMemoryStore
from memory.tokens import MESSAGE_OVERHEAD, count_text, counter_for
from memory.window import WindowPolicy, WindowTooSmall, trim

U = Message.user
A = Message.assistant
T = Message.tool
S = Message.system
COUNT = counter_for("o200k_base")


def call(*ids: str, text: str | None = None, arguments: str = "{}") -> Message:
    return A(text, tuple(ToolCall(each, "f", arguments) for each in ids))


def preloaded(messages: list[Message], **policy: Any) -> ChatMemory:
    """A memory over a store that already holds `messages`."""
    store = InMemoryStore()
    store.replace("m", messages)
    return ChatMemory("m", WindowPolicy(**{"max_messages": 20, **policy}), store, COUNT)


# --- Tool calls and their results


@pytest.mark.parametrize("aligned", [True, False])
def test_a_history_that_begins_with_results_is_repaired_when_it_is_read(aligned: bool) -> None:
    """langchain4j#3133."""
    memory = preloaded([T("1", "a"), T("2", "b"), A("x")], align_to_turns=aligned)
    memory.add(U("u"))
    assert memory.messages() == [A("x"), U("u")]


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        # a result belongs to the nearest call before it with nothing but results between
        ([U("q"), call("1"), U("x"), T("1", "r")], [U("q"), U("x")]),
        ([U("q"), call("1", text="hm"), U("x"), T("1", "r")], [U("q"), A("hm"), U("x")]),
        # a group that is still being answered stays
        ([U("q"), call("1", "2"), T("1", "r")], [U("q"), call("1", "2"), T("1", "r")]),
        # without ids: inside the group, not outside
        ([U("q"), call(""), T("", "r"), A("x")], [U("q"), call(""), T("", "r"), A("x")]),
        ([U("q"), A("x"), T("", "r")], [U("q"), A("x")]),
    ],
)
def test_results_are_matched_inside_their_group_alone(
    stored: list[Message], read: list[Message]
) -> None:
    """langchain4j#4820."""
    assert preloaded(stored).messages() == read


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("limit", range(1, 9))
def test_no_limit_cuts_between_call_and_result(limit: int, aligned: bool) -> None:
    """openai-agents-python#4322, langchain#33245, langchain#38352, spring-ai#5940."""
    talk = [U("q"), call("1", "2"), T("1", "x"), T("2", "y"), A("a"), U("r"), A("b"), U("s")]
    kept = list(trim(talk, WindowPolicy(limit, align_to_turns=aligned), COUNT).kept)
    assert kept == talk[len(talk) - len(kept) :]
    assert not kept or kept[0].role != "tool"
    if aligned:
        assert kept[0].role == "user"


def test_below_its_limits_a_window_is_what_was_added() -> None:
    """litellm#10696: trimming dropped results although there was room."""
    talk = [S("s"), U("u"), call("1"), T("1", "x")]
    assert list(trim(talk, WindowPolicy(100, 100_000), COUNT).kept) == talk


def test_the_question_of_a_running_turn_is_never_pushed_out() -> None:
    """vaadin/flow-components#10146, langchain4j#2379, pydantic-ai#2050: it is an error instead."""
    memory = ChatMemory("m", WindowPolicy(4), InMemoryStore())
    memory.add(U("q"), call("1"), T("1", "x"), call("2"))
    with pytest.raises(WindowTooSmall, match="5 messages"):
        memory.add(T("2", "y"))
    assert memory.messages() == [U("q"), call("1"), T("1", "x"), call("2")]


def test_one_huge_result_is_an_error_with_numbers_and_not_an_empty_window() -> None:
    """langchain: a token limit and one huge tool result gave an empty list."""
    memory = ChatMemory("m", WindowPolicy(None, max_tokens=500), InMemoryStore())
    memory.add(U("q"), call("1"))
    with pytest.raises(WindowTooSmall) as refused:
        memory.add(T("1", "word " * 1_800))
    assert refused.value.tokens > 1_800
    assert memory.messages() == [U("q"), call("1")]


def test_what_is_added_at_once_is_never_split_by_another_writer() -> None:
    """langchain4j#1966: a question came in between a call and its result."""
    store = InMemoryStore()
    mine, other = (ChatMemory("m", WindowPolicy(20), store) for _ in range(2))
    mine.add(U("a"), call("1"), T("1", "x"), A("done"))
    other.add(U("b"))
    mine.add(A("late"))
    assert mine.messages()[:4] == [U("a"), call("1"), T("1", "x"), A("done")]


# --- Tokens


def test_calls_without_text_count_what_is_sent() -> None:
    """langchain4j#3409, #2974, llama_index#21950: they crashed, or counted as nothing."""
    assert COUNT(call("1")) > MESSAGE_OVERHEAD
    assert COUNT(call("1", "2", arguments='{"a":null}')) > COUNT(call("1"))
    huge = call("1", arguments='{"text": "' + "word " * 20_000 + '"}')
    assert COUNT(huge) > 20_000
    with pytest.raises(WindowTooSmall):
        trim([U("q"), huge], WindowPolicy(None, max_tokens=10_000), COUNT)


def test_lists_that_a_provider_would_refuse_are_counted_all_the_same() -> None:
    """langchain4j#4749."""
    for messages in ([T("1", "x"), U("a")], [U("a"), U("b")], [A(""), A("")]):
        assert sum(map(COUNT, messages)) >= MESSAGE_OVERHEAD * 2


def test_chinese_is_not_undercounted() -> None:
    """langchainjs#11304: 144 for what a tokenizer makes 780 of."""
    text = "项目代号是青云，请记住这个校验短语。" * 31
    assert len(text) == 558
    exact = count_text(text, "o200k_base")
    assert 0.95 * exact <= count_text(text, "estimate")


def test_reading_a_window_out_of_a_long_list_takes_milliseconds() -> None:
    """llama_index#12264: 1,000 messages took seconds, and twice as many four times as long."""
    messages = [each for n in range(1_000) for each in (U(f"q{n}"), A(f"a{n} " + "word " * 30))]
    trim(messages[:2], WindowPolicy(None, 3_000), COUNT)
    started = time.process_time()
    kept = trim(messages, WindowPolicy(None, 3_000), COUNT).kept
    assert time.process_time() - started < 1
    assert 100 < len(kept) < 200


# --- Windows and sets


def test_a_list_that_is_longer_than_the_limit_is_neither_changed_nor_kept() -> None:
    """langchain4j#5713: a fixed list crashed, a list of the caller's was trimmed."""
    memory = ChatMemory("m", WindowPolicy(2, align_to_turns=False), InMemoryStore())
    fixed = (U("1"), U("2"), U("3"))
    memory.set(fixed)
    assert memory.messages() == [U("2"), U("3")]
    given = list(fixed)
    memory.set(given)
    given.append(U("4"))
    assert memory.messages() == [U("2"), U("3")]
    assert len(given) == 4


def test_the_system_message_is_pinned_also_when_the_window_must_begin_with_a_user() -> None:
    """llama_index#23144, langchain4j#180."""
    memory = ChatMemory("m", WindowPolicy(None, max_tokens=60), InMemoryStore())
    memory.add(S("Answer briefly."))
    for n in range(20):
        memory.add(U(f"question {n}"), A(f"answer {n}"))
    found = memory.messages()
    assert found[0] == S("Answer briefly.")
    assert found[1].role == "user"
    assert sum(map(COUNT, found)) <= 60


def test_an_empty_answer_beside_calls_keeps_its_calls() -> None:
    """langchain4j#986, spring-ai#3342: text or calls were lost where there were both."""
    both = call("1", text="Let me look.")
    memory = ChatMemory("m", WindowPolicy(20), InMemoryStore())
    memory.add(U("q"), both, T("1", "x"), call("2"), T("2", ""), A("done"))
    assert memory.messages()[1] == both
    assert memory.messages()[3].tool_calls[0].id == "2"


@pytest.mark.parametrize("text", ["{,}", "{q}", "{{x}}", "{% if %}", "${y}", "#{z}", "%s", "$1"])
def test_text_is_never_a_template(text: str) -> None:
    """spring-ai#2961, #2618."""
    memory = ChatMemory("m", WindowPolicy(20), InMemoryStore())
    memory.add(S(text), U(text), A(text))
    assert memory.messages() == [S(text), U(text), A(text)]
