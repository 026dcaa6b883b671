"""The websocket: who may come in, what frames do, what is told to whom."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from chat import llm, retention
from chat.models import ChatMessage, ChatSession, ChatTurn, Membership
from chat.running import registry
from chat.turns.going_on import ENGLISH
from chatproject.asgi import application
from tests import builders
from tests.fakes import FakeEndpoint, Reply, Say, Wait, answer, endless, failure

pytestmark = pytest.mark.django_db(transaction=True)
ORIGIN = "http://testserver"
ENDS = {"turn.completed", "turn.stopped", "turn.failed", "turn.interrupted"}


@pytest.fixture(autouse=True)
async def _close_clients(settings: Any) -> AsyncIterator[None]:
    settings.ALLOWED_HOSTS = ["testserver"]
    yield
    await llm.aclose()


@pytest.fixture
def alice() -> Any:
    return builders.user("alice")


@pytest.fixture
def chat_session(alice: Any, fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    return builders.chat_session(alice, assistant=builders.assistant(endpoint=endpoint))


class Socket(ApplicationCommunicator):
    """A websocket of a signed-in person, with the frames that have come so far."""

    def __init__(
        self, person: Any, session_id: Any, *, origin: str = ORIGIN, host: str = "testserver"
    ) -> None:
        headers = [(b"host", host.encode()), (b"origin", origin.encode())]
        if person is not None:
            client = Client()
            client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
            headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
        path = f"/ws/chat/{session_id}/"
        scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers}
        super().__init__(application, scope)
        self.frames: list[dict[str, Any]] = []

    async def open(self) -> dict[str, Any]:
        """Connect and take the first frame."""
        await self.send_input({"type": "websocket.connect"})
        assert (await self.receive_output(5))["type"] == "websocket.accept"
        return await self.next()

    async def refused(self) -> int:
        """Connect and take the code that the socket is closed with."""
        await self.send_input({"type": "websocket.connect"})
        accepted = await self.receive_output(5)
        assert accepted["type"] == "websocket.accept"  # only then a browser sees the code
        return await self.closed()

    async def closed(self) -> int:
        while (output := await self.receive_output(5))["type"] != "websocket.close":
            pass
        await self.disconnect()
        return int(output["code"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def say(self, type_: str, **fields: Any) -> None:
        await self.send_text(json.dumps({"type": type_, **fields}))

    async def next(self) -> dict[str, Any]:
        text = (await self.receive_output(5))["text"]
        self.frames.append(json.loads(text.encode()))  # what cannot be UTF-8 cannot be sent
        return self.frames[-1]

    async def until(self, *types: str) -> dict[str, Any]:
        while (await self.next())["type"] not in types:
            pass
        return self.frames[-1]

    def text(self) -> str:
        """What a page that follows the offsets shows; fails on a gap."""
        shown = ""
        for frame in self.frames:
            if frame["type"] == "turn.snapshot":
                shown = frame["text"]
            elif frame["type"] == "turn.delta":
                assert frame["offset"] == len(shown)
                shown += frame["text"]
        return shown


async def socket(person: Any, chat_session: ChatSession) -> Socket:
    made = await sync_to_async(Socket)(person, chat_session.pk)
    await made.open()
    return made


# --- Coming in ------------------------------------------------------------------------------------


async def test_a_socket_is_greeted_with_the_state_of_its_session(
    alice: Any, chat_session: ChatSession
) -> None:
    made = await sync_to_async(Socket)(alice, chat_session.pk)
    ready = await made.open()
    await made.disconnect()
    assert ready == {
        "type": "session.ready",
        "session": str(chat_session.pk),
        "title": "",
        "head": None,
        "limits": {
            "max_message_chars": 200_000,
            "max_frame_bytes": 1_048_576,
            "max_attachments": 4,
            "max_attachment_bytes": 5_242_880,
        },
        "memory": {"enabled": True, "starts_after": 0},
        "running": None,
    }


async def test_nobody_comes_in_without_signing_in(chat_session: ChatSession) -> None:
    assert await Socket(None, chat_session.pk).refused() == 4401


async def test_a_foreign_session_and_an_unknown_one_are_refused_alike(
    chat_session: ChatSession,
) -> None:
    bob = await sync_to_async(builders.user)("bob")
    foreign = await sync_to_async(Socket)(bob, chat_session.pk)
    unknown = await sync_to_async(Socket)(bob, uuid.uuid4())
    assert await foreign.refused() == 4404
    assert await unknown.refused() == 4404


async def test_a_session_of_another_tenant_of_the_same_person_is_not_found(
    alice: Any, chat_session: ChatSession
) -> None:
    other = await sync_to_async(builders.tenant)("other")
    await Membership.objects.acreate(user=alice, tenant=other)
    made = await sync_to_async(Socket)(alice, chat_session.pk)
    assert await made.refused() == 4404


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "testserver"),
        ("", "testserver"),
        ("null", "testserver"),
        ("http://evil.example", "evil.example"),  # rebinding: the host itself is not ours
        ("http://testserver.evil.example", "testserver"),
        ("http://testserver:81", "testserver"),
    ],
)
async def test_a_page_of_another_origin_is_refused(
    alice: Any, chat_session: ChatSession, origin: str, host: str
) -> None:
    made = await sync_to_async(Socket)(alice, chat_session.pk, origin=origin, host=host)
    assert await made.refused() == 4403


async def test_an_unknown_address_is_refused_like_an_unknown_session(alice: Any) -> None:
    for path in ("/ws/chat/zzz/", "/ws/", "/elsewhere/"):
        made = await sync_to_async(Socket)(alice, "x")
        made.scope["path"] = path
        assert await made.refused() == 4404


async def test_a_trusted_origin_comes_in(
    alice: Any, chat_session: ChatSession, settings: Any
) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://chat.example"]
    made = await sync_to_async(Socket)(alice, chat_session.pk, origin="https://chat.example")
    assert (await made.open())["type"] == "session.ready"
    await made.disconnect()


async def test_one_person_has_a_limited_number_of_sockets(
    alice: Any, chat_session: ChatSession, settings: Any
) -> None:
    settings.CHAT_SOCKETS_PER_USER = 1
    first = await socket(alice, chat_session)
    second = await sync_to_async(Socket)(alice, chat_session.pk)
    assert await second.refused() == 4429
    await first.disconnect()
    third = await socket(alice, chat_session)
    await third.disconnect()


# --- Turns ----------------------------------------------------------------------------------------


async def test_a_message_is_accepted_answered_and_ended(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("Hello ", "**you**"))
    made = await socket(alice, chat_session)
    client_id = str(uuid.uuid4())
    await made.say("message.send", client_id=client_id, text="<b>Hi</b>", parent=None)
    end = await made.until(*ENDS)
    await made.disconnect()
    by_type = {frame["type"]: frame for frame in made.frames}
    accepted, context = by_type["turn.accepted"], by_type["turn.context"]
    assert (accepted["client_id"], accepted["number"]) == (client_id, 1)
    assert accepted["message"]["seq"] == 1
    assert "&lt;b&gt;Hi&lt;/b&gt;" in accepted["message"]["html"]
    assert context["window"]["messages"] == 0
    assert 0 < context["tokens"] < context["budget"]
    assert made.text() == "Hello **you**"
    assert (end["type"], end["turn"]) == ("turn.completed", accepted["turn"])
    assert end["message"]["content"] == "Hello **you**"
    assert "<strong>you</strong>" in end["message"]["html"]
    assert end["message"]["turn"]["usage"] == {"input": 10, "cached_input": 0, "output": 5}
    assert by_type["session.updated"]["title"] == "<b>Hi</b>"


async def test_two_sockets_of_one_session_see_the_same(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer(*(f"{n} " for n in range(50)), delay=0.002))
    one, two = await socket(alice, chat_session), await socket(alice, chat_session)
    await one.say("message.send", client_id=str(uuid.uuid4()), text="count", parent=None)
    ends = await asyncio.gather(one.until(*ENDS), two.until(*ENDS))
    await asyncio.gather(one.disconnect(), two.disconnect())
    assert ends[0] == ends[1]
    assert one.text() == two.text() == "".join(f"{n} " for n in range(50))


async def test_two_sessions_of_one_person_that_stream_at_once_hear_their_own_alone(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(
        *(Reply([Say(name), Wait(gate), *answer(f" ends {name}").steps]) for name in ("A", "B"))
    )
    other = await sync_to_async(builders.chat_session)(alice, assistant=chat_session.assistant)
    one, two = await socket(alice, chat_session), await socket(alice, other)
    for each in (one, two):
        await each.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
        await each.until("turn.delta")
    gate.set()
    await asyncio.gather(one.until(*ENDS), two.until(*ENDS))
    await asyncio.gather(one.disconnect(), two.disconnect())
    assert (one.text(), two.text()) == ("A ends A", "B ends B")
    assert len({frame["turn"] for frame in one.frames if "turn" in frame}) == 1


async def test_a_socket_that_comes_in_the_middle_gets_everything_once(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    first_half = [Say(f"{n} ") for n in range(50)]
    second_half = answer(*(f"{n} " for n in range(50, 100)), delay=0.001).steps
    fake_endpoint.replies(Reply([*first_half, Wait(gate), *second_half]))
    first = await socket(alice, chat_session)
    await first.say("message.send", client_id=str(uuid.uuid4()), text="count", parent=None)
    await first.until("turn.delta")
    late = [await socket(alice, chat_session) for _ in range(5)]
    await first.disconnect()  # who asked goes away: the turn goes on
    gate.set()
    for each in late:
        assert (await each.until(*ENDS))["type"] == "turn.completed"
        assert each.text() == "".join(f"{n} " for n in range(100))
        assert each.frames[0]["running"] is not None
        await each.disconnect()


async def test_one_client_id_from_two_sockets_and_after_a_reconnect_is_one_turn(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("on"), Wait(gate), *answer("ce").steps]))
    one, two = await socket(alice, chat_session), await socket(alice, chat_session)
    message = {"client_id": str(uuid.uuid4()), "text": "Hi", "parent": None}
    for each in (one, two, one, two, one):
        await each.say("message.send", **message)
    accepted = await two.until("turn.accepted")
    gate.set()
    await two.until("turn.completed")
    again = await socket(alice, chat_session)
    await again.say("message.send", **message)
    repeated = await again.until("turn.accepted")
    end = await again.until(*ENDS)
    await asyncio.gather(one.disconnect(), two.disconnect(), again.disconnect())
    assert repeated["turn"] == accepted["turn"] == end["turn"]
    assert (end["type"], end["message"]["content"]) == ("turn.completed", "once")
    assert len(fake_endpoint.requests) == 1
    assert await ChatMessage.objects.filter(chat_session=chat_session).acount() == 2


async def test_stop_is_heard_while_the_answer_streams(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless("x", delay=0.005))
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    first = await made.until("turn.delta")
    await made.say("turn.stop", turn=first["turn"], seen=1)
    end = await made.until(*ENDS)
    await made.disconnect()
    assert (end["type"], end["message"]["content"]) == ("turn.stopped", "x")
    assert end["message"]["is_partial"] is True
    assert await fake_endpoint.requests[0].ended(1) == "disconnected"


async def test_a_failed_turn_is_told_with_its_reason_and_retried(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(failure(400, "no"), answer("yes"))
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    end = await made.until(*ENDS)
    await made.say("turn.retry", turn=end["turn"], client_id=str(uuid.uuid4()))
    again = await made.until(*ENDS)
    await made.disconnect()
    assert (end["type"], end["message"], end["error"]["code"]) == (
        "turn.failed",
        None,
        "bad_request",
    )
    assert (again["type"], again["message"]["content"]) == ("turn.completed", "yes")


async def test_an_answer_that_was_cut_goes_on_for_everyone_and_once(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one two", reason="length"), answer("three"))
    one, two = await socket(alice, chat_session), await socket(alice, chat_session)
    await one.say("message.send", client_id=str(uuid.uuid4()), text="Count", parent=None)
    cut = await one.until(*ENDS)
    await two.until(*ENDS)
    order = {"turn": cut["turn"], "client_id": str(uuid.uuid4())}
    await one.say("turn.continue", **order)
    seen = [await each.until("turn.accepted") for each in (one, two)]
    end = await one.until(*ENDS)
    await one.say("turn.continue", **order)
    repeated = await one.until("turn.accepted")
    await one.until(*ENDS)
    await one.say("turn.continue", turn=end["turn"], client_id=str(uuid.uuid4()))
    refused = await one.until("error")
    await asyncio.gather(one.disconnect(), two.disconnect())
    assert seen[0] == seen[1] == repeated
    assert seen[0]["client_id"] == order["client_id"]
    assert seen[0]["message"]["content"] == ENGLISH
    assert seen[0]["message"]["parent"] == cut["message"]["id"]
    assert (end["type"], end["message"]["content"]) == ("turn.completed", "three")
    assert (refused["code"], len(fake_endpoint.requests)) == ("not_continuable", 2)


async def test_sync_gives_the_whole_text_of_a_running_turn_and_the_end_of_an_ended_one(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("abc"), Wait(gate), *answer("def").steps]))
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    turn = (await made.until("turn.delta"))["turn"]
    await made.say("turn.sync", turn=turn)
    snapshot = await made.until("turn.snapshot")
    gate.set()
    await made.until("turn.completed")
    await made.say("turn.sync", turn=turn)
    end = await made.until(*ENDS)
    await made.disconnect()
    assert (snapshot["text"], snapshot["end"]) == ("abc", 3)
    assert end["message"]["content"] == "abcdef"


async def test_a_turn_of_somebody_else_can_be_neither_stopped_nor_read(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    hers = await socket(alice, chat_session)
    await hers.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    turn = (await hers.until("turn.delta"))["turn"]
    bob = await sync_to_async(builders.user)("bob")
    session = await sync_to_async(builders.chat_session)(bob, assistant=chat_session.assistant)
    his = await socket(bob, session)
    answers = []
    for frame in ("turn.stop", "turn.sync"):
        for wanted in (turn, str(uuid.uuid4())):
            await his.say(frame, turn=wanted)
            answers.append(await his.until("error"))
    assert {(each["code"], each["detail"]) for each in answers} == {
        ("not_found", "There is no such turn.")
    }
    assert (await ChatTurn.objects.aget(pk=turn)).stop_requested is False
    await hers.say("turn.stop", turn=turn, seen=0)
    await hers.until("turn.stopped")
    await asyncio.gather(hers.disconnect(), his.disconnect())


# --- Rubbish --------------------------------------------------------------------------------------

SOME_ID = str(uuid.uuid4())


def message(**fields: Any) -> str:
    return json.dumps({"type": "message.send", "client_id": SOME_ID, "text": "a", **fields})


RUBBISH = [
    ("", "bad_frame"),
    ("{", "bad_frame"),
    ("null", "bad_frame"),
    ("[]", "bad_frame"),
    ("[" * 100_000, "bad_frame"),
    ('{"type": 1}', "bad_frame"),
    ('{"type": "no.such"}', "bad_frame"),
    ('{"type": "\\ud800"}', "bad_frame"),
    ('{"type": "message.send"}', "bad_frame"),
    (message(client_id="x"), "bad_frame"),
    (message(client_id=["\ud800"]), "bad_frame"),
    (message(client_id="\ud800"), "bad_frame"),
    (message(client_id={"a": [1]}), "bad_frame"),
    (message(client_id="x" * 100_000), "bad_frame"),
    (message(parent=float("nan")), "bad_frame"),
    (message(text=5), "bad_frame"),
    (message(text=" \n"), "empty_message"),
    (message(text="\0"), "empty_message"),
    (message(text="x" * 200_001), "input_too_long"),
    (message(parent=3), "bad_frame"),
    (message(attachments=["x"]), "bad_frame"),
    (json.dumps({"type": "turn.stop", "turn": SOME_ID, "seen": -1}), "bad_frame"),
    (json.dumps({"type": "turn.stop", "turn": SOME_ID, "seen": True}), "bad_frame"),
    (json.dumps({"type": "turn.stop", "turn": SOME_ID, "seen": 1e99}), "bad_frame"),
    (json.dumps({"type": "turn.retry", "turn": None, "client_id": SOME_ID}), "bad_frame"),
    (json.dumps({"type": "turn.continue", "turn": 7, "client_id": SOME_ID}), "bad_frame"),
]


async def test_rubbish_is_refused_by_name_and_never_kills_the_socket(
    alice: Any, chat_session: ChatSession
) -> None:
    made = await socket(alice, chat_session)
    for text, code in RUBBISH:
        await made.send_text(text)
        error = await made.until("error")
        assert error["code"] == code, (text[:80], error)
        assert error["detail"]
        assert len(json.dumps(error)) < 1000  # what was wrong is named, not sent back
    await made.send_input({"type": "websocket.receive", "bytes": b"\x00\xff"})
    assert (await made.until("error"))["code"] == "bad_frame"
    await made.say("ping")
    assert (await made.next())["type"] == "pong"
    await made.disconnect()
    assert await ChatMessage.objects.acount() == 0


async def test_a_socket_that_cannot_be_told_something_is_closed(
    alice: Any, chat_session: ChatSession, caplog: pytest.LogCaptureFixture
) -> None:
    made = await socket(alice, chat_session)
    registry.registry().deliver(chat_session.pk, {"type": "session.updated", "title": object()})
    assert await made.closed() == 1011  # and the page connects anew, instead of hearing nothing
    assert "could not be sent" in caplog.text


async def test_a_frame_over_the_limit_closes_the_socket(
    alice: Any, chat_session: ChatSession, settings: Any
) -> None:
    settings.CHAT_MAX_FRAME_BYTES = 1000
    made = await socket(alice, chat_session)
    await made.say("ping", text="字" * 400)
    assert await made.closed() == 4413


async def test_too_many_frames_close_the_socket(
    alice: Any, chat_session: ChatSession, settings: Any
) -> None:
    settings.CHAT_FRAMES_PER_MINUTE = 5
    made = await socket(alice, chat_session)
    for _ in range(9):
        await made.say("ping")  # those after the sixth come when the close is on its way
    assert await made.closed() == 4429


async def test_too_many_messages_in_a_minute_are_refused_and_nothing_is_lost(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_TURNS_PER_MINUTE = 1
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="one")
    await made.until("turn.completed")
    client_id = str(uuid.uuid4())
    await made.say("message.send", client_id=client_id, text="two")
    error = await made.until("error")
    await made.disconnect()
    assert (error["code"], error["client_id"]) == ("rate_limited", client_id)


# --- Going ----------------------------------------------------------------------------------------


async def test_a_deleted_session_is_told_and_its_sockets_are_closed(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go")
    await made.until("turn.delta")
    await sync_to_async(retention.forget_session)(chat_session.pk)
    assert (await made.until("session.deleted"))["type"] == "session.deleted"
    assert await made.closed() == 4404
    assert await fake_endpoint.requests[0].ended(2) == "disconnected"
    assert await ChatMessage.objects.acount() == 0


async def test_somebody_who_signed_out_elsewhere_cannot_send(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    made = await socket(alice, chat_session)
    await Session.objects.all().adelete()
    await made.say("message.send", client_id=str(uuid.uuid4()), text="still here?")
    assert await made.closed() == 4401
    assert fake_endpoint.requests == []


async def test_a_deactivated_person_is_put_out_without_saying_anything(
    alice: Any, chat_session: ChatSession, monkeypatch: Any
) -> None:
    monkeypatch.setattr("chat.consumers.CHECK_SECONDS", 0.05)
    made = await socket(alice, chat_session)
    await get_user_model().objects.filter(pk=alice.pk).aupdate(is_active=False)
    assert await made.closed() == 4401


async def test_a_socket_that_sleeps_is_closed(
    alice: Any, chat_session: ChatSession, settings: Any
) -> None:
    settings.CHAT_IDLE_SECONDS = 0.05
    made = await socket(alice, chat_session)
    assert await made.closed() == 4408
