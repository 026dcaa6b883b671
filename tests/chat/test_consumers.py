"""The websocket: who may come in, what is refused, and who is put out."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session

from chat import llm, retention
from chat.models import ChatMessage, ChatSession, Membership
from chat.running import registry
from tests import builders
from tests.chat.sockets import Socket, socket
from tests.fakes import FakeEndpoint, endless

pytestmark = pytest.mark.django_db(transaction=True)


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
