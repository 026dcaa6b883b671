"""The registry of a process: its loops outlive what fails in them; its turns keep their place."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.conf import LazySettings
from django.db.models.functions import Now

from chat import events, llm, running, temporary
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.running import registry
from chat.turns import Order
from chat.turns.begin import begin
from tests import builders
from tests.fakes import FakeEndpoint
from tests.orders import send, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close() -> AsyncIterator[None]:
    yield
    here = registry.registry()
    for task in (here.listener, here.sweeper):
        if task is not None:
            task.cancel()
    await llm.aclose()


@pytest.fixture
def relayed(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with other processes, over the layer of this process's memory; loops that look often."""
    settings.REDIS_URL = "redis://nowhere"
    monkeypatch.setattr(registry, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(registry, "REJOIN_SECONDS", 0.01)


def running_elsewhere() -> ChatTurn:
    """A turn of another process, which says nothing."""
    chat_session = builders.chat_session()
    asked = builders.message(chat_session, "user", "Are you there?")
    turn = builders.turn(chat_session, asked, status=ChatTurn.Status.RUNNING)
    ChatSession.objects.filter(pk=chat_session.pk).update(
        running_turn=turn.pk, lease_owner="uother", lease_expires_at=Now()
    )
    return turn


async def next_of(reader: running.Reader, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(5):
        while (frame := await reader.next())["type"] != kind:
            pass
    return frame


async def test_one_channel_that_cannot_be_joined_does_not_end_the_sweep(
    relayed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await asyncio.to_thread(running_elsewhere)
    reader, other = running.Reader(), running.Reader()
    layer = get_channel_layer()
    join = layer.group_add

    async def fail_for_other(group: str, channel: str) -> None:
        if group == events.group_of(stranger):
            raise RuntimeError("This channel is not one of this process.")
        await join(group, channel)

    stranger = uuid.uuid4()
    monkeypatch.setattr(layer, "group_add", fail_for_other)
    with pytest.raises(RuntimeError, match="not one of this process"):
        await running.attach(stranger, other)
    await running.attach(turn.chat_session_id, reader)
    ended = await next_of(reader, "turn.interrupted")
    assert ended["turn"] == str(turn.pk)


async def test_what_fails_in_one_look_is_looked_at_by_the_next(
    relayed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await asyncio.to_thread(running_elsewhere)
    reader = running.Reader()
    look, looks = registry.running_turns, list[int]()

    def fail_once(session_ids: list[uuid.UUID]) -> Any:
        looks.append(len(session_ids))
        if len(looks) == 1:
            raise RuntimeError("Nobody foresaw this.")
        return look(session_ids)

    monkeypatch.setattr(registry, "running_turns", fail_once)
    await running.attach(turn.chat_session_id, reader)
    assert (await next_of(reader, "turn.interrupted"))["turn"] == str(turn.pk)
    assert len(looks) > 1


async def test_a_message_that_cannot_be_read_does_not_end_the_hearing(relayed: None) -> None:
    session_id, reader = uuid.uuid4(), running.Reader()
    await running.attach(session_id, reader)
    group = events.group_of(session_id)
    await get_channel_layer().group_send(group, {"type": "relay", "kind": "frame"})
    told = {"type": "session.updated", "session": str(session_id)}
    body = {"type": "relay", "session": str(session_id), "from": "another", "kind": "frame"}
    await get_channel_layer().group_send(group, {**body, "frame": told})
    assert await next_of(reader, "session.updated") == told


async def test_the_end_of_a_temporary_turn_is_told_once_its_text_can_be_reached_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = await asyncio.to_thread(running_elsewhere)
    reader, fills = running.Reader(), list[int]()
    fill = temporary.fill

    def fail_once(messages: list[ChatMessage]) -> None:
        fills.append(len(messages))
        if len(fills) == 1:
            raise temporary.TextsUnavailable("The store cannot be reached.")
        fill(messages)

    monkeypatch.setattr(temporary, "fill", fail_once)
    await running.attach(turn.chat_session_id, reader)
    running.watch(turn.chat_session_id, turn.pk)
    assert (await next_of(reader, "turn.interrupted"))["turn"] == str(turn.pk)


async def test_a_turn_keeps_its_place_when_who_began_it_leaves_before_it_is_accepted(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_session = await asyncio.to_thread(session_at, fake_endpoint)
    begins, gate = threading.Event(), threading.Event()

    def begin_late(order: Order) -> Any:
        begins.set()
        gate.wait(5)
        return begin(order)

    monkeypatch.setattr("chat.turns.engine.begin", begin_late)
    starting = asyncio.create_task(running.start(send(chat_session, "Hello")))
    await asyncio.to_thread(begins.wait, 5)
    starting.cancel()
    await asyncio.wait({starting})
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    gate.set()
    await next_of(reader, "turn.accepted")
    ended = await next_of(reader, "turn.completed")
    assert ended["message"]["content"] == "Hello there."
    await running.detach(chat_session.pk, reader)
    async with asyncio.timeout(5):
        while chat_session.pk in registry.registry().hubs:
            await asyncio.sleep(0.01)


async def test_a_channel_that_everybody_has_left_is_not_called_silent(
    relayed: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def say_nothing(session_id: uuid.UUID, message: dict[str, Any]) -> None:
        pass

    monkeypatch.setattr("chat.running.hubs.JOIN_SECONDS", 0.01)
    monkeypatch.setattr(events, "relay", say_nothing)
    session_id, reader = uuid.uuid4(), running.Reader()
    joining = asyncio.create_task(running.attach(session_id, reader))
    await asyncio.sleep(0.02)
    joining.cancel()
    await asyncio.wait({joining})
    await running.detach(session_id, reader)
    await asyncio.sleep(0.2)
    assert "silent" not in caplog.text
