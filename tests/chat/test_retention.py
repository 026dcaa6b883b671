"""What leaves, and that nothing of it comes back."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.serializers import serialize
from django.db import OperationalError, close_old_connections, connection, connections, transaction
from django.db.models import ForeignKey, Model
from django.utils import timezone

from chat import events, leases, retention
from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    DeletionReceipt,
    Feedback,
    ModelCall,
    SessionTombstone,
)
from chat.retention import idle_sessions, receipts
from chat.retention.places import SESSION_PLACES, Removed
from memory import preferences
from memory.models import MemorySnapshot, UserPreference
from tests import builders

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "青云-4173 😄"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[uuid.UUID, dict[str, Any]]]:
    """The frames that were published, and about which session."""
    heard: list[tuple[uuid.UUID, dict[str, Any]]] = []
    monkeypatch.setattr(
        events, "publish_from_thread", lambda session_id, frame: heard.append((session_id, frame))
    )
    return heard


def full_session(person: Any = None) -> ChatSession:
    """A session with rows in every table that can hold something of it."""
    chat_session = builders.chat_session(person, title=SECRET)
    first = builders.exchange(chat_session, SECRET, f"Noted: {SECRET}")
    second = builders.exchange(chat_session, f"What was {SECRET}?", SECRET)
    builders.exchange(chat_session, "And?", f"Half of {SECRET}", is_partial=True, status="stopped")
    history = list(chat_session.messages.filter(seq__lte=2).order_by("seq"))
    builders.record(first)
    builders.record(second, history=history)
    ContextPart.objects.create(chat_session=chat_session, text=f"{SECRET} [cut off]")
    Feedback.objects.create(turn=second, user=chat_session.user, value=1, comment=SECRET)
    MemorySnapshot.objects.create(chat_session=chat_session, messages=[{"content": SECRET}])
    builders.attachment(chat_session, f"{SECRET}.png")
    return chat_session


def preference_from(chat_session: ChatSession, key: str = "code") -> UserPreference:
    made = preferences.remember(
        chat_session.tenant_id,
        chat_session.user_id,
        "all",
        key,
        "answer briefly",
        origin="chat",
        source_session=chat_session.pk,
        source_seq=1,
    )
    UserPreference.objects.filter(pk=made.pk).update(quote=SECRET)
    return made


def age(chat_session: ChatSession, days: float) -> None:
    last = timezone.now() - timedelta(days=days)
    ChatSession.objects.filter(pk=chat_session.pk).update(last_active_at=last)


def everything_stored() -> str:
    """Every row of both apps as JSON text."""
    rows: list[Model] = []
    for label in ("chat", "memory"):
        for model in apps.get_app_config(label).get_models():
            rows += model._default_manager.all()
    return serialize("json", rows, ensure_ascii=False)


# --- Deleting a session ---------------------------------------------------------------------------


def test_deleting_a_session_removes_every_row_that_derives_from_it() -> None:
    chat_session = full_session()
    removed = retention.forget_session(chat_session.pk)
    assert removed.counts == {
        "feedback": 1,
        "context_records": 2,
        "context_parts": 1,
        "snapshots": 1,
        "attachments": 1,
        "files": 1,
        "turns": 3,
        "messages": 6,
        "sessions": 1,
    }
    for model in (ChatSession, ChatMessage, ChatTurn, ContextRecord, Feedback, MemorySnapshot):
        assert not model._default_manager.exists(), model
    assert list(ContextPart.objects.values_list("text", flat=True)) == [builders.PROMPT]


def test_nothing_of_the_text_is_left_in_any_table() -> None:
    chat_session = full_session()
    preference_from(chat_session)
    assert SECRET in everything_stored()
    retention.forget_session(chat_session.pk, reason="asked for")
    assert SECRET not in everything_stored()


def test_another_session_keeps_every_row() -> None:
    kept, gone = full_session(), full_session()
    retention.forget_session(gone.pk)
    assert ChatSession.objects.get().pk == kept.pk
    assert (kept.messages.count(), kept.turns.count(), kept.context_records.count()) == (6, 3, 2)
    assert Feedback.objects.count() == MemorySnapshot.objects.count() == 1


def test_every_table_that_belongs_to_a_session_is_emptied_by_deletion() -> None:
    emptied = {place.rows(uuid.uuid4()).model for place in SESSION_PLACES}
    outlive = {ModelCall, UserPreference}  # what they name of the session is taken out
    assert models_that_point_at(ChatSession) - outlive == emptied - {ChatSession}


def models_that_point_at(target: type[Model]) -> set[type[Model]]:
    """Models with a foreign key to `target`, or to a model that has one."""
    found: set[type[Model]] = set()
    waiting: list[type[Model]] = [target]
    while waiting:
        wanted = waiting.pop()
        for model in apps.get_models(include_auto_created=True):
            points = any(
                isinstance(field, ForeignKey) and field.related_model is wanted
                for field in model._meta.get_fields()
            )
            if points and model not in found | {target}:
                found.add(model)
                waiting.append(model)
    return found


def test_preferences_stay_and_forget_where_they_came_from() -> None:
    chat_session = full_session()
    made = preference_from(chat_session)
    retention.forget_session(chat_session.pk)
    made.refresh_from_db()
    assert (made.text, made.source_session_id, made.source_seq, made.quote) == (
        "answer briefly",
        None,
        None,
        "",
    )


def test_deletion_leaves_a_tombstone_and_an_event_that_names_only_the_id() -> None:
    chat_session, admin = full_session(), builders.superuser()
    retention.forget_session(chat_session.pk, actor=admin, reason="asked for", ip="192.0.2.7")
    assert SessionTombstone.objects.get().pk == chat_session.pk
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_type) == (admin, "session.delete", "session")
    assert (event.object_id, event.reason, event.ip) == (
        str(chat_session.pk),
        "asked for",
        "192.0.2.7",
    )


def test_a_reason_of_any_length_and_kind_is_kept_as_far_as_it_fits() -> None:
    chat_session = full_session()
    retention.forget_session(chat_session.pk, reason="\x00字\ud800" * 1000)
    assert AuditEvent.objects.get().reason == "字\ufffd" * 250


def test_events_of_earlier_reads_stay() -> None:
    chat_session = full_session()
    AuditEvent.objects.create(action="transcript.read", object_id=str(chat_session.pk))
    retention.forget_session(chat_session.pk)
    assert list(AuditEvent.objects.order_by("pk").values_list("action", flat=True)) == [
        "transcript.read",
        "session.delete",
    ]


def test_who_watches_is_told_once_it_is_committed(
    told: list[tuple[uuid.UUID, dict[str, Any]]],
) -> None:
    chat_session = full_session()
    with transaction.atomic():
        retention.forget_session(chat_session.pk)
        assert told == []
    frame = {"type": "session.deleted", "session": str(chat_session.pk)}
    assert told == [(chat_session.pk, frame)]


def test_an_unknown_session_is_gone_and_leaves_no_tombstone(
    told: list[tuple[uuid.UUID, dict[str, Any]]],
) -> None:
    with pytest.raises(leases.Gone):
        retention.forget_session(uuid.uuid4())
    assert not SessionTombstone.objects.exists()
    assert not AuditEvent.objects.exists()
    assert told == []


def test_a_failure_in_the_middle_removes_nothing(
    monkeypatch: pytest.MonkeyPatch, told: list[tuple[uuid.UUID, dict[str, Any]]]
) -> None:
    chat_session = full_session()

    def fail(**fields: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(AuditEvent.objects, "create", fail)
    with pytest.raises(RuntimeError, match="the disk is full"):
        retention.forget_session(chat_session.pk)
    chat_session.refresh_from_db()
    assert (chat_session.messages.count(), chat_session.head is not None) == (6, True)
    assert not SessionTombstone.objects.exists()
    assert told == []


def test_branches_and_shared_inputs_are_deleted_whole() -> None:
    chat_session = builders.chat_session()
    asked = builders.message(chat_session, "user", "Q")
    for number in range(3):  # three answers to one question
        turn = builders.turn(chat_session, asked)
        builders.message(chat_session, "assistant", f"A{number}", parent=asked, turn=turn)
    removed = retention.forget_session(chat_session.pk)
    assert (removed.counts["turns"], removed.counts["messages"]) == (3, 4)


def test_memory_does_not_grow_with_the_conversation() -> None:
    import tracemalloc

    chat_session = long_session(20_000)
    tracemalloc.start()
    removed = retention.forget_session(chat_session.pk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert removed.counts["messages"] == 20_000
    assert peak < 2_000_000


def long_session(count: int) -> ChatSession:
    """`count` messages, each the parent of the next, written in bulk."""
    chat_session = builders.chat_session()
    asked = builders.message(chat_session, "user", "first")
    turn = builders.turn(chat_session, asked)
    rows = [ChatMessage(chat_session=chat_session, seq=1, role="user", pk=asked.pk)]
    for seq in range(2, count + 1):
        role = "user" if seq % 2 else "assistant"
        rows.append(
            ChatMessage(
                chat_session=chat_session,
                seq=seq,
                role=role,
                content="text",
                parent_id=rows[-1].pk,
                turn=turn if role == "assistant" else None,
            )
        )
    for start in range(1, count, 1000):  # in order: MariaDB wants each parent before its child
        ChatMessage.objects.bulk_create(rows[start : start + 1000])
    ChatSession.objects.filter(pk=chat_session.pk).update(
        head=rows[-1].pk, next_seq=count + 1, message_count=count
    )
    return chat_session


# --- Late writers ---------------------------------------------------------------------------------


def running_turn(chat_session: ChatSession) -> ChatTurn:
    """A turn that holds the session's lease, as one of this process does."""
    asked = builders.message(chat_session, "user", "Q")
    turn = builders.turn(chat_session, asked, status=ChatTurn.Status.RUNNING)
    assert leases.take(chat_session.pk, turn.pk)
    return turn


