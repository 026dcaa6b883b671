"""Turns for tests: an order that runs to its end against a fake endpoint, and what it sent."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from chat import running
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord
from chat.turns import Order
from tests import builders
from tests.fakes import FakeEndpoint


def session_at(fake_endpoint: FakeEndpoint, person: Any = None, **fields: Any) -> ChatSession:
    """A session whose assistant uses the fake endpoint."""
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    fields.setdefault("assistant", builders.assistant(endpoint=endpoint))
    return builders.chat_session(person, **fields)


def send(chat_session: ChatSession, text: str, **fields: Any) -> Order:
    fields.setdefault("client_id", uuid.uuid4())
    return Order(kind="send", session_id=chat_session.pk, text=text, **fields)


def again(kind: Any, turn: ChatTurn) -> Order:
    """`retry`, `regenerate` or `continue` of an earlier turn."""
    client_id = uuid.uuid4()
    return Order(kind=kind, session_id=turn.chat_session_id, client_id=client_id, turn=turn.pk)


async def run_order(order: Order) -> ChatTurn:
    """Run an order to its end; the turn as the database then has it."""
    started = await running.start(order)
    await running.wait(order.session_id, started.turn_id)
    return await ChatTurn.objects.select_related("input").aget(pk=started.turn_id)


async def say(chat_session: ChatSession, text: str) -> ChatTurn:
    return await run_order(send(chat_session, text))


def sent(fake_endpoint: FakeEndpoint) -> list[str]:
    """The contents of the newest request's messages."""
    return [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]


def rows_on_path(chat_session: ChatSession) -> list[tuple[int, str, str | None, bool]]:
    """The chosen branch: seq, role, content, whether it is partial."""
    rows = ChatMessage.objects.filter(chat_session=chat_session, is_on_path=True).order_by("seq")
    return list(rows.values_list("seq", "role", "content", "is_partial"))


async def last_record(chat_session: ChatSession) -> ContextRecord:
    """What the newest turn of a session sent."""
    records = ContextRecord.objects.filter(chat_session=chat_session)
    return await records.order_by("-turn__number", "-attempt").afirst() or pytest.fail("no record")
