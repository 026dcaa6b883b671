"""Minimal cases out of public reports about other memory libraries, on whole requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memory.awaiting import read_awaiting
from memory.blocks import SummaryText, summary_block
from memory.context import Assembled, Budget, HistoryMessage, assemble
from memory.history import rebuild
from memory.messages import Message, ToolCall
from tests.memory.conversation import ListReader, answered, asked, policy, state, stored, talk


def call(seq: int, *ids: str) -> HistoryMessage:
    return stored(seq, Message.assistant(None, [ToolCall(each, "look") for each in ids]))


def result(seq: int, id: str, text: str = "found") -> HistoryMessage:  # noqa: A002
    return stored(seq, Message.tool(id, text))


def request(
    history: Sequence[HistoryMessage],
    *,
    summary: SummaryText | None = None,
    running: Sequence[HistoryMessage] = (),
    budget: int = 28_017,
    **limits: Any,
) -> Assembled:
    """The request for the next message, as the product puts it together."""
    newest = history[-1].seq if history else 0
    reader, where = ListReader(list(history)), state(newest, last_seq=newest + 1 + len(running))
    rules = policy(**limits)
    window = rebuild(reader, where, rules)
    covered = summary.covers_through if summary else 0
    waits = read_awaiting(reader, window, where, rules, covered) if rules.summarize else ()
    return assemble(
        prompt="",
        window=window,
        current=asked(newest + 1, "And now?"),
        running=running,
        summary=summary,
        awaiting=waits,
        budget=Budget(budget, 0, 0),
        encoding="o200k_base",
    )


def summarized(through: int, version: int = 1) -> SummaryText:
    return SummaryText(version, version, f"what was said up to {through}", 1, through)


def sent(assembled: Assembled) -> list[str]:
    """Each message as its role and text; of a tool's result only the id."""
    return [
        f"tool {each.tool_call_id}" if each.role == "tool" else f"{each.role}: {each.content}"
        for each in assembled.messages
    ]


def left_out(assembled: Assembled) -> list[tuple[int, int, str]]:
    found = assembled.manifest["left_out"]
    return [(each["from"], each["through"], each["reason"]) for each in found]


# --- Tool groups and questions


@pytest.mark.parametrize("limit", range(1, 6))
def test_a_limit_between_call_and_result_takes_both_or_none(limit: int) -> None:
    """openai-agents-python#4322, langchain#33245, langchain#38352."""
    history = [asked(1), call(2, "1"), result(3, "1"), answered(4), asked(5), answered(6)]
    messages = request(history, max_messages=limit).messages
    calls = [made.id for each in messages for made in each.tool_calls]
    assert [each.tool_call_id for each in messages if each.role == "tool"] == calls
    assert messages[0].role == "user"


def test_a_result_whose_call_was_never_stored_does_not_break_the_next_turns() -> None:
    """openai-agents-python#4827."""
    history = [asked(1), result(2, "1"), answered(3), *talk(1, first=4)]
    assembled = request(history)
    assert sent(assembled) == [
        "user: question 1",
        "assistant: answer 3",
        "user: question 4",
        "assistant: answer 5",
        "user: And now?",
    ]
    assert left_out(assembled) == [(2, 2, "orphan_tool")]


def test_one_huge_result_leaves_the_question_and_its_call() -> None:
    """langchain: start_on=human and one huge tool result gave an empty list."""
    running = [call(2, "1"), result(3, "1", "x y " * 2_250)]
    assembled = request([], running=running, budget=500)
    assert sent(assembled) == ["user: And now?", "assistant: ", "tool 1"]
    assert assembled.manifest["parts"][-1]["mark"] == "shortened"