def test_deletion_does_not_wait_for_a_running_turn_and_its_later_writes_are_lost() -> None:
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    retention.forget_session(chat_session.pk)
    with pytest.raises(leases.Lost), transaction.atomic():
        leases.hold(chat_session.pk, turn.pk)
    with pytest.raises(leases.Lost), transaction.atomic():
        leases.release(chat_session.pk, turn.pk)
    assert not leases.take(chat_session.pk, uuid.uuid4())
    assert not ChatMessage.objects.exists()


def test_a_writer_that_holds_the_row_is_waited_for_and_its_rows_leave_too() -> None:
    """The writer began first: deletion comes after it and takes what it wrote."""
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    holds, may_commit = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            leases.hold(chat_session.pk, turn.pk)
            holds.set()
            may_commit.wait(10)
            ChatMessage.objects.create(
                chat_session=chat_session, seq=2, role="assistant", content=SECRET, turn=turn
            )

    with in_thread(write):
        assert holds.wait(10)
        with in_thread(lambda: retention.forget_session(chat_session.pk)) as deleting:
            deleting.join(0.3)
            assert deleting.is_alive()
            may_commit.set()
    assert not ChatMessage.objects.exists()
    assert SessionTombstone.objects.filter(pk=chat_session.pk).exists()


@pytest.mark.skipif(
    connection.vendor == "sqlite", reason="SQLite has one writer at a time, whatever it writes"
)
def test_a_preference_written_meanwhile_cannot_make_deletion_fail() -> None:
    """It refers to the session without having updated its row; its foreign key is checked first."""
    chat_session = builders.chat_session()
    written, may_commit = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            preference_from(chat_session)
            connection.check_constraints()  # PostgreSQL would leave that to the commit
            written.set()
            may_commit.wait(10)

    with in_thread(write):
        assert written.wait(10)
        with in_thread(lambda: retention.forget_session(chat_session.pk)) as deleting:
            deleting.join(0.3)
            assert deleting.is_alive()
            may_commit.set()
    assert not ChatSession.objects.exists()
    assert UserPreference.objects.get().source_session_id is None


