"""Turns over REST: send, stream, stop, retry, regenerate, continue."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import leases, llm, retention, running
from chat.api import streams
from chat.hops import hop
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.running import registry
from chat.turns.going_on import IN_ENGLISH
from tests import builders
from tests.chat.api import AsyncApi, field_errors
from tests.fakes import FakeEndpoint, Reply, Say, Wait, answer, breaks_off, endless, failure

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    return builders.chat_session(assistant=builders.assistant(endpoint=endpoint))


@pytest.fixture
async def api(chat_session: ChatSession) -> AsyncIterator[AsyncApi]:
    yield await AsyncApi.of(chat_session.user)
    await llm.aclose()


def path(chat_session: ChatSession, rest: str = "") -> str:
    return f"/sessions/{chat_session.pk}/turns/{rest}"


def fresh_id() -> str:
    return str(uuid.uuid4())


async def send(api: AsyncApi, chat_session: ChatSession, text: str = "Hi", **body: Any) -> Any:
    """The response to a message."""
    body.setdefault("client_id", fresh_id())
    return await api.post(path(chat_session), {"text": text, **body})


async def sent(api: AsyncApi, chat_session: ChatSession, text: str = "Hi", **body: Any) -> Any:
    """The finished turn of a message."""
    response = await send(api, chat_session, text, **body)
    assert response.status_code == 200, response.content
    return response.json()


def code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


@sync_to_async
def stored() -> list[tuple[str, str | None, bool]]:
    """Role, text and whether it is on the chosen branch, of every message."""
    rows = ChatMessage.objects.order_by("seq")
    return list(rows.values_list("role", "content", "is_on_path"))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


# --- Answered with the finished turn --------------------------------------------------------------


async def test_a_sent_message_is_answered_with_the_finished_turn(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("Hel", "lo **青云** 😄", usage=(30, 10, 5)))
    turn = await sent(api, chat_session, "第一轮")
    assert (turn["status"], turn["number"], turn["answers"]) == ("completed", 1, 1)
    assert turn["usage"] == {"input": 30, "cached_input": 10, "output": 5}
    assert turn["message"]["content"] == "Hello **青云** 😄"
    assert "<strong>青云</strong>" in turn["message"]["html"]
    assert "cleaned" not in turn
    assert await stored() == [
        ("user", "第一轮", True),
        ("assistant", "Hello **青云** 😄", True),
    ]


async def test_the_second_turn_is_sent_with_the_first(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("已记住"), answer("青云-4173"))
    await sent(api, chat_session, "请记住校验短语“青云-4173”")
    await sent(api, chat_session, "校验短语是什么？")
    assert [each["content"] for each in fake_endpoint.requests[-1].body["messages"]] == [
        builders.PROMPT,
        "请记住校验短语“青云-4173”",
        "已记住",
        "校验短语是什么？",
    ]


async def test_a_failed_turn_is_answered_with_its_error(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(failure(400, "no such model"))
    turn = await sent(api, chat_session)
    assert (turn["status"], turn["message"]) == ("failed", None)
    told = {"code": "bad_request", "detail": "The model refused this request.", "retryable": False}
    assert turn["error"] == told  # the endpoint's address and words are for staff
    stored_detail = (await ChatTurn.objects.aget(pk=turn["id"])).error_detail
    assert stored_detail.startswith("127.0.0.1:")
    assert stored_detail.endswith("no such model")


async def test_the_same_client_id_again_is_the_same_turn(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    client_id = fresh_id()
    first = await sent(api, chat_session, client_id=client_id)
    assert await sent(api, chat_session, client_id=client_id) == first
    assert (len(fake_endpoint.requests), len(await stored())) == (1, 2)


async def test_five_requests_at_once_with_one_client_id_are_one_turn(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    client_id = fresh_id()
    turns = await asyncio.gather(*(sent(api, chat_session, client_id=client_id) for _ in range(5)))
    assert len({turn["id"] for turn in turns}) == 1
    assert (len(fake_endpoint.requests), len(await stored())) == (1, 2)


async def test_the_idempotency_key_stands_for_the_client_id(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    key = fresh_id()
    response = await api.post(path(chat_session), {"text": "Hi"}, **{"Idempotency-Key": key})
    assert response.json()["id"] == (await sent(api, chat_session, client_id=key))["id"]
    assert str((await ChatTurn.objects.aget()).client_id) == key


@pytest.mark.parametrize(
    ("header", "body", "field"),
    [
        (None, {}, "client_id"),
        (None, {"client_id": "5"}, "client_id"),
        ("nonsense", {}, "Idempotency-Key"),
        (fresh_id(), {"client_id": fresh_id()}, "Idempotency-Key"),
        (None, {"client_id": fresh_id(), "text": None}, "text"),
        (None, {"client_id": fresh_id(), "text": ""}, "text"),
        (None, {"client_id": fresh_id(), "text": "\x00"}, "text"),
        (None, {"client_id": fresh_id(), "parent": "none"}, "parent"),
        (None, {"client_id": fresh_id(), "attachments": ["x"]}, "attachments"),
    ],
)
async def test_an_order_that_cannot_be_read_is_named_and_begins_nothing(
    api: AsyncApi, chat_session: ChatSession, header: str | None, body: dict[str, Any], field: str
) -> None:
    headers = {} if header is None else {"Idempotency-Key": header}
    response = await api.post(path(chat_session), {"text": "Hi", **body}, **headers)
    assert field in field_errors(response)
    assert await stored() == []


async def test_text_over_the_limit_is_refused_with_the_numbers(
    api: AsyncApi, chat_session: ChatSession, settings: LazySettings
) -> None:
    settings.CHAT_MAX_MESSAGE_CHARS = 5
    response = await send(api, chat_session, "😄" * 6)
    assert code(response) == (422, "input_too_long")
    assert (response.json()["characters"], response.json()["limit"]) == (6, 5)
    assert await stored() == []


async def test_text_that_no_request_can_hold_is_refused_with_the_numbers(
    api: AsyncApi, chat_session: ChatSession
) -> None:
    response = await send(api, chat_session, "字" * 100_000)
    assert code(response) == (422, "input_too_long")
    assert response.json()["tokens"] > response.json()["limit"] > 0
    assert await stored() == []


async def test_blanks_alone_are_no_message(api: AsyncApi, chat_session: ChatSession) -> None:
    assert code(await send(api, chat_session, " \n\t ")) == (400, "empty_message")


async def test_what_was_taken_out_of_a_text_is_told(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await sent(api, chat_session, "a\x00b \ud800")
    assert turn["cleaned"] == ["text"]
    assert (await stored())[0] == ("user", "ab \ufffd", True)


async def test_a_message_to_what_is_no_longer_the_newest_is_a_conflict(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    newest = (await sent(api, chat_session))["message"]["id"]
    stale = await send(api, chat_session, "again", parent=None)
    assert code(stale) == (409, "stale_parent")
    assert stale.json()["head"] == newest
    await sent(api, chat_session, "again", parent=newest)


async def test_a_second_message_while_a_turn_runs_is_a_conflict(
    api: AsyncApi, chat_session: ChatSession
) -> None:
    await sync_to_async(hold)(chat_session)
    assert code(await send(api, chat_session)) == (409, "turn_in_progress")


def hold(chat_session: ChatSession) -> None:
    """A turn that runs in some other process."""
    turn = builders.turn(chat_session, builders.message(chat_session), status="running")
    leases.take(chat_session.pk, turn.pk)


async def test_more_turns_than_allowed_in_a_minute_are_refused(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_TURNS_PER_MINUTE = 2
    for _ in range(2):
        await sent(api, chat_session)
    refused = await send(api, chat_session)
    assert (code(refused), refused["Retry-After"]) == ((429, "rate_limited"), "60")
    assert len(await stored()) == 4


# --- Again ----------------------------------------------------------------------------------------


async def again(api: AsyncApi, chat_session: ChatSession, how: str, turn: Any) -> Any:
    return await api.post(path(chat_session, f"{turn['id']}/{how}/"), {"client_id": fresh_id()})


async def test_a_failed_turn_is_retried_with_the_same_input(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(breaks_off("half"), answer("whole"))
    failed = await sent(api, chat_session)
    assert failed["status"] == "failed"
    turn = (await again(api, chat_session, "retry", failed)).json()
    assert (turn["status"], turn["message"]["content"]) == ("completed", "whole")
    assert (turn["input"], turn["answers"]) == (failed["input"], 2)
    assert [text for role, text, _ in await stored() if role == "user"] == ["Hi"]


async def test_an_answer_is_made_again_beside_the_first(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("first"), answer("second"))
    first = await sent(api, chat_session)
    turn = (await again(api, chat_session, "regenerate", first)).json()
    assert (turn["message"]["content"], turn["answers"]) == ("second", 2)
    assert await stored() == [
        ("user", "Hi", True),
        ("assistant", "first", False),
        ("assistant", "second", True),
    ]


async def test_a_completed_turn_is_not_retried(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    done = await sent(api, chat_session)
    assert code(await again(api, chat_session, "retry", done)) == (409, "not_retryable")


async def test_an_answer_that_was_cut_goes_on_once_however_often_it_is_asked_to(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one two", reason="length"), answer("three"))
    cut = await sent(api, chat_session, "Count")
    address = path(chat_session, f"{cut['id']}/continue/")
    order = {"client_id": fresh_id()}
    first, second = [(await api.post(address, order)).json() for _ in range(2)]
    assert first == second
    assert (first["message"]["content"], first["number"]) == ("three", 2)
    assert await stored() == [
        ("user", "Count", True),
        ("assistant", "one two", True),
        ("user", IN_ENGLISH, True),
        ("assistant", "three", True),
    ]
    assert code(await again(api, chat_session, "continue", first)) == (409, "not_continuable")
    assert code(await again(api, chat_session, "continue", cut)) == (409, "stale_parent")


async def test_an_edited_message_stands_beside_the_first_and_is_answered(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("old"), answer("new"))
    first = await sent(api, chat_session, "frist")
    edit = f"/sessions/{chat_session.pk}/messages/{first['input']}/edit/"
    turn = (await api.post(edit, {"text": "first", "client_id": fresh_id()})).json()
    assert turn["message"]["content"] == "new"
    assert await stored() == [
        ("user", "frist", False),
        ("assistant", "old", False),
        ("user", "first", True),
        ("assistant", "new", True),
    ]


async def test_a_message_that_is_not_there_is_neither_edited_nor_shown(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    foreign = await sync_to_async(builders.message)(
        await sync_to_async(builders.chat_session)(), content="theirs"
    )
    for message_id in (foreign.pk, uuid.uuid4()):
        path_ = f"/sessions/{chat_session.pk}/messages/{message_id}"
        for body in ({"text": "x", "client_id": fresh_id()}, {}, {"text": 5}, {"nonsense": 1}):
            assert code(await api.post(f"{path_}/edit/", body)) == (404, "no_such_message")
        assert code(await api.post(f"{path_}/select/", {})) == (404, "no_such_message")
    assert await stored() == [("user", "theirs", True)]


async def test_the_branch_through_a_message_is_shown_again(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("first"), answer("second"))
    first = await sent(api, chat_session)
    await again(api, chat_session, "regenerate", first)
    path_ = f"/sessions/{chat_session.pk}/messages/"
    selected = await api.post(f"{path_}{first['message']['id']}/select/", {})
    chosen = {"head": first["message"]["id"], "seq": first["message"]["seq"]}
    assert (selected.status_code, selected.json()) == (200, chosen)
    shown = (await api.get(path_)).json()["results"]
    assert [row["content"] for row in shown] == ["Hi", "first"]


async def test_every_message_names_what_stands_in_its_place(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one"), answer("two"), answer("three"))
    first = await sent(api, chat_session, "frist")
    assert first["message"]["siblings"] == [first["message"]["id"]]
    second = (await again(api, chat_session, "regenerate", first)).json()
    answers = [first["message"]["id"], second["message"]["id"]]
    assert second["message"]["siblings"] == answers
    path_ = f"/sessions/{chat_session.pk}/messages/"
    edit = f"{path_}{first['input']}/edit/"
    body = {"text": "first", "client_id": fresh_id()}
    frames = await whole(await api.post(edit, body, Accept="text/event-stream"))
    accepted = dict(frames)["turn.accepted"]["message"]
    wordings = [first["input"], accepted["id"]]
    assert accepted["siblings"] == wordings
    shown = (await api.get(path_)).json()["results"]
    assert [row["siblings"] for row in shown] == [wordings, [shown[1]["id"]]]
    await api.post(f"{path_}{answers[0]}/select/", {})
    shown = (await api.get(path_)).json()["results"]
    assert [row["siblings"] for row in shown] == [wordings, answers]
    assert [row["continuations"] for row in shown] == [[], []]


async def test_what_a_failed_answer_took_the_place_of_is_still_named(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one"), failure(400))
    first = await sent(api, chat_session)
    failed = (await again(api, chat_session, "regenerate", first)).json()
    assert (failed["status"], failed["message"]) == ("failed", None)
    shown = (await api.get(f"/sessions/{chat_session.pk}/messages/")).json()["results"]
    assert [row["continuations"] for row in shown] == [[first["message"]["id"]]]


async def test_no_branch_is_chosen_while_a_turn_runs(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    done = await sent(api, chat_session)
    await sync_to_async(hold)(chat_session)
    path_ = f"/sessions/{chat_session.pk}/messages/{done['input']}/select/"
    assert code(await api.post(path_, {})) == (409, "turn_in_progress")


# --- Streamed -------------------------------------------------------------------------------------


Events = list[tuple[str, dict[str, Any]]]


def parse_events(body: bytes) -> Events:
    events: Events = []
    for block in body.decode().split("\n\n"):
        if block and not block.startswith(":"):
            name, data = block.split("\n", 1)
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


async def stream(api: AsyncApi, chat_session: ChatSession, **body: Any) -> Any:
    body = {"text": "Hi", "client_id": fresh_id(), **body}
    return await api.post(path(chat_session), body, Accept="text/event-stream")


async def whole(response: Any) -> Events:
    return parse_events(b"".join([chunk async for chunk in response.streaming_content]))


async def test_a_turn_is_streamed_as_server_sent_events(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("一", "二", "三\n\nline"))
    response = await stream(api, chat_session)
    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-cache"
    events = await whole(response)
    names = [name for name, _ in events]
    assert names[:2] == ["turn.accepted", "turn.context"]
    assert names[-1] == "turn.completed"
    text = "".join(frame["text"] for name, frame in events if name == "turn.delta")
    assert text == "一二三\n\nline"
    assert events[-1][1]["message"]["content"] == text
    assert {frame["turn"] for _, frame in events} == {events[0][1]["turn"]}


async def test_a_repeated_client_id_streams_the_end_of_the_same_turn(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    client_id = fresh_id()
    once = await whole(await stream(api, chat_session, client_id=client_id))
    again_ = await whole(await stream(api, chat_session, client_id=client_id))
    assert again_ == once[-1:]
    assert len(fake_endpoint.requests) == 1


async def test_a_refusal_of_a_stream_is_a_problem_document(
    api: AsyncApi, chat_session: ChatSession
) -> None:
    await sync_to_async(hold)(chat_session)
    response = await stream(api, chat_session)
    assert response["Content-Type"] == "application/problem+json"
    assert code(response) == (409, "turn_in_progress")
    assert chat_session.pk not in registry.registry().hubs


async def test_who_stops_reading_ends_nothing(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("first "), Wait(gate), *answer("last").steps]))
    response = await stream(api, chat_session)
    content = aiter(response.streaming_content)
    assert b"turn.accepted" in await anext(content)
    await asyncio.to_thread(response.close)  # as Django does when the client has gone
    await until(lambda: not registry.registry().hub(chat_session.pk).readers)
    gate.set()
    turn = await ChatTurn.objects.aget(chat_session=chat_session)
    await running.wait(chat_session.pk, turn.pk)
    await turn.arefresh_from_db()
    assert turn.status == "completed"
    assert (await stored())[-1] == ("assistant", "first last", True)


async def test_a_reader_that_left_is_forgotten(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await whole(await stream(api, chat_session))
    await until(lambda: chat_session.pk not in registry.registry().hubs)


async def test_a_stream_says_now_and_then_that_it_is_alive(
    api: AsyncApi,
    chat_session: ChatSession,
    fake_endpoint: FakeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)
    gate = threading.Event()
    fake_endpoint.replies(Reply([Wait(gate), *answer("late").steps]))
    response = await stream(api, chat_session)
    seen = b""
    async for chunk in response.streaming_content:
        seen += chunk
        if b": still here\n\n" in seen:
            gate.set()
    assert parse_events(seen)[-1][0] == "turn.completed"


async def test_stop_ends_a_stream_with_what_was_seen(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless("字", delay=0.005))
    response = await stream(api, chat_session)
    seen, stopping = b"", None
    async for chunk in response.streaming_content:
        seen += chunk
        if stopping is None and seen.count(b"\\u5b57") > 5:
            turn = parse_events(seen)[0][1]["turn"]
            stopping = await api.post(path(chat_session, f"{turn}/stop/"), {"seen": 3})
            assert (stopping.status_code, stopping.json()["id"]) == (202, turn)
    name, last = parse_events(seen)[-1]
    assert (name, last["message"]["content"]) == ("turn.stopped", "字字字")


async def test_a_session_that_is_deleted_meanwhile_ends_the_stream(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    response = await stream(api, chat_session)
    content = aiter(response.streaming_content)
    seen = await anext(content)
    await until(lambda: bool(fake_endpoint.requests))
    await hop(retention.forget_session, chat_session.pk)
    async for chunk in content:
        seen += chunk
    assert parse_events(seen)[-1][0] == "session.deleted"
    assert await fake_endpoint.requests[0].ended(5.0) == "disconnected"
    assert await stored() == []
    assert not await ChatTurn.objects.aexists()


async def test_a_session_that_is_deleted_meanwhile_is_not_found_for_who_waits(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    waiting = asyncio.create_task(send(api, chat_session))
    await until(lambda: bool(fake_endpoint.requests))
    await hop(retention.forget_session, chat_session.pk)
    assert code(await waiting) == (404, "not_found")
    assert await stored() == []


async def test_memory_that_is_cleared_meanwhile_stops_the_turn_and_keeps_its_text(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    waiting = asyncio.create_task(send(api, chat_session))
    await until(lambda: bool(fake_endpoint.requests) and fake_endpoint.requests[0].generated > 3)
    cleared = await hop(retention.clear_memory, chat_session.pk)
    turn = (await waiting).json()
    assert (turn["status"], cleared.memory_starts_after) == ("stopped", 2)
    fake_endpoint.replies(answer("What?"))
    await sent(api, chat_session, "Go on")
    assert [each["content"] for each in fake_endpoint.requests[-1].body["messages"]] == [
        builders.PROMPT,
        "Go on",
    ]


async def test_stop_says_how_much_was_seen_as_a_number(
    api: AsyncApi, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    done = await sent(api, chat_session)
    stop = path(chat_session, f"{done['id']}/stop/")
    for wrong in (-1, "all", 2**31):
        assert "seen" in field_errors(await api.post(stop, {"seen": wrong}))
    assert (await api.post(stop, {})).status_code == 202
    turn = await ChatTurn.objects.aget()
    assert (turn.status, turn.stop_requested) == ("completed", False)
