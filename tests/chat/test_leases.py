"""The lease of a session: one holder, expiry by the database's clock, dead owners."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from chat import leases, liveness
from chat.models import ChatSession, ChatTurn
from tests import builders

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


def held(chat_session: ChatSession, *, owner: str, seconds: float) -> ChatTurn:
    """A running turn whose lease ends `seconds` from now."""
    turn = builders.exchange(chat_session, "question", "half an", is_partial=True, status="running")
    ChatSession.objects.filter(pk=chat_session.pk).update(
        running_turn=turn.pk, lease_owner=owner, lease_expires_at=Now() + timedelta(seconds=seconds)
    )
    return turn


def test_of_many_takers_exactly_one_gets_the_lease(chat_session: ChatSession) -> None:
    for _ in range(10):
        start = threading.Barrier(8)

        def take(start: threading.Barrier = start) -> bool:
            try:
                start.wait()
                return leases.take(chat_session.pk, uuid.uuid4())
            finally:
                connection.close()

        with ThreadPoolExecutor(8) as pool:
            won = [each.result() for each in [pool.submit(take) for _ in range(8)]]
        assert won.count(True) == 1
        found = leases.holder(chat_session.pk)
        assert found is not None
        leases.release(chat_session.pk, found.turn)


def test_a_lease_is_renewed_and_released_by_its_holder_alone(chat_session: ChatSession) -> None:
    mine, other = uuid.uuid4(), uuid.uuid4()
    assert leases.take(chat_session.pk, mine)
    leases.hold(chat_session.pk, mine)
    for step in (leases.hold, leases.release):
        with pytest.raises(leases.Lost):
            step(chat_session.pk, other)
    leases.release(chat_session.pk, mine)
    assert leases.holder(chat_session.pk) is None
    with pytest.raises(leases.Lost):
        leases.hold(chat_session.pk, mine)


def test_a_lease_that_was_just_taken_is_not_expired(chat_session: ChatSession) -> None:
    leases.take(chat_session.pk, uuid.uuid4())
    found = leases.holder(chat_session.pk)
    assert found is not None
    assert (found.is_expired, found.owner) == (False, liveness.owner())
    assert leases.can_take_over(found) is False


def test_an_expired_turn_is_ended_once_and_keeps_its_text(chat_session: ChatSession) -> None:
    turn = held(chat_session, owner="u" + "0" * 32, seconds=-1)
    found = leases.holder(chat_session.pk)
    assert found is not None
    assert leases.can_take_over(found)
    assert leases.settle(chat_session.pk, found) is True
    assert leases.settle(chat_session.pk, found) is False
    turn.refresh_from_db()
    assert (turn.status, turn.error_code) == ("interrupted", "interrupted")
    assert turn.finished_at is not None
    assert turn.messages.get().content == "half an"
    assert leases.holder(chat_session.pk) is None


def test_a_lease_that_was_renewed_meanwhile_is_not_taken_over(chat_session: ChatSession) -> None:
    turn = held(chat_session, owner="u" + "0" * 32, seconds=-1)
    found = leases.holder(chat_session.pk)
    assert found is not None
    leases.hold(chat_session.pk, turn.pk)
    assert leases.settle(chat_session.pk, found) is False
    turn.refresh_from_db()
    assert turn.status == "running"


def test_an_idle_session_is_locked_and_a_busy_or_deleted_one_is_not(
    chat_session: ChatSession,
) -> None:
    leases.lock_idle(chat_session.pk, title="new")
    chat_session.refresh_from_db()
    assert chat_session.title == "new"
    turn = held(chat_session, owner="u" + "0" * 32, seconds=60)
    with pytest.raises(leases.Busy) as busy:
        leases.lock_idle(chat_session.pk, title="never")
    assert busy.value.turn == turn.pk
    chat_session.refresh_from_db()
    assert chat_session.title == "new"
    with pytest.raises(leases.Gone):
        leases.lock_idle(uuid.uuid4())


def test_quiescing_asks_to_stop_and_gives_up_on_a_turn_that_goes_on(
    chat_session: ChatSession,
) -> None:
    turn = held(chat_session, owner="u" + "0" * 32, seconds=60)
    with pytest.raises(leases.Busy):
        leases.quiesce(chat_session.pk, timeout=0.1)
    turn.refresh_from_db()
    assert turn.stop_requested is True


def test_quiescing_ends_the_turn_of_a_dead_owner(chat_session: ChatSession) -> None:
    turn = held(chat_session, owner="u" + "0" * 32, seconds=-1)
    leases.quiesce(chat_session.pk, timeout=0.1)
    turn.refresh_from_db()
    assert turn.status == "interrupted"


# --- Liveness -------------------------------------------------------------------------------------


@pytest.fixture
def alive() -> Iterator[str]:
    """This process's name while it holds its liveness lock."""
    liveness.start()
    yield liveness.owner()
    liveness.stop()


@pytest.mark.skipif("connection.vendor == 'mysql'", reason="there is the expiry alone")
def test_an_owner_is_gone_exactly_when_its_lock_is(
    alive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "PROBE_PAUSE", 0.01)
    assert alive.startswith(liveness.LOCKED)
    monkeypatch.setattr(liveness, "_name", uuid.uuid4().hex)  # as another process sees it
    assert liveness.owner_is_gone(alive) is False
    liveness.stop()
    assert liveness.owner_is_gone(alive) is True


def test_an_owner_without_a_lock_is_never_known_to_be_gone() -> None:
    assert liveness.owner().startswith(liveness.UNLOCKED)
    assert liveness.owner_is_gone("u" + "0" * 32) is False


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="advisory locks are PostgreSQL's")
def test_a_cut_lock_connection_is_opened_again(alive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = liveness._lock
    assert isinstance(lock, liveness.AdvisoryLock)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [lock.connection.info.backend_pid])
    monkeypatch.setattr(liveness, "_name", uuid.uuid4().hex)
    assert liveness.owner_is_gone(alive) is False  # probed twice, half a second apart


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="lock files are SQLite's")
def test_lock_files_of_killed_processes_are_cleaned_away(alive: str) -> None:
    folder = liveness.lock_path("x").parent
    dead = folder / f"{uuid.uuid4().hex}.lock"
    dead.touch()
    liveness.FileLock(uuid.uuid4().hex).close()
    assert not dead.exists()
    assert liveness.lock_path(alive[1:]).exists()
