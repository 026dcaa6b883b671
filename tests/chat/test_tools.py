"""Tools in a turn: one result for every call, calls and results together, rounds bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chat import events, llm, records, running
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord, DerivedText
from memory.tokens import count_definitions
from tests.fakes import FakeEndpoint, answer
from tests.orders import last_record, run_order, say, send
from tests.toolbox import ECHO, PATHS, asks, session_with_tools

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _tools(settings: Any) -> AsyncIterator[None]:
    settings.CHAT_TOOLS = PATHS
    yield
    await llm.aclose()


async def at(fake_endpoint: FakeEndpoint, **fields: Any) -> ChatSession:
    return await sync_to_async(session_with_tools)(fake_endpoint, **fields)


def messages_of(fake_endpoint: FakeEndpoint, number: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fake_endpoint.requests[number].body["messages"]
    return found


async def rows(chat_session: ChatSession) -> list[ChatMessage]:
    found = ChatMessage.objects.filter(chat_session=chat_session).order_by("seq")
    return [row async for row in found]


async def test_a_call_is_carried_out_and_its_result_sent_on(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", "echo", '{"text": "你好"}')), answer("It said 你好."))
    turn = await say(chat_session, "Use the echo.")
    assert turn.status == ChatTurn.Status.COMPLETED
    call = {"id": "c1", "type": "function"}
    function = {"name": "echo", "arguments": '{"text": "你好"}'}
    assert messages_of(fake_endpoint) == [
        {"role": "user", "content": "Use the echo."},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "你好"},
    ]
    question, asked, result, said = await rows(chat_session)
    assert (asked.content, asked.tool_calls) == (None, [{"id": "c1", **function}])
    assert (result.role, result.content, result.tool_call_id) == ("tool", "你好", "c1")
    assert (result.name, result.is_error, said.content) == ("echo", False, "It said 你好.")
    assert [row.parent_id for row in (asked, result, said)] == [
        question.pk,
        asked.pk,
        result.pk,
    ]
    await chat_session.arefresh_from_db()
    assert (chat_session.head_id, chat_session.message_count) == (said.pk, 4)
    assert (chat_session.path_count, chat_session.next_seq) == (4, 5)


async def test_every_request_has_its_record_with_its_own_usage(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", "echo", '{"text": "a"}')), answer("Done.", usage=(90, 10, 5)))
    turn = await say(chat_session, "Go.")
    first, second = [
        record async for record in ContextRecord.objects.filter(turn=turn).order_by("attempt")
    ]
    assert (first.attempt, second.attempt) == (1, 2)
    assert (second.input_tokens, second.output_tokens) == (90, 5)
    assert (turn.input_tokens, turn.output_tokens) == (90, 5)  # the first reported none
    for record, received in zip((first, second), fake_endpoint.requests, strict=True):
        rebuilt = await sync_to_async(records.rebuild)(record)
        sent = {key: value for key, value in received.body.items() if "stream" not in key}
        assert (rebuilt.request, rebuilt.proof) == (sent, "ok")
    kinds = [part["kind"] for part in second.manifest["parts"]]
    assert kinds == ["input", "running", "running"]


async def test_definitions_are_counted_and_stored_once(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(answer("a"), answer("b"))
    await say(chat_session, "one")
    await say(chat_session, "two")
    record = await last_record(chat_session)
    definitions = fake_endpoint.requests[0].body["tools"]
    assert definitions[0] == ECHO.definition
    counted = count_definitions(definitions, "o200k_base")
    assert record.manifest["tools"]["tokens"] == counted > 0
    stored = {each async for each in ContextRecord.objects.values_list("parameters", flat=True)}
    assert len(stored) == 1
    assert "Says the same." not in stored.pop()


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("nothing", "{}", "There is no tool 'nothing'"),
        ("echo", "{", "are not JSON"),
        ("echo", "[1]", "must be a JSON object"),
        ("echo", '{"text": 5}', "do not fit, at text"),
        ("echo", "{}", "'text' is a required property"),
        ("refuse", "{}", "Not today."),
        ("break", "{}", "break failed; the server's log says why."),
    ],
)
async def test_whatever_goes_wrong_is_the_result_of_the_call(
    fake_endpoint: FakeEndpoint, name: str, arguments: str, told: str
) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", name, arguments)), answer("Sorry."))
    turn = await say(chat_session, "Go.")
    assert turn.status == ChatTurn.Status.COMPLETED
    result = (await rows(chat_session))[2]
    assert result.is_error
    assert told in (result.content or "")
    assert "secret" not in (result.content or "")
    assert messages_of(fake_endpoint)[-1]["content"] == result.content


async def test_a_tool_that_takes_too_long_is_ended(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_TOOL_SECONDS = 0.2
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", "sleep", "{}")), answer("Too slow."))
    await say(chat_session, "Sleep.")
    assert "did not finish within 0.2 s" in ((await rows(chat_session))[2].content or "")


async def test_calls_side_by_side_get_one_result_each_in_order(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(
        asks(
            ("c1", "echo", '{"text": "1"}'),
            ("c1", "echo", '{"text": "2"}'),  # an id that is not its own
            ("", "refuse", "{}"),
        ),
        answer("All three."),
    )
    await say(chat_session, "Go.")
    _, asked, *results, _ = await rows(chat_session)
    ids = [call["id"] for call in asked.tool_calls]
    assert ids[0] == "c1"
    assert len(set(ids)) == 3
    assert [(row.tool_call_id, row.content) for row in results] == [
        (ids[0], "1"),
        (ids[1], "2"),
        (ids[2], "Error: Not today."),
    ]


async def test_rounds_are_bounded_and_the_last_answer_does_without_tools(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_TOOL_ROUNDS = 2
    chat_session = await at(fake_endpoint)
    once_more = [asks((f"c{n}", "echo", '{"text": "x"}')) for n in range(3)]
    fake_endpoint.replies(*once_more, answer("Enough."))
    turn = await say(chat_session, "For ever.")
    assert turn.status == ChatTurn.Status.COMPLETED
    assert len(fake_endpoint.requests) == 4
    assert [body.body.get("tool_choice") for body in fake_endpoint.requests] == [
        None,
        None,
        None,
        "none",
    ]
    results = [row.content for row in await rows(chat_session) if row.role == "tool"]
    assert results[:2] == ["x", "x"]
    assert "No further tools" in (results[2] or "")


async def test_a_model_that_never_stops_asking_fails_the_turn_with_every_call_answered(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_TOOL_ROUNDS = 1
    chat_session = await at(fake_endpoint)
    fake_endpoint.default = lambda body: asks(("c", "echo", '{"text": "x"}'))
    turn = await say(chat_session, "For ever.")
    assert (turn.status, turn.error_code) == ("failed", "too_many_tool_calls")
    stored = await rows(chat_session)
    asked = [call["id"] for row in stored for call in row.tool_calls]
    assert asked == [row.tool_call_id for row in stored if row.role == "tool"]


async def test_text_before_the_calls_is_kept_and_offsets_go_on(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(
        asks(("c1", "echo", '{"text": "x"}'), text="Let me see."), answer("It is x.")
    )
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    await run_order(send(chat_session, "What is it?"))
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["type"] != "turn.completed":
        frames.append(await asyncio.wait_for(reader.next(), 5))
    await running.detach(chat_session.pk, reader)
    text = ""
    for frame in frames:
        if frame["type"] == "turn.delta":
            assert frame["offset"] == len(text)
            text += frame["text"]
        elif frame["type"] == "turn.snapshot":
            text = frame["text"]
    assert text == "Let me see.\n\nIt is x."
    tools = [frame for frame in frames if frame["type"] == "turn.tool"]
    assert [(each["status"], each["result"]) for each in tools] == [
        ("running", None),
        ("done", "x"),
    ]
    assert {"type": "told.by.a.tool", "text": "hello"} in frames
    last = frames[-1]
    assert [step["role"] for step in last["steps"]] == ["assistant", "tool"]
    assert (last["steps"][0]["content"], last["message"]["content"]) == (
        "Let me see.",
        "It is x.",
    )


async def test_stop_while_a_tool_runs_stores_the_calls_with_a_result_each(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(
        asks(("c1", "echo", '{"text": "x"}'), ("c2", "sleep", "{}"), text="Wait."), answer("b")
    )
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    started = await running.start(send(chat_session, "Go."))
    while (frame := await reader.next()).get("name") != "sleep":
        assert frame["type"] != "turn.completed"
    await running.stop(chat_session.pk, started.turn_id, 5)
    await running.wait(chat_session.pk, started.turn_id)
    await running.detach(chat_session.pk, reader)
    turn = await ChatTurn.objects.aget(pk=started.turn_id)
    assert turn.status == ChatTurn.Status.STOPPED
    _, asked, first, second = await rows(chat_session)
    assert asked.content == "Wait."
    assert (first.content, second.is_error) == ("x", True)
    ended = await sync_to_async(events.ended)(turn.pk)
    assert ended is not None
    assert (ended["message"], len(ended["steps"])) == (None, 3)
    await say(chat_session, "And now?")  # what was sent is a whole group again
    assert [each["role"] for each in messages_of(fake_endpoint)] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]


async def test_the_next_turn_is_sent_calls_and_results_whole(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", "echo", '{"text": "x"}')), answer("x."), answer("y."))
    await say(chat_session, "one")
    await say(chat_session, "two")
    assert [(each["role"], each["content"]) for each in messages_of(fake_endpoint)] == [
        ("user", "one"),
        ("assistant", None),
        ("tool", "x"),
        ("assistant", "x."),
        ("user", "two"),
    ]
    record = await last_record(chat_session)
    assert record.manifest["source"] == "snapshot"


async def test_a_result_is_cut_when_stored_and_says_so(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_TOOL_RESULT_CHARS = 50
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", "long", '{"characters": 2000}')), answer("Long."))
    await say(chat_session, "Go.")
    result = (await rows(chat_session))[2].content or ""
    assert result.startswith("x" * 50 + "\n[… 1,950 more")


async def test_what_a_result_quotes_is_noted_beside_every_copy(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await at(fake_endpoint)
    fake_endpoint.replies(asks(("c1", "quote", "{}")), answer("Quoted."), answer("Again."))
    await say(chat_session, "Quote me.")
    await say(chat_session, "And now?")
    result = (await rows(chat_session))[2]
    derived = [each async for each in DerivedText.objects.all()]
    assert {(each.source_session, each.source_seq) for each in derived} == {(chat_session.pk, 1)}
    assert [each.message_id for each in derived if each.message_id] == [result.pk]
    assert len([each for each in derived if each.part_id]) == 2  # of this turn and of the next


async def test_no_tools_where_they_cannot_be(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await at(fake_endpoint, is_temporary=True)
    fake_endpoint.replies(answer("a"), answer("b"))
    await say(chat_session, "Go.")
    assert "tools" not in fake_endpoint.requests[-1].body
    chat_session = await at(fake_endpoint, memory_enabled=False)
    await say(chat_session, "Go.")
    offered = [each["function"]["name"] for each in fake_endpoint.requests[-1].body["tools"]]
    assert "quote" not in offered  # it uses memory
    assert "echo" in offered


async def test_hostile_names_and_texts_are_stored_as_they_can_be(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await at(fake_endpoint)
    text = json.dumps({"text": "a\u0000b \ud83d مرحبا 😄"})
    fake_endpoint.replies(asks(("c1", "echo", text), ("c2", "n" * 500, "{}")), answer("ok"))
    turn = await say(chat_session, "Go.")
    assert turn.status == ChatTurn.Status.COMPLETED
    results = [row for row in await rows(chat_session) if row.role == "tool"]
    assert results[0].content == "ab \ufffd مرحبا 😄"
    assert len(results[1].name) == 100