class in_thread:  # noqa: N801  reads as what it does
    """Runs a function in a thread with a database connection of its own; re-raises its error."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        close_old_connections()
        try:
            self.function()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()

    def __enter__(self) -> threading.Thread:
        self.thread.start()
        return self.thread

    def __exit__(self, *exc: object) -> None:
        self.thread.join(20)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error


# --- Clearing memory ------------------------------------------------------------------------------


def test_clearing_draws_the_line_after_the_newest_message_and_drops_the_snapshot(
    told: list[tuple[uuid.UUID, dict[str, Any]]],
) -> None:
    chat_session = full_session()
    cleared = retention.clear_memory(chat_session.pk)
    assert cleared == retention.Cleared(memory_starts_after=6, preferences=0)
    chat_session.refresh_from_db()
    assert (chat_session.memory_starts_after, chat_session.memory_epoch) == (6, 1)
    assert not MemorySnapshot.objects.exists()
    assert chat_session.messages.count() == 6
    frame = {
        "type": "memory.cleared",
        "session": str(chat_session.pk),
        "memory_starts_after": 6,
    }
    assert told == [(chat_session.pk, frame)]


def test_clearing_twice_is_the_same_as_once_but_for_the_epoch() -> None:
    chat_session = full_session()
    retention.clear_memory(chat_session.pk)
    assert retention.clear_memory(chat_session.pk).memory_starts_after == 6
    chat_session.refresh_from_db()
    assert chat_session.memory_epoch == 2


def test_clearing_an_empty_session_draws_the_line_before_everything() -> None:
    chat_session = builders.chat_session()
    assert retention.clear_memory(chat_session.pk).memory_starts_after == 0


def test_clearing_does_not_count_as_activity() -> None:
    chat_session = full_session()
    age(chat_session, 40)
    chat_session.refresh_from_db()
    retention.clear_memory(chat_session.pk)
    before = chat_session.last_active_at
    chat_session.refresh_from_db()
    assert chat_session.last_active_at == before


def test_preferences_of_the_session_stay_unless_they_are_named() -> None:
    chat_session = full_session()
    kept, unwanted = (preference_from(chat_session, key) for key in ("tone", "code"))
    cleared = retention.clear_memory(chat_session.pk, delete_preferences=[unwanted.pk])
    assert cleared.preferences == 1
    assert UserPreference.objects.get().pk == kept.pk
    receipt = DeletionReceipt.objects.get()
    subject = receipts.subject_hash("preference", unwanted.pk)
    assert (receipt.kind, receipt.subject, receipt.counts) == (
        "preference",
        subject,
        {"preferences": 1},
    )


@pytest.mark.parametrize("whose", ["another session of the same person", "somebody else"])
def test_a_preference_from_elsewhere_is_refused_and_nothing_is_cleared(whose: str) -> None:
    chat_session = full_session()
    person = chat_session.user if whose != "somebody else" else None
    foreign = preference_from(builders.chat_session(person))
    with pytest.raises(retention.UnknownPreferences, match=str(foreign.pk)):
        retention.clear_memory(chat_session.pk, delete_preferences=[foreign.pk])
    chat_session.refresh_from_db()
    assert (chat_session.memory_starts_after, chat_session.memory_epoch) == (0, 0)
    assert UserPreference.objects.filter(pk=foreign.pk).exists()


def test_a_turn_that_goes_on_is_waited_for_and_then_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    with pytest.raises(leases.Busy, match=str(turn.pk)):
        retention.clear_memory(chat_session.pk, timeout=0.1)
    turn.refresh_from_db()
    chat_session.refresh_from_db()
    assert turn.stop_requested
    assert chat_session.memory_epoch == 0


def test_a_dead_turn_is_ended_first() -> None:
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    expire(chat_session)
    assert retention.clear_memory(chat_session.pk).memory_starts_after == 1
    turn.refresh_from_db()
    assert turn.status == ChatTurn.Status.INTERRUPTED


def test_a_turn_that_begins_in_between_is_stopped_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat_session = builders.chat_session()
    calls: list[uuid.UUID] = []
    quiesce = leases.quiesce

    def quiesce_then_begin(session_id: uuid.UUID, timeout: float) -> None:
        quiesce(session_id, timeout)
        calls.append(session_id)
        if len(calls) == 1:
            running_turn(chat_session)
            expire(chat_session)

    monkeypatch.setattr(leases, "quiesce", quiesce_then_begin)
    assert retention.clear_memory(chat_session.pk).memory_starts_after == 1
    assert len(calls) == 2


def test_memory_of_an_unknown_session_cannot_be_cleared() -> None:
    with pytest.raises(leases.Gone):
        retention.clear_memory(uuid.uuid4())


# --- Cleanup --------------------------------------------------------------------------------------


def ids() -> set[uuid.UUID]:
    return set(ChatSession.objects.values_list("pk", flat=True))


def aged(days: float, **fields: Any) -> ChatSession:
    chat_session = builders.chat_session(**fields)
    builders.exchange(chat_session)
    age(chat_session, days)
    return chat_session


def test_cleanup_removes_what_is_idle_for_longer_and_nothing_else() -> None:
    old, young = aged(31), aged(29)
    report = retention.cleanup(30)
    assert ids() == {young.pk}
    assert (report.sessions, report.removed.rows["messages"], report.failed) == (1, 2, ())
    assert SessionTombstone.objects.get().pk == old.pk


def test_held_and_pinned_sessions_are_kept_and_counted() -> None:
    held, pinned = aged(99, is_held=True), aged(99, is_pinned=True)
    both = aged(99, is_held=True, is_pinned=True)
    aged(99)
    report = retention.cleanup(30)
    assert ids() == {held.pk, pinned.pk, both.pk}
    assert report.tenants == (
        retention.TenantCleanup("default", 30, sessions=1, messages=2, held=2, pinned=1),
    )


def test_a_dry_run_counts_the_same_and_removes_nothing() -> None:
    aged(99)
    aged(99)
    report = retention.cleanup(30, dry_run=True)
    assert (report.is_dry_run, report.sessions, report.tenants[0].messages) == (True, 2, 4)
    assert (len(ids()), report.removed, AuditEvent.objects.count()) == (2, Removed(), 0)
    assert retention.cleanup(30).sessions == 2


def test_a_second_run_finds_nothing() -> None:
    aged(99)
    retention.cleanup(30)
    report = retention.cleanup(30)
    assert (report.sessions, report.removed.total) == (0, 0)


@pytest.mark.parametrize(
    ("days", "own", "limit"), [(30, 7, 7), (7, 30, 7), (0, 7, 7), (7, None, 7), (7, 7, 7)]
)
def test_the_shorter_of_both_limits_counts(days: int, own: int | None, limit: int) -> None:
    tenant = builders.tenant("acme", retention_days=own)
    aged(limit + 1, tenant=tenant)
    young = aged(limit - 1, tenant=tenant)
    report = retention.cleanup(days)
    assert [(each.days, each.sessions) for each in report.tenants if each.tenant == "acme"] == [
        (limit, 1)
    ]
    assert ids() == {young.pk}


def test_without_any_limit_nothing_is_looked_at() -> None:
    old = aged(9999)
    assert retention.cleanup(0).tenants == ()
    assert ids() == {old.pk}


def test_a_tenant_with_a_limit_of_its_own_does_not_clean_up_others() -> None:
    old = aged(99)
    aged(99, tenant=builders.tenant("acme", retention_days=10))
    retention.cleanup(0)
    assert ids() == {old.pk}


@pytest.mark.parametrize("days", [-1, 36501])
def test_an_impossible_number_of_days_is_named(days: int) -> None:
    with pytest.raises(ValueError, match=f"days is {days}"):
        retention.cleanup(days)


def test_a_session_that_is_used_between_the_look_and_the_deletion_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reopened, other = aged(99), aged(99)
    idle_ids = idle_sessions.idle_ids

    def reopen(*args: Any) -> Iterator[uuid.UUID]:
        for session_id in idle_ids(*args):
            age(reopened, 0)
            yield session_id

    monkeypatch.setattr(idle_sessions, "idle_ids", reopen)
    report = retention.cleanup(30)
    assert ids() == {reopened.pk}
    assert (report.sessions, report.failed) == (1, ())
    assert not SessionTombstone.objects.filter(pk=reopened.pk).exists()
    assert SessionTombstone.objects.filter(pk=other.pk).exists()


def test_a_run_that_is_killed_has_done_whole_sessions_and_the_next_one_does_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(5):
        aged(99)
    monkeypatch.setattr(idle_sessions, "BATCH", 2)
    delete = idle_sessions.forget_session
    done: list[uuid.UUID] = []

    def die_at_the_fourth(session_id: uuid.UUID, **options: Any) -> DeletionReceipt:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(session_id)
        return delete(session_id, **options)

    monkeypatch.setattr(idle_sessions, "forget_session", die_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        retention.cleanup(30)
    assert (len(ids()), ChatMessage.objects.count(), ChatTurn.objects.count()) == (2, 4, 2)
    monkeypatch.setattr(idle_sessions, "forget_session", delete)
    assert retention.cleanup(30).sessions == 2
    assert SessionTombstone.objects.count() == 5


@pytest.mark.parametrize("why", [OperationalError("lock timeout"), PermissionError("an export")])
def test_one_session_that_cannot_be_deleted_is_named_and_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    stuck, _ = aged(99), aged(99)
    delete = idle_sessions.forget_session

    def fail_for_one(session_id: uuid.UUID, **options: Any) -> DeletionReceipt:
        if session_id == stuck.pk:
            raise why
        return delete(session_id, **options)

    monkeypatch.setattr(idle_sessions, "forget_session", fail_for_one)
    report = retention.cleanup(30)
    assert (report.sessions, report.failed) == (1, (stuck.pk,))
    assert ids() == {stuck.pk}


def test_a_run_leaves_one_event_beside_those_of_its_sessions() -> None:
    aged(99)
    retention.cleanup(30)
    event = AuditEvent.objects.get(action="sessions.cleanup")
    assert (event.count, event.filter) == (1, {"days": 30, "tenants": {"default": 30}})
    deletion = AuditEvent.objects.get(action="session.delete")
    assert deletion.reason == "Idle for more than 30 days"


# --- Dead turns -----------------------------------------------------------------------------------


def expire(chat_session: ChatSession) -> None:
    ago = timezone.now() - timedelta(seconds=1)
    ChatSession.objects.filter(pk=chat_session.pk).update(lease_expires_at=ago)


def test_a_turn_whose_lease_expired_is_interrupted_and_its_text_is_kept(
    told: list[tuple[uuid.UUID, dict[str, Any]]],
) -> None:
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    builders.message(chat_session, "assistant", "so far", turn=turn, is_partial=True)
    expire(chat_session)
    assert retention.reap_turns() == 1
    turn.refresh_from_db()
    chat_session.refresh_from_db()
    assert (turn.status, turn.error_code) == ("interrupted", "interrupted")
    assert (chat_session.running_turn, chat_session.lease_owner) == (None, "")
    answer = ChatMessage.objects.get(role="assistant")
    assert (answer.content, answer.is_partial) == ("so far", True)
    assert [(session_id, frame["type"]) for session_id, frame in told] == [
        (chat_session.pk, "turn.interrupted")
    ]


def test_a_turn_that_runs_is_left_alone() -> None:
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    assert retention.reap_turns() == 0
    turn.refresh_from_db()
    assert turn.status == ChatTurn.Status.RUNNING


def test_reaping_twice_ends_nothing_the_second_time() -> None:
    chat_session = builders.chat_session()
    running_turn(chat_session)
    expire(chat_session)
    assert (retention.reap_turns(), retention.reap_turns()) == (1, 0)


def test_a_turn_that_ended_in_between_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = builders.chat_session()
    turn = running_turn(chat_session)
    expire(chat_session)
    settle = leases.settle

    def finish_first(session_id: uuid.UUID, found: leases.Holder) -> bool:
        with transaction.atomic():
            leases.release(session_id, found.turn)
            ChatTurn.objects.filter(pk=turn.pk).update(status="completed")
        return settle(session_id, found)

    monkeypatch.setattr(leases, "settle", finish_first)
    assert retention.reap_turns() == 0
    turn.refresh_from_db()
    assert turn.status == "completed"
