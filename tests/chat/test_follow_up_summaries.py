"""Rolling summaries: made after the turn, saved under what was read, and sent in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.db.models.functions import Now

from chat import dues, llm, retention
from chat.follow_ups import prompts, summarising
from chat.follow_ups.branch import Branch
from chat.models import Assistant, ChatMessage, ChatSession, ModelEndpoint
from chat.turns import branches
from memory import digests, summaries
from memory.models import ConversationSummary
from tests import builders
from tests.fakes import FakeEndpoint, Reply, answer, failure, tool_call
from tests.follow_ups import (
    Meanwhile,
    again,
    asked,
    asked_last,
    calls,
    due_rows,
    follow,
    saying,
    waiting,
    work_off,
)
from tests.orders import say, sent, session_at

pytestmark = pytest.mark.django_db(transaction=True)
FILLER = "and there is a good deal more to say about it, as people do when they talk at length. "
NOTHING_LEFT: dict[str, Any] = {
    "decisions": [],
    "constraints": [],
    "open_tasks": [],
    "facts": [],
    "outdated": [],
}


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture(autouse=True)
def _summaries_are_on(settings: LazySettings) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    settings.CHAT_DIGEST_ENABLED = False


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    """Six messages are sent; eight were said."""
    made = session_at(fake_endpoint, max_messages=6)
    Assistant.objects.update(summarize=True)
    ModelEndpoint.objects.update(max_retries=0)
    talk(made, 1, 4)
    return made


def talk(chat_session: ChatSession, first: int, last: int) -> None:
    for number in range(first, last + 1):
        builders.exchange(chat_session, f"Question {number} {FILLER}", f"Answer {number} {FILLER}")


def minutes(*seqs: int, kind: str = "facts", text: str = "Fact {}", **more: Any) -> dict[str, Any]:
    items = [{"text": text.format(seq), "seq": seq} for seq in seqs]
    return {**NOTHING_LEFT, kind: items, **more}


def versions() -> list[tuple[int, int, int, str]]:
    rows = ConversationSummary.objects.order_by("version")
    return list(rows.values_list("version", "covers_from", "covers_through", "text"))


async def summarise(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, *replies: Reply
) -> dict[str, int]:
    fake_endpoint.replies(*replies)
    return await follow(chat_session, "summary")


# --- Made -----------------------------------------------------------------------------------------


async def test_what_the_next_turn_would_lose_is_summarised_and_the_newest_part_is_not(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, 3)))
    assert await sync_to_async(versions)() == [(1, 1, 4, "Facts:\n- Fact 1\n- Fact 3")]
    row = await ConversationSummary.objects.aget()
    assert row.items == [
        {"kind": "facts", "text": "Fact 1", "seq": 1},
        {"kind": "facts", "text": "Fact 3", "seq": 3},
    ]
    last = await ChatMessage.objects.aget(seq=4)
    turns = [turn async for turn in chat_session.turns.order_by("number")]
    assert row.last_message == last.pk
    assert row.turns == [str(turn.pk) for turn in turns[:2]]
    assert (row.model_name, row.memory_epoch, row.token_encoding) == ("fake", 0, "o200k_base")
    assert 0 < row.token_count < row.source_tokens
    assert await sync_to_async(due_rows)() == []
    assert await sync_to_async(calls)() == [("summary", "")]


async def test_the_request_tells_only_what_is_to_be_covered_and_its_own_parameters(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await Assistant.objects.aupdate(parameters={"temperature": 0, "reasoning_effort": "high"})
    await ModelEndpoint.objects.aupdate(supports_json_schema=True)
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    body = fake_endpoint.requests[0].body
    assert set(body) == {"model", "messages", "max_tokens", "response_format"}
    assert body["response_format"]["json_schema"]["name"] == "conversation_summary"
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    assert body["messages"][0]["content"] == prompts.SUMMARY
    told = asked(fake_endpoint.requests[0])
    assert (told["task"], told["previous"]) == ("summary", [])
    assert [each["seq"] for each in told["messages"]] == [1, 2, 3, 4]
    assert told["messages"][0]["text"].startswith("Question 1 and there is")


async def test_an_endpoint_without_a_system_role_is_told_in_one_message(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await ModelEndpoint.objects.aupdate(strict_roles=True)
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    [message] = fake_endpoint.requests[0].body["messages"]
    assert message["role"] == "user"
    assert message["content"].startswith(prompts.SUMMARY)
    assert len(await sync_to_async(versions)()) == 1


async def test_nothing_is_due_while_the_window_holds_everything(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await ChatSession.objects.aupdate(max_messages=8)
    assert await follow(chat_session, "summary") == {"done": 1, "failed": 0, "given back": 0}
    assert fake_endpoint.requests == []


async def test_the_next_version_covers_what_follows_and_keeps_the_decisions_before_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    first = {
        **minutes(1),
        "decisions": [{"text": "Use Go", "seq": 2}],
        "open_tasks": [{"text": "Test", "seq": 3}],
    }
    await summarise(chat_session, fake_endpoint, saying(first))
    await sync_to_async(talk)(chat_session, 5, 6)
    second = {**minutes(5, kind="decisions", text="Release in May"), "outdated": ["p2"]}
    await summarise(chat_session, fake_endpoint, saying(second))
    told = asked_last(fake_endpoint)
    assert told["previous"] == [
        {"id": "p1", "kind": "decisions", "text": "Use Go"},
        {"id": "p2", "kind": "open_tasks", "text": "Test"},
        {"id": "p3", "kind": "facts", "text": "Fact 1"},
    ]
    assert [each["seq"] for each in told["messages"]] == [5, 6, 7, 8]
    assert (await sync_to_async(versions)())[1] == (
        2,
        1,
        8,
        "Decisions:\n- Use Go\n- Release in May\n\nFacts:\n- Fact 1",
    )


async def test_early_decisions_and_instructions_survive_thirty_turns(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_SUMMARY_MAX_TOKENS = 60
    rule = {"constraints": [{"text": "Always answer in French", "seq": 1}]}
    await summarise(chat_session, fake_endpoint, saying({**minutes(3), **rule}))
    for turn in range(5, 31):
        await sync_to_async(talk)(chat_session, turn, turn)
        fake_endpoint.default = lambda body: saying(minutes(body_seq(body), text="Fact number {}"))
        await follow(chat_session, "summary")
    newest = (await sync_to_async(versions)())[-1]
    assert newest[1:3] == (1, 56)
    assert newest[3].startswith("Constraints:\n- Always answer in French\n\nFacts:\n- Fact number")
    assert "Fact number 53" in newest[3]
    assert "Fact 3" not in newest[3]


def body_seq(body: dict[str, Any]) -> int:
    seqs = [each["seq"] for each in json.loads(body["messages"][-1]["content"])["messages"]]
    return int(seqs[0])


async def test_a_long_history_is_covered_chunk_by_chunk_each_within_its_limit(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_SUMMARY_CHUNK_TOKENS = 500
    await sync_to_async(talk)(chat_session, 5, 40)
    fake_endpoint.reject_above = 500 + 700 + 4 * settings.CHAT_SUMMARY_MAX_TOKENS
    fake_endpoint.default = lambda body: saying(minutes(body_seq(body)))
    await follow(chat_session, "summary")
    told = [
        [each["seq"] for each in asked(request)["messages"]] for request in fake_endpoint.requests
    ]
    assert [seq for seqs in told for seq in seqs] == list(range(1, 77))
    assert len(told) > 5
    rows = await sync_to_async(versions)()
    assert [row[0] for row in rows] == list(range(1, len(told) + 1))
    assert rows[-1][1:3] == (1, 76)


async def test_an_endpoint_that_finds_it_too_long_is_asked_for_half_as_much(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_SUMMARY_CHUNK_TOKENS = 2_000
    await sync_to_async(talk)(chat_session, 5, 60)
    too_long = failure(
        400, "This model's maximum context length is 900 tokens.", code="context_length_exceeded"
    )
    await summarise(chat_session, fake_endpoint, too_long)
    [(_, attempts, error)] = await sync_to_async(due_rows)()
    assert (attempts, error.split(":")[0]) == (1, "context_length")
    fake_endpoint.default = lambda body: saying(minutes(body_seq(body)))
    await again()
    first, second = (len(asked(each)["messages"]) for each in fake_endpoint.requests[:2])
    assert second <= first // 2 + 1
    assert await ConversationSummary.objects.aexists()


async def test_one_huge_message_is_shortened_in_its_middle(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_SUMMARY_CHUNK_TOKENS = 600
    await ChatMessage.objects.filter(seq=1).aupdate(
        content="BEGIN " + "字😀 word " * 30_000 + " END", token_count=None
    )
    await summarise(chat_session, fake_endpoint, saying(minutes(1)), saying(minutes(3)))
    text = asked(fake_endpoint.requests[0])["messages"][0]["text"]
    assert text.startswith("BEGIN")
    assert text.endswith("END")
    assert "characters left out" in text
    assert len(text) < 5_000


async def test_tool_calls_and_their_results_are_told_together_and_the_prompt_is_not(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await sync_to_async(_add_tool_turn)(chat_session)
    await sync_to_async(talk)(chat_session, 6, 7)
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    told = asked(fake_endpoint.requests[0])["messages"]
    assert [each["role"] for each in told[8:12]] == ["user", "assistant", "tool", "assistant"]
    assert told[9]["calls"] == [{"name": "lookup", "arguments": "{}"}]
    assert told[10]["text"].startswith("Result of the tool")
    assert builders.PROMPT not in str(told)


def _add_tool_turn(chat_session: ChatSession) -> None:
    question = builders.message(chat_session, "user", f"Look it up {FILLER}")
    turn = builders.turn(chat_session, question)
    call = {"id": "c1", "name": "lookup", "arguments": "{}"}
    builders.message(chat_session, "assistant", None, turn=turn, tool_calls=[call])
    builders.message(
        chat_session,
        "tool",
        f"Result of the tool {FILLER}",
        turn=turn,
        tool_call_id="c1",
        name="lookup",
    )
    builders.message(chat_session, "assistant", f"Found {FILLER}", turn=turn)


# --- Not made -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (failure(429, kind="rate_limit"), "rate_limited"),
        (failure(500), "provider_error"),
        (answer(""), "empty_answer"),
        (answer("<think>They talk about", " Go.</think>"), "reasoning"),
        (answer('<think>Hm.</think>{"facts": [{"text": "x", "seq": 1}]}'), "reasoning"),
        (tool_call("remember", {"text": "x"}), "tool_call"),
        (answer("They talked about many things."), "not_json"),
        (answer('{"facts": [{"text": "cut o', reason="length"), "cut_off"),
        (saying(NOTHING_LEFT), "bad_summary"),
        (saying(minutes(99)), "bad_summary"),
        (saying(minutes(7)), "bad_summary"),
        (saying(minutes(1, text="")), "bad_summary"),
        (saying(minutes(1, text=FILLER * 12)), "bad_summary"),
    ],
)
async def test_an_answer_that_is_no_summary_changes_nothing_and_is_backed_off(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, reply: Reply, code: str
) -> None:
    counts = await summarise(chat_session, fake_endpoint, reply)
    assert counts == {"done": 0, "failed": 1, "given back": 0}
    assert await sync_to_async(versions)() == []
    [(kind, attempts, error)] = await sync_to_async(due_rows)()
    assert (kind, attempts, error.split(":")[0]) == ("summary", 1, code)
    assert await sync_to_async(calls)() == [("summary", code)]
    assert await ChatMessage.objects.acount() == 8
    assert await work_off() == {"done": 0, "failed": 0, "given back": 0}  # backed off
    fake_endpoint.replies(saying(minutes(1)))
    await again()
    assert len(await sync_to_async(versions)()) == 1


async def test_a_failure_after_a_summary_keeps_that_one_in_use(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    await sync_to_async(talk)(chat_session, 5, 6)
    await summarise(chat_session, fake_endpoint, tool_call("x", {}))
    await say(chat_session, "And now?")
    assert "- Fact 1" in sent(fake_endpoint)[1]
    questions = [text.rpartition("Question ")[2][:1] for text in sent(fake_endpoint)[1:-1:2]]
    assert questions == ["3", "4", "5", "6"]  # what awaits its summary is sent word for word


async def test_small_talk_of_which_nothing_is_to_be_kept_does_not_keep_later_decisions_out(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(NOTHING_LEFT))
    for _ in range(summarising.ASKED_AGAIN):
        assert await sync_to_async(versions)() == []
        fake_endpoint.replies(saying(NOTHING_LEFT))
        await again()
    asked_about = [len(asked(each)["messages"]) for each in fake_endpoint.requests]
    assert asked_about == [4, 4, 4]  # no smaller part is asked about: that would hold less
    assert await sync_to_async(versions)() == [(1, 1, 4, summarising.NOTHING_TEXT)]
    assert await sync_to_async(due_rows)() == []
    await sync_to_async(talk)(chat_session, 5, 6)
    decided = minutes(5, kind="decisions", text="Decided in {}")
    await summarise(chat_session, fake_endpoint, saying(decided))
    assert (await sync_to_async(versions)())[-1] == (2, 1, 8, "Decisions:\n- Decided in 5")


@pytest.mark.parametrize(
    "reply",
    [
        answer("```json\n", '{"facts": [{"text": "Fact 1", "seq": 1}]}', "\n```"),
        answer('Here are the minutes: {"facts": [{"text": "Fact 1", "seq": 1}]} That is all.'),
    ],
)
async def test_json_in_a_fence_or_among_prose_is_read(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, reply: Reply
) -> None:
    await summarise(chat_session, fake_endpoint, reply)
    assert await sync_to_async(versions)() == [(1, 1, 4, "Facts:\n- Fact 1")]


async def test_two_objects_in_one_answer_are_none(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    one = '{"facts": [{"text": "Fact 1", "seq": 1}]}'
    await summarise(chat_session, fake_endpoint, answer(f"{one}\n{one}"))
    assert await sync_to_async(versions)() == []


# --- The truth late -------------------------------------------------------------------------------


async def clear(chat_session: ChatSession) -> None:
    await sync_to_async(retention.clear_memory)(chat_session.pk)


async def remove(chat_session: ChatSession) -> None:
    await sync_to_async(retention.forget_session)(chat_session.pk)


async def switch_off(chat_session: ChatSession) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_enabled=False)


async def stop_summarising(chat_session: ChatSession) -> None:
    await Assistant.objects.aupdate(summarize=False)


async def leave_branch(chat_session: ChatSession) -> None:
    """As an edit of the second question: what it covers leaves the branch, under the same epoch."""
    await ChatMessage.objects.filter(seq__gte=3).aupdate(is_on_path=False)


async def choose_branch(chat_session: ChatSession) -> None:
    first = await ChatMessage.objects.aget(seq=1)
    await sync_to_async(branches.select)(chat_session.pk, first.pk)


@pytest.mark.parametrize(
    "happening", [clear, remove, switch_off, stop_summarising, leave_branch, choose_branch]
)
async def test_a_summary_that_comes_after_its_reason_has_gone_is_not_saved(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, happening: Any
) -> None:
    meanwhile = Meanwhile(fake_endpoint, saying(minutes(1)))
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await meanwhile.do(lambda: happening(chat_session))
    assert await sync_to_async(versions)() == []


async def test_a_summary_that_staff_delete_while_the_next_is_made_does_not_come_back(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, text="Secret {}")))
    await sync_to_async(talk)(chat_session, 5, 6)
    meanwhile = Meanwhile(fake_endpoint, saying(minutes(5)))
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await meanwhile.do(lambda: sync_to_async(summarising.delete)(chat_session.pk))
    assert await sync_to_async(versions)() == []
    fake_endpoint.replies(saying(minutes(3)))
    await again()
    assert await sync_to_async(versions)() == [(1, 1, 8, "Facts:\n- Fact 3")]


async def test_temporary_sessions_and_sessions_without_memory_are_never_summarised(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    for change in ({"is_temporary": True}, {"is_temporary": False, "memory_enabled": False}):
        await ChatSession.objects.aupdate(**change)
        await follow(chat_session, "summary")
    assert fake_endpoint.requests == []


# --- Used -----------------------------------------------------------------------------------------


async def test_the_next_request_holds_the_summary_for_what_it_covers_and_the_rest_word_for_word(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    await say(chat_session, "And now?")
    contents = sent(fake_endpoint)
    assert contents[0] == builders.PROMPT
    assert "Summary of messages 1 to 4" in contents[1]
    assert "- Fact 1" in contents[1]
    assert contents[1].endswith(f"Question 3 {FILLER}")
    assert contents[2:] == [
        f"Answer 3 {FILLER}",
        f"Question 4 {FILLER}",
        f"Answer 4 {FILLER}",
        "And now?",
    ]
    assert await ChatMessage.objects.acount() == 10  # nothing was deleted


async def test_another_branch_uses_the_version_that_is_on_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    await sync_to_async(talk)(chat_session, 5, 6)
    await summarise(chat_session, fake_endpoint, saying(minutes(5)))
    branch = Branch(chat_session.pk, after=0)

    def in_use() -> int:
        found = summaries.usable(chat_session.pk, forget_line=0, reader=branch)
        return found.version if found is not None else 0

    assert await sync_to_async(in_use)() == 2
    await ChatMessage.objects.filter(seq__gte=7).aupdate(is_on_path=False)
    assert await sync_to_async(in_use)() == 1
    await ChatMessage.objects.filter(seq__gte=3).aupdate(is_on_path=False)
    assert await sync_to_async(in_use)() == 0


async def test_deleting_brings_the_history_back_word_for_word(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    assert await sync_to_async(summarising.delete)(chat_session.pk) == 1
    await say(chat_session, "And now?")
    contents = sent(fake_endpoint)
    assert "Summary" not in str(contents)
    assert contents[1] == f"Question 1 {FILLER}"
    assert len(contents) == 10


async def test_deleting_takes_the_digest_that_was_made_of_it_along(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, text="Wrong {}")))
    owner = chat_session.tenant_id, chat_session.user_id

    def digested() -> bool:
        plan = digests.plan(*owner)
        return plan is not None and digests.save(*owner, plan, "Something wrong.")

    assert await sync_to_async(digested)()
    await sync_to_async(summarising.delete)(chat_session.pk)
    assert await sync_to_async(digests.of)(*owner) is None
    assert "digest" in [kind for kind, *_ in await sync_to_async(due_rows)()]


async def test_regenerating_makes_the_same_coverage_anew_from_the_history_alone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, text="Wrong {}")))
    await sync_to_async(summarising.regenerate)(chat_session.pk)
    fake_endpoint.replies(saying(minutes(3, text="Right {}")))
    await work_off()
    assert asked_last(fake_endpoint)["previous"] == []
    assert await sync_to_async(versions)() == [
        (1, 1, 4, "Facts:\n- Wrong 1"),
        (2, 1, 4, "Facts:\n- Right 3"),
    ]
    assert await sync_to_async(due_rows)() == []


# --- Workers --------------------------------------------------------------------------------------


async def test_two_workers_at_once_make_one_summary(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.default = lambda body: saying(minutes(body_seq(body)), delay=0.05)
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await asyncio.gather(work_off(), work_off(), work_off())
    assert len(await sync_to_async(versions)()) == 1
    assert len(fake_endpoint.requests) == 1


async def test_a_claim_that_expired_is_taken_over_and_the_late_worker_saves_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, saying(minutes(1, text="Late {}")))
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)

    async def another_worker() -> None:
        await waiting().aupdate(claimed_until=Now())
        fake_endpoint.replies(saying(minutes(1, text="In time {}")))
        assert (await work_off())["failed"] == 0

    await meanwhile.do(another_worker)
    assert [row[3] for row in await sync_to_async(versions)()] == ["Facts:\n- In time 1"]
    assert await sync_to_async(due_rows)() == []
