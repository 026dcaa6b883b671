"""What staff do to sessions: each counted, confirmed, recorded, and never by the default pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat import events, leases, retention
from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextRecord,
    SessionTombstone,
)
from memory.models import MemorySnapshot
from tests import builders
from tests.chat.admin_site import CHANGES, list_url, page_url, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db


@pytest.fixture
def person() -> Any:
    return viewer(*CHANGES)


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


@pytest.fixture
def sessions() -> list[ChatSession]:
    """Two sessions with three and one exchanges."""
    made = [builders.chat_session() for _ in range(2)]
    for chat_session, count in zip(made, (3, 1), strict=True):
        for turn in builders.exchanges(chat_session, count):
            builders.record(turn)
        builders.snapshot(chat_session)
    return made


def act(client: Client, action: str, sessions: list[ChatSession], **more: str) -> Any:
    form = {"action": action, "_selected_action": [str(each.pk) for each in sessions], **more}
    return client.post(list_url(ChatSession), form, REMOTE_ADDR="192.0.2.9", follow=True)


def said(response: Any) -> list[str]:
    return [str(each) for each in response.context["messages"]]


# --- Delete ---------------------------------------------------------------------------------------


def test_deleting_asks_first_and_counts(client: Client, sessions: list[ChatSession]) -> None:
    ChatSession.objects.filter(pk=sessions[0].pk).update(is_held=True)
    response = act(client, "delete_sessions", sessions, index="0")
    assert dict(response.context["counts"]) == {
        "sessions": 2,
        "people": 2,
        "messages": 8,
        "turns": 4,
        "running at the moment": 0,
        "held, and not deleted": 1,
    }
    assert ChatSession.objects.count() == 2


@pytest.mark.parametrize("action", ["delete_sessions", "clear_memory"])
def test_one_comes_back_to_the_list_as_it_was_filtered(
    client: Client, sessions: list[ChatSession], action: str
) -> None:
    address = list_url(ChatSession) + "?review=none"
    form = {"action": action, "_selected_action": [str(each.pk) for each in sessions]}
    asked = client.post(address, form)
    assert text_of(asked).count(f'"{address}"') == 3  # above, in the form, and back
    done = client.post(asked.context["list_url"], {**form, "typed": "2"})
    assert done.headers["Location"] == address


def test_counting_looks_at_no_message(client: Client, sessions: list[ChatSession]) -> None:
    with CaptureQueriesContext(connection) as queries:
        act(client, "delete_sessions", sessions, index="0")
    assert [q["sql"] for q in queries.captured_queries if "chat_chatmessage" in q["sql"]] == []


@pytest.mark.parametrize("typed", ["", "1", "3", "yes", "２"])
def test_another_number_deletes_nothing(
    client: Client, sessions: list[ChatSession], typed: str
) -> None:
    response = act(client, "delete_sessions", sessions, typed=typed, reason="why")
    assert "Type exactly 2. Nothing was done." in text_of(response)
    assert ChatSession.objects.count() == 2
    assert not AuditEvent.objects.exists()


def test_deleting_removes_everything_and_is_recorded(
    client: Client, person: Any, sessions: list[ChatSession]
) -> None:
    response = act(client, "delete_sessions", sessions, typed="2", reason="asked by the user")
    assert said(response) == ["Deleted 2 sessions."]
    for model in (ChatSession, ChatMessage, ChatTurn, ContextRecord, MemorySnapshot):
        assert model._default_manager.count() == 0
    assert set(SessionTombstone.objects.values_list("pk", flat=True)) == {s.pk for s in sessions}
    events = AuditEvent.objects.filter(action="session.delete")
    assert {(e.actor, e.object_id, e.reason, e.ip) for e in events} == {
        (person, str(each.pk), "asked by the user", "192.0.2.9") for each in sessions
    }


def test_a_reason_is_wanted_where_reading_wants_one(
    client: Client, sessions: list[ChatSession], settings: Any
) -> None:
    settings.CHAT_READ_REASON_REQUIRED = True
    response = act(client, "delete_sessions", sessions, typed="2", reason=" \x00 ")
    assert "Say why. Nothing was done." in text_of(response)
    assert ChatSession.objects.count() == 2
    act(client, "clear_memory", sessions, typed="2")
    assert AuditEvent.objects.filter(action="memory.clear").count() == 2
    act(client, "delete_sessions", sessions, typed="2", reason="asked for")
    assert not ChatSession.objects.exists()


def test_a_held_session_is_kept_and_named(client: Client, sessions: list[ChatSession]) -> None:
    held, other = sessions
    ChatSession.objects.filter(pk=held.pk).update(is_held=True)
    response = act(client, "delete_sessions", sessions, typed="2")
    assert list(ChatSession.objects.all()) == [held]
    first, second = said(response)
    assert first == "Deleted 1 session."
    assert str(held.pk) in second
    assert not ChatSession.objects.filter(pk=other.pk).exists()


@pytest.mark.parametrize("model", ["chatsession", "chatmessage", "chatturn", "contextrecord"])
def test_the_default_delete_pages_are_off(sessions: list[ChatSession], model: str) -> None:
    rows: dict[str, Any] = {
        "chatsession": sessions[0],
        "chatmessage": ChatMessage.objects.first(),
        "chatturn": ChatTurn.objects.first(),
        "contextrecord": ContextRecord.objects.first(),
    }
    client = signed_in(builders.superuser())
    address = page_url(rows[model]).replace("/change/", "/delete/")
    assert client.get(address).status_code == 403
    assert client.post(address, {"post": "yes"}).status_code == 403
    assert type(rows[model])._default_manager.filter(pk=rows[model].pk).exists()
    assert address not in text_of(client.get(page_url(rows[model])))


# --- Clear memory ---------------------------------------------------------------------------------


def test_clearing_memory_draws_the_line_and_keeps_the_transcript(
    client: Client, person: Any, sessions: list[ChatSession]
) -> None:
    assert "Clear memory" in text_of(act(client, "clear_memory", sessions, index="0"))
    response = act(client, "clear_memory", sessions, typed="2", reason="test")
    assert said(response) == ["Cleared the memory of 2 sessions."]
    lines = ChatSession.objects.order_by("-message_count").values_list("memory_starts_after")
    assert list(lines) == [(6,), (2,)]
    assert (ChatMessage.objects.count(), MemorySnapshot.objects.count()) == (8, 0)
    events = AuditEvent.objects.filter(action="memory.clear", actor=person, ip="192.0.2.9")
    assert events.count() == 2


def test_a_session_that_stays_busy_is_named(
    client: Client, sessions: list[ChatSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, idle = sessions
    clear = retention.clear_memory

    def sometimes_busy(session_id: Any, **options: Any) -> Any:
        if session_id == busy.pk:
            raise leases.Busy(busy.pk, "another process")
        return clear(session_id, **options)

    monkeypatch.setattr(retention, "clear_memory", sometimes_busy)
    response = act(client, "clear_memory", sessions, typed="2")
    assert said(response)[0] == "Cleared the memory of 1 session."
    assert "is running in this session" in said(response)[1]
    idle.refresh_from_db()
    assert idle.memory_starts_after == 2


# --- Hold and release -----------------------------------------------------------------------------


def test_holding_and_releasing_are_recorded_once_per_action(
    client: Client, person: Any, sessions: list[ChatSession]
) -> None:
    assert said(act(client, "hold", sessions, index="0")) == ["Held 2 sessions."]
    assert ChatSession.objects.filter(is_held=True).count() == 2
    assert said(act(client, "release", sessions[:1], index="0")) == ["Released 1 session."]
    assert list(ChatSession.objects.filter(is_held=True)) == [sessions[1]]
    hold, release = AuditEvent.objects.order_by("pk")
    assert (hold.actor, hold.action, hold.count, hold.object_id) == (person, "session.hold", 2, "")
    assert set(hold.filter["sessions"]) == {str(each.pk) for each in sessions}
    assert (release.action, release.object_id) == ("session.release", str(sessions[0].pk))


# --- Permissions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["delete_sessions", "clear_memory", "hold", "release"])
def test_who_may_only_look_does_nothing(sessions: list[ChatSession], action: str) -> None:
    client = signed_in(viewer())
    act(client, action, sessions, typed="2", index="0")
    act(client, action, sessions, typed="2")
    assert ChatSession.objects.filter(is_held=False, memory_starts_after=0).count() == 2
    assert not AuditEvent.objects.exists()


def test_deleting_needs_a_permission_of_its_own(sessions: list[ChatSession]) -> None:
    client = signed_in(viewer("chat.change_chatsession"))
    page = text_of(client.get(page_url(sessions[0])))
    assert ('value="hold"' in page, 'value="delete_sessions"' in page) == (True, False)
    act(client, "delete_sessions", sessions, typed="2")
    assert ChatSession.objects.count() == 2


def test_the_page_of_a_session_offers_the_same_actions(
    client: Client, sessions: list[ChatSession]
) -> None:
    page = text_of(client.get(page_url(sessions[0])))
    for action in ("clear_memory", "hold", "delete_sessions"):
        assert f'name="action" value="{action}"' in page
    assert 'value="release"' not in page


# --- Editing --------------------------------------------------------------------------------------


def switches(**changes: str) -> dict[str, str]:
    return {"memory_enabled": "unknown", "max_messages": "", "max_tokens": "", **changes}


def test_saving_writes_the_changed_switches_and_nothing_else(
    client: Client, person: Any, sessions: list[ChatSession]
) -> None:
    form = switches(memory_enabled="false", max_messages="8")
    with CaptureQueriesContext(connection) as queries:
        response = client.post(page_url(sessions[0]), form)
    assert response.status_code == 302
    updates = [
        query["sql"].split(" WHERE ")[0]
        for query in queries.captured_queries
        if query["sql"].startswith("UPDATE") and "chat_chatsession" in query["sql"]
    ]
    assert len(updates) == 1
    for column in ("next_seq", "running_turn", "message_count", "head_id", "max_tokens"):
        assert column not in updates[0]
    sessions[0].refresh_from_db()
    assert (sessions[0].memory_enabled, sessions[0].max_messages) == (False, 8)
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_id, event.filter) == (
        person,
        "session.change",
        str(sessions[0].pk),
        {"set": {"memory_enabled": False, "max_messages": 8}},
    )


def test_an_open_page_is_told_of_a_switch_and_not_of_a_hold(
    client: Client,
    sessions: list[ChatSession],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "publish_from_thread", lambda _, frame: told.append(frame))
    for form in (switches(memory_enabled="false"), switches(memory_enabled="false", is_held="on")):
        with django_capture_on_commit_callbacks(execute=True):
            assert client.post(page_url(sessions[0]), form).status_code == 302
    session = str(sessions[0].pk)
    assert told == [{"type": "session.updated", "session": session, "memory_enabled": False}]
    sessions[0].refresh_from_db()
    assert sessions[0].is_held is True


def test_a_limit_of_zero_is_refused(client: Client, sessions: list[ChatSession]) -> None:
    response = client.post(page_url(sessions[0]), switches(max_messages="0"))
    assert response.status_code == 200
    assert "greater than or equal to 1" in text_of(response)


def test_what_is_not_a_switch_cannot_be_written(
    client: Client, sessions: list[ChatSession]
) -> None:
    other = builders.user()
    form = switches(title="New", user=str(other.pk), next_seq="1", memory_epoch="9")
    client.post(page_url(sessions[0]), form)
    before = (sessions[0].title, sessions[0].user_id, sessions[0].next_seq)
    sessions[0].refresh_from_db()
    assert (sessions[0].title, sessions[0].user_id, sessions[0].next_seq) == before


def test_sessions_are_not_added_here() -> None:
    client = signed_in(builders.superuser())
    assert client.get("/admin/chat/chatsession/add/").status_code == 403


def test_the_page_of_a_session_leads_to_its_transcript(
    client: Client, sessions: list[ChatSession]
) -> None:
    page = text_of(client.get(page_url(sessions[0])))
    assert f'href="/admin/chat/chatsession/{sessions[0].pk}/transcript/"' in page
    for name in ("chatturn", "chatmessage", "contextrecord"):
        address = f"/admin/chat/{name}/?chat_session__id__exact={sessions[0].pk}"
        assert f'href="{address}"' in page
        assert client.get(address).status_code == 200
