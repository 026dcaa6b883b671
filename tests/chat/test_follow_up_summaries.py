"""Rolling summaries: what is due, what the model is told, and what of its answers is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import llm
from chat.follow_ups import prompts, summarising
from chat.models import Assistant, ChatMessage, ChatSession, ModelEndpoint
from memory.models import ConversationSummary
from tests import builders
from tests.chat.minutes import (
    FILLER,
    NOTHING_LEFT,
    body_seq,
    long_session,
    minutes,
    summarise,
    talk,
    versions,
)
from tests.fakes import FakeEndpoint, Reply, answer, failure, tool_call
from tests.follow_ups import again, asked, asked_last, calls, due_rows, follow, saying, work_off
from tests.orders import say, sent

pytestmark = pytest.mark.django_db(transaction=True)


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
    return long_session(fake_endpoint)


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
