"""Temporary sessions: they work like others, and no table ever holds what was said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.cache import cache
from django.core.management import call_command

from chat import access, events, llm, records, retention, running, temporary
from chat.models import ChatMessage, ChatSession, ContextRecord, PendingRemoval
from chat.retention import removals
from chat.turns import Refused, endings
from memory.models import MemorySnapshot
from tests import builders
from tests.fakes import FakeEndpoint, answer, breaks_off, failure
from tests.orders import again, run_order, say, send, sent, session_at

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "青云-4173"
AWAY = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:9/0",
    }
}


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    return session_at(fake_endpoint, is_temporary=True)


def tables_with(text: str) -> list[str]:
    """The tables in which any text column holds `text`."""
    found = []
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if field.get_internal_type() in {"CharField", "TextField", "JSONField"}:
                values = model._default_manager.values_list(field.name, flat=True)
                if any(text in str(value) for value in values):
                    found.append(f"{model._meta.label}.{field.name}")
    return found


async def test_a_temporary_session_remembers_and_no_table_holds_its_text(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer(f"I keep {SECRET}"), answer("yes"))
    await say(chat_session, f"remember {SECRET}")
    await say(chat_session, "what was it?")
    assert sent(fake_endpoint) == [
        builders.PROMPT,
        f"remember {SECRET}",
        f"I keep {SECRET}",
        "what was it?",
    ]
    assert await sync_to_async(tables_with)(SECRET) == []
    assert await sync_to_async(tables_with)("what was it?") == []
    assert await MemorySnapshot.objects.acount() == 0
    await chat_session.arefresh_from_db()
    assert (chat_session.title, chat_session.message_count) == ("", 4)
    rows = access.path_messages(chat_session).order_by("seq")
    shown = await sync_to_async(lambda: events.message_payloads(list(rows)))()
    assert [each["content"] for each in shown] == [
        f"remember {SECRET}",
        f"I keep {SECRET}",
        "what was it?",
        "yes",
    ]


async def test_readers_see_the_text_and_its_end(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one", " two"))
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    await say(chat_session, SECRET)
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["type"] != "turn.completed":
        frames.append(await reader.next())
    await running.detach(chat_session.pk, reader)
    assert frames[0]["message"]["content"] == SECRET
    assert frames[-1]["message"]["content"] == "one two"


async def test_a_turn_that_failed_is_retried_with_the_same_text(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(breaks_off("half"), answer("whole"))
    failed = await say(chat_session, SECRET)
    retried = await run_order(again("retry", failed))
    assert retried.status == "completed"
    assert sent(fake_endpoint) == [builders.PROMPT, SECRET]


async def test_an_endpoint_that_quotes_the_text_in_its_error_leaves_it_in_no_table(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(failure(400, message=f"{SECRET!r} is not allowed"))
    turn = await say(chat_session, SECRET)
    assert (turn.status, turn.error_code) == ("failed", "bad_request")
    assert turn.error_detail == endings.UNKEPT
    assert await sync_to_async(tables_with)(SECRET) == []


async def test_what_was_sent_is_recorded_without_its_text(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await say(chat_session, SECRET)
    record = await ContextRecord.objects.aget(turn=turn)
    rebuilt = await sync_to_async(records.rebuild)(record)
    assert rebuilt.proof == "missing"
    assert [kind for _, kind, _ in record.layout] == ["part", "unkept"]


async def test_text_that_has_expired_is_said_to_be_gone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await say(chat_session, SECRET)
    await sync_to_async(cache.clear)()
    rows = access.path_messages(chat_session).order_by("seq")
    shown = await sync_to_async(lambda: events.message_payloads(list(rows)))()
    assert {each["content"] for each in shown} == {temporary.EXPIRED}
    await say(chat_session, "still there?")
    assert SECRET not in "".join(sent(fake_endpoint))


async def test_without_the_store_a_message_is_refused_and_nothing_is_stored(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CACHES = AWAY
    with pytest.raises(Refused) as refused:
        await running.start(send(chat_session, SECRET))
    assert refused.value.code == "temporary_unavailable"
    assert await ChatMessage.objects.acount() == 0
    await chat_session.arefresh_from_db()
    assert chat_session.running_turn is None


async def test_a_store_that_goes_away_in_the_middle_ends_the_turn_as_failed(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise temporary.TextsUnavailable("away")

    def keep_inputs_only(session_id: Any, message_id: Any, text: str) -> None:
        if text != SECRET:
            away()

    monkeypatch.setattr(temporary, "keep", keep_inputs_only)
    turn = await say(chat_session, SECRET)
    assert (turn.status, turn.error_code) == ("failed", "temporary_unavailable")
    await chat_session.arefresh_from_db()
    assert chat_session.running_turn is None
    assert await ChatMessage.objects.filter(role="assistant").acount() == 0


async def test_deleting_removes_the_text_from_the_store_now_or_later(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    await say(chat_session, SECRET)
    texts = await sync_to_async(temporary.texts_of)(chat_session.pk)
    assert SECRET in texts.values()
    caches = settings.CACHES
    settings.CACHES = AWAY
    await sync_to_async(retention.forget_session)(chat_session.pk)
    pending = await PendingRemoval.objects.aget()
    assert (pending.name, pending.attempts) == (temporary.key_of(chat_session.pk), 1)
    settings.CACHES = caches
    await sync_to_async(temporary.keep)(chat_session.pk, chat_session.pk, SECRET)
    await sync_to_async(call_command)("reap_turns")
    assert await PendingRemoval.objects.acount() == 0
    assert await sync_to_async(temporary.texts_of)(chat_session.pk) == {}
    assert await sync_to_async(removals.retry)() == (0, 0)
