"""manage.py commands: what they print, how they end, what they leave alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from chat import leases, retention
from chat.management.commands import delete_chat
from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    CleanupRun,
    DeletionReceipt,
    SessionTombstone,
)
from chat.retention import idle_sessions
from tests import builders

pytestmark = pytest.mark.django_db

Answer = Callable[[str], str]


def run(*arguments: Any) -> str:
    """What the command prints."""
    out = StringIO()
    call_command(*map(str, arguments), stdout=out)
    return out.getvalue()


def session_of(name: str = "alice", days: float = 0, **fields: Any) -> ChatSession:
    """A session of two messages, last used so many days ago."""
    builders.tenant("default")
    chat_session = builders.chat_session(builders.user(name), **fields)
    builders.exchange(chat_session)
    last = timezone.now() - timedelta(days=days)
    ChatSession.objects.filter(pk=chat_session.pk).update(last_active_at=last)
    return chat_session


WRONG_IDS = ["5", "not-an-id", "", "\x00", "字", "../etc", f"{uuid.UUID(int=5)}x"]


@pytest.mark.parametrize("command", ["clear_memory", "delete_chat"])
@pytest.mark.parametrize("text", WRONG_IDS)
def test_what_is_not_an_id_is_named_with_an_example(command: str, text: str) -> None:
    with pytest.raises(CommandError, match="is not a session id: give the UUID") as error:
        run(command, text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("command", [["clear_memory"], ["delete_chat", "--yes"]])
def test_an_unknown_session_is_named_and_the_exit_code_is_one(command: list[str]) -> None:
    unknown = uuid.uuid4()
    with pytest.raises(CommandError, match=f"There is no session {unknown}") as error:
        run(*command, unknown)
    assert error.value.returncode == 1


# --- delete_chat ----------------------------------------------------------------------------------


def answers(monkeypatch: pytest.MonkeyPatch, reply: str | type[BaseException]) -> list[str]:
    """Answer the next question with `reply`; the questions that were asked."""
    asked: list[str] = []

    def reply_to(question: str) -> str:
        asked.append(question)
        if isinstance(reply, str):
            return reply
        raise reply

    monkeypatch.setattr("builtins.input", reply_to)
    return asked


@pytest.mark.parametrize("option", ["--yes", "--no-input"])
def test_delete_chat_prints_what_it_removed(option: str) -> None:
    chat_session = session_of()
    assert run("delete_chat", option, chat_session.pk) == (
        f"Deleted session {chat_session.pk}: 2 messages, 1 sessions, 1 turns\n"
    )
    assert SessionTombstone.objects.get().pk == chat_session.pk


def test_delete_chat_asks_first_and_says_what_about(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = session_of("alice", title="secret")
    asked = answers(monkeypatch, "YES ")
    run("delete_chat", chat_session.pk)
    assert asked == [
        f"Delete session {chat_session.pk} of alice with 2 messages for good? Type yes: "
    ]
    assert not ChatSession.objects.exists()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("no", "Nothing was deleted."),
        ("", "Nothing was deleted."),
        ("y", "Nothing was deleted."),
        (EOFError, "Nobody answered; nothing was deleted. Use --yes in scripts."),
    ],
)
def test_delete_chat_deletes_nothing_without_a_yes(
    monkeypatch: pytest.MonkeyPatch, reply: str | type[BaseException], told: str
) -> None:
    chat_session = session_of()
    answers(monkeypatch, reply)
    with pytest.raises(CommandError, match=told):
        run("delete_chat", chat_session.pk)
    assert ChatMessage.objects.count() == 2


def test_delete_chat_says_when_somebody_else_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = session_of()
    monkeypatch.setattr(delete_chat, "confirm", lambda found: retention.forget_session(found.pk))
    with pytest.raises(CommandError, match="was deleted by somebody else"):
        run("delete_chat", chat_session.pk)


# --- clear_memory ---------------------------------------------------------------------------------


def test_clear_memory_says_where_memory_starts_now() -> None:
    chat_session = session_of()
    assert run("clear_memory", chat_session.pk) == (
        f"Session {chat_session.pk}: memory starts after message 2.\n"
    )
    chat_session.refresh_from_db()
    assert (chat_session.memory_starts_after, chat_session.messages.count()) == (2, 2)


def test_clear_memory_takes_an_id_in_any_spelling() -> None:
    chat_session = session_of()
    run("clear_memory", str(chat_session.pk).upper())
    chat_session.refresh_from_db()
    assert chat_session.memory_epoch == 1


def test_clear_memory_says_when_a_turn_cannot_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = session_of()
    turn = uuid.uuid4()

    def busy(session_id: uuid.UUID, timeout: float) -> None:
        raise leases.Busy(turn, "elsewhere")

    monkeypatch.setattr(leases, "quiesce", busy)
    with pytest.raises(CommandError, match=f"Memory was not cleared: Turn {turn} is running"):
        run("clear_memory", chat_session.pk)


# --- cleanup_chats --------------------------------------------------------------------------------


def test_cleanup_chats_prints_one_line_a_tenant() -> None:
    session_of("alice", days=31)
    session_of("bob", days=31, is_pinned=True)
    assert run("cleanup_chats", "--days", 30) == (
        "default: 1 sessions with 2 messages, idle for more than 30 days, deleted;"
        " kept: 0 held, 1 pinned\n"
    )
    assert ChatSession.objects.get().is_pinned


def test_cleanup_chats_counts_in_a_dry_run_and_deletes_nothing() -> None:
    session_of(days=31)
    assert run("cleanup_chats", "--days", 30, "--dry-run") == (
        "default: 1 sessions with 2 messages, idle for more than 30 days, would be deleted;"
        " kept: 0 held, 0 pinned\n"
    )
    assert ChatSession.objects.count() == 1


def test_cleanup_chats_takes_its_days_from_the_settings(settings: LazySettings) -> None:
    settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS = 10
    session_of(days=11)
    run("cleanup_chats")
    assert not ChatSession.objects.exists()


def test_cleanup_chats_takes_its_days_from_a_tenant_where_they_are_fewer() -> None:
    acme = builders.tenant("acme", retention_days=5)
    session_of(days=6, tenant=acme)
    assert "acme: 1 sessions" in run("cleanup_chats")


def test_cleanup_chats_without_any_limit_says_how_to_set_one() -> None:
    session_of(days=9999)
    assert run("cleanup_chats") == (
        "Nothing to do: give --days, or set CHAT_MEMORY_AUTO_CLEANUP_DAYS or a tenant's retention"
        " days.\n"
    )
    assert ChatSession.objects.count() == 1


@pytest.mark.parametrize("days", ["0", "-1", "1.5", "many", "36501", "²", "9" * 5000, ""])
def test_cleanup_chats_names_a_wrong_number_of_days(days: str) -> None:
    session_of(days=9999)
    with pytest.raises(CommandError, match="is not a number of days: give 1 to 36500"):
        run("cleanup_chats", f"--days={days}")
    assert ChatSession.objects.count() == 1


def test_cleanup_chats_names_a_wrong_setting(settings: LazySettings) -> None:
    settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS = -3
    with pytest.raises(CommandError, match="CHAT_MEMORY_AUTO_CLEANUP_DAYS: days is -3"):
        run("cleanup_chats")


def test_cleanup_chats_fails_when_a_session_could_not_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck = session_of(days=31)

    def fail(session_id: uuid.UUID, **options: Any) -> None:
        raise OperationalError("lock timeout")

    monkeypatch.setattr(idle_sessions, "forget_session", fail)
    with pytest.raises(CommandError, match=f"Not deleted, see the log: {stuck.pk}") as error:
        run("cleanup_chats", "--days", 30)
    assert error.value.returncode == 1


@pytest.mark.parametrize("is_preview", [True, False])
def test_cleanup_chats_leaves_a_run_and_receipts_by_a_rule(is_preview: bool) -> None:
    session_of(days=31)
    run("cleanup_chats", "--days", 30, *(["--dry-run"] if is_preview else []))
    row = CleanupRun.objects.get()
    assert (row.command, row.is_preview, row.error, row.finished_at is not None) == (
        "cleanup_chats",
        is_preview,
        "",
        True,
    )
    assert (row.counts["sessions"], row.counts["failed"]) == (1, 0)
    receipts = DeletionReceipt.objects.values_list("by", flat=True)
    assert list(receipts) == ([] if is_preview else ["policy"])


def test_cleanup_chats_says_in_its_run_why_it_failed(settings: LazySettings) -> None:
    settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS = -3
    with pytest.raises(CommandError):
        run("cleanup_chats")
    assert CleanupRun.objects.get().error == "days is -3: give a number from 0 (never) to 36500"


# --- reap_turns -----------------------------------------------------------------------------------


def test_reap_turns_says_how_many_it_ended() -> None:
    chat_session = session_of()
    assert run("reap_turns") == "Turns ended as interrupted: 0\n"
    turn = builders.turn(chat_session, builders.message(chat_session), status="running")
    leases.take(chat_session.pk, turn.pk)
    ago = timezone.now() - timedelta(seconds=1)
    ChatSession.objects.filter(pk=chat_session.pk).update(lease_expires_at=ago)
    assert run("reap_turns") == "Turns ended as interrupted: 1\n"
    assert ChatTurn.objects.get(pk=turn.pk).status == "interrupted"