def test_parallel_calls_are_summarised_and_evicted_as_one() -> None:
    """langmem#126: the summary ended after the first result, the second was an orphan."""
    group = [asked(1), call(2, "1", "2"), result(3, "1", "word " * 1_000), result(4, "2")]
    history = [*group, answered(5), *talk(1, first=6)]
    assembled = request(history, max_tokens=1_000)
    assert sent(assembled) == ["user: question 6", "assistant: answer 7", "user: And now?"]
    assert left_out(assembled) == [(1, 5, "max_tokens")]
    for through in (3, 4, 5):
        covered = request(history, summary=summarized(through), summarize=True)
        assert "tool 1" not in sent(covered)
        assert "tool 2" not in sent(covered)


def test_below_its_budget_a_request_is_what_was_said() -> None:
    """litellm#10696: trimming dropped results although there was room."""
    history = [asked(1), call(2, "1"), result(3, "1"), answered(4)]
    assembled = request(history)
    assert [each.role for each in assembled.messages] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert (left_out(assembled), assembled.manifest["preferences_left_out"]) == ([], [])


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_the_pair_in_flight_is_not_offered_for_trimming(limit: int) -> None:
    """pydantic-ai#2050: "keep the last" split the calls of the current run."""
    running = [call(6, "1", "2"), result(7, "1"), result(8, "2"), call(9, "3"), result(10, "3")]
    assembled = request(talk(2), running=running, max_messages=limit)
    assert sent(assembled)[-6:] == [
        "user: And now?",
        "assistant: ",
        "tool 1",
        "tool 2",
        "assistant: ",
        "tool 3",
    ]


# --- Summaries


def test_a_summary_of_the_window_deletes_nothing_older_and_names_its_range() -> None:
    """openai-agents-python#5010: limit 10, 50 messages; compacting lost the other 40."""
    history = talk(25)
    limits: dict[str, Any] = {"max_messages": 10, "summarize": True}
    before = request(history, **limits)
    assert before.manifest["window"] == {"from_seq": 1, "through_seq": 50, "messages": 50}
    after = request(history, summary=summarized(44), **limits)
    assert after.manifest["window"] == {"from_seq": 45, "through_seq": 50, "messages": 6}
    assert left_out(after) == [(1, 44, "covered_by_summary")]
    assert (
        after.manifest["summary"]["covers_from"],
        after.manifest["summary"]["covers_through"],
    ) == (1, 44)
    assert request(history, max_messages=50).manifest["window"]["messages"] == 50


def test_while_no_summary_comes_about_nothing_is_lost() -> None:
    """langchain#38867: the summary call failed, and history was deleted all the same."""
    for exchanges in (5, 6, 7, 8):
        assembled = request(talk(exchanges), max_messages=4, summarize=True)
        assert assembled.manifest["window"]["messages"] == 2 * exchanges
        assert left_out(assembled) == []
    tight = request(talk(8), max_messages=4, summarize=True, budget=60)
    assert left_out(tight) == [(1, 10, "awaiting_summary")]


def test_what_follows_the_summary_is_sent_word_for_word() -> None:
    """letta#2601, #2512: messages after the cutoff, and the last question, were lost."""
    assembled = request(talk(2), summary=summarized(2), summarize=True)
    assert sent(assembled) == [
        f"user: {summary_block(summarized(2))}question 3",
        "assistant: answer 4",
        "user: And now?",
    ]


def test_the_next_summary_covers_what_follows_the_last_one() -> None:
    """langmem#118: a new summary did not merge with the old one."""
    history = talk(12)
    limits: dict[str, Any] = {"max_messages": 8, "summarize": True}
    first = request(history[:16], summary=summarized(10), **limits)
    between = request(history, summary=summarized(10), **limits)
    second = request(history, summary=summarized(18, version=2), **limits)
    assert [left_out(each) for each in (first, between, second)] == [
        [(1, 10, "covered_by_summary")],
        [(1, 10, "covered_by_summary")],
        [(1, 18, "covered_by_summary")],
    ]
    starts = [each.manifest["window"]["from_seq"] for each in (first, between, second)]
    assert starts == [11, 11, 19]
    assert "".join(sent(second)).count("<conversation_summary>") == 1
    assert second.manifest["summary"]["version"] == 2
