"""Snapshots in a store that is not the database's rows, named by CHAT_MEMORY_STORE."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from pytest_django import Settings

from chat.models import ChatSession
from memory import recall, snapshots
from memory.context import HistoryMessage, LeftOut, Window
from memory.history import SessionState
from memory.messages import Message, ToolCall
from memory.models import MemorySnapshot
from memory.recall import Owner
from memory.stores import CacheStore, Snapshot
from memory.stores.windows import from_messages, to_messages
from tests import builders
from tests.memory.conversation import (
    ListReader,
    answered,
    asked,
    policy,
    seqs,
    state,
    stored,
    talk,
)

pytestmark = pytest.mark.django_db(transaction=True)

LEFT_OUT = (LeftOut(1, 2, "max_messages"), LeftOut(5, 5, "no_answer"))


class Away(RuntimeError):
    """What a store says that cannot be reached."""


class StoreThatIsAway:
    """Nothing gets through."""

    def load(self, memory_id: str) -> Snapshot | None:
        raise Away("connection refused")

    def replace(self, *args: Any, **options: Any) -> Snapshot:
        raise Away("connection refused")

    def delete(self, memory_id: str) -> None:
        raise Away("connection refused")


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


@pytest.fixture(autouse=True)
def _in_the_cache(settings: Settings) -> Iterator[None]:
    settings.CHAT_MEMORY_STORE = "memory.stores.CacheStore"
    cache.clear()
    yield
    cache.clear()


def at(chat_session: ChatSession, newest_seq: int, **fields: Any) -> SessionState:
    return state(newest_seq, id=chat_session.pk, **fields)


def window(messages: list[HistoryMessage]) -> Window:
    return Window(tuple(messages), LEFT_OUT, "rebuild", 1, policy().described())


def save(chat_session: ChatSession, messages: list[HistoryMessage], through: int = 9) -> bool:
    with transaction.atomic():
        return snapshots.save(at(chat_session, 0), policy(), window(messages), through)


def read(chat_session: ChatSession, newest_seq: int = 9) -> tuple[Window | None, str]:
    return snapshots.read(at(chat_session, newest_seq), policy())


def recalled(chat_session: ChatSession, reader: ListReader, newest_seq: int) -> Window:
    owner = Owner(chat_session.tenant_id, chat_session.user_id, "guide")
    return recall.recall(reader, at(chat_session, newest_seq), owner, policy()).window


MIXED = [
    asked(3, '青云-4173 😄 עברית "quoted" \\ \n'),
    stored(4, Message.assistant(None, [ToolCall("c1", "f", '{"a": 1}')]), tokens=7, encoding="x"),
    stored(6, Message.tool("c1", "x", "f", is_error=True)),
    answered(7, "half", is_partial=True),
    stored(8, Message.user("look", ({"type": "image_url", "image_url": {"url": "u"}},))),
    stored(9, Message.assistant("plain"), mark="plain_text"),
]


def test_a_window_comes_back_as_it_was_and_no_table_holds_it(chat_session: ChatSession) -> None:
    assert save(chat_session, MIXED) is True
    found, why = read(chat_session)
    assert (found, why) == (dataclasses.replace(window(MIXED), source="snapshot"), "")
    assert MemorySnapshot.objects.count() == 0


@pytest.mark.parametrize("path", ["memory.stores.InMemoryStore", "memory.stores.DatabaseStore"])
def test_any_store_will_do(chat_session: ChatSession, settings: Settings, path: str) -> None:
    settings.CHAT_MEMORY_STORE = path
    save(chat_session, MIXED)
    assert read(chat_session)[0] == dataclasses.replace(window(MIXED), source="snapshot")
    assert MemorySnapshot.objects.count() == int(path.endswith("DatabaseStore"))
    snapshots.drop(chat_session.pk)
    assert read(chat_session) == (None, "missing")


def test_the_key_is_the_sessions_and_the_window_expires(chat_session: ChatSession) -> None:
    save(chat_session, talk(1))
    assert cache.get(f"chat:memory:{chat_session.pk}") is not None
    found = CacheStore().load(str(chat_session.pk))
    assert found is not None
    assert found.revision == cache.get(f"chat:memory:{chat_session.pk}")
    cache.clear()
    assert read(chat_session) == (None, "missing")


def test_it_is_written_when_the_turn_is_stored_and_not_before(chat_session: ChatSession) -> None:
    with transaction.atomic():
        snapshots.save(at(chat_session, 0), policy(), window(talk(1)), 9)
        assert read(chat_session) == (None, "missing")
    assert read(chat_session)[1] == ""


def test_a_turn_that_is_rolled_back_leaves_none(chat_session: ChatSession) -> None:
    with transaction.atomic():
        snapshots.save(at(chat_session, 0), policy(), window(talk(1)), 9)
        transaction.set_rollback(True)
    assert read(chat_session) == (None, "missing")


def test_turn_after_turn_reads_what_the_last_one_left(chat_session: ChatSession) -> None:
    reader = ListReader([])
    for newest in range(0, 10, 2):
        before = at(chat_session, newest)
        found = recalled(chat_session, reader, newest)
        assert found.source == ("snapshot" if newest else "rebuild:missing")
        added = talk(1, first=newest + 1)
        with transaction.atomic():
            recall.snapshot_after_turn(chat_session.pk, before, policy(), found, added)
        reader.messages += added
    assert seqs(recalled(chat_session, reader, 10).messages) == list(range(1, 11))


# --- Writers that come late


def test_a_writer_that_comes_late_does_not_replace_a_newer_window(
    chat_session: ChatSession,
) -> None:
    save(chat_session, talk(2), through=11)
    save(chat_session, talk(1), through=9)
    found, why = read(chat_session, 11)
    assert (found is not None, why) == (True, "")


def test_of_two_writers_at_once_one_is_refused_by_its_revision(
    chat_session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(chat_session, talk(1), through=9)
    load = CacheStore.load

    def load_while_another_writes(self: CacheStore, memory_id: str) -> Snapshot | None:
        found = load(self, memory_id)
        monkeypatch.setattr(CacheStore, "load", load)
        save(chat_session, talk(3), through=13)
        return found

    monkeypatch.setattr(CacheStore, "load", load_while_another_writes)
    save(chat_session, talk(2), through=11)
    assert read(chat_session, 13)[1] == ""


def test_what_was_cleared_between_a_turn_and_its_snapshot_does_not_come_back(
    chat_session: ChatSession,
) -> None:
    with transaction.atomic():
        snapshots.save(at(chat_session, 0), policy(), window(talk(1)), 9)
        ChatSession.objects.filter(pk=chat_session.pk).update(memory_epoch=1)
    assert CacheStore().load(str(chat_session.pk)) is None


@pytest.mark.parametrize("had_one", [True, False])
def test_clearing_while_the_snapshot_is_written_leaves_nothing_behind(
    chat_session: ChatSession, monkeypatch: pytest.MonkeyPatch, had_one: bool
) -> None:
    if had_one:
        save(chat_session, talk(1), through=7)
    replace = CacheStore.replace

    def clear_then_replace(self: CacheStore, *args: Any, **options: Any) -> Snapshot:
        with transaction.atomic():
            ChatSession.objects.filter(pk=chat_session.pk).update(memory_epoch=1)
            snapshots.drop(chat_session.pk)
        return replace(self, *args, **options)

    monkeypatch.setattr(CacheStore, "replace", clear_then_replace)
    save(chat_session, talk(2))
    assert CacheStore().load(str(chat_session.pk)) is None


def test_deleting_the_session_between_leaves_nothing_behind(chat_session: ChatSession) -> None:
    with transaction.atomic():
        gone = chat_session.pk
        snapshots.save(at(chat_session, 0), policy(), window(talk(1)), 9)
        ChatSession.objects.filter(pk=gone).delete()
    assert CacheStore().load(str(gone)) is None


# --- Dropping


def test_dropping_reaches_the_store_when_the_transaction_ends(chat_session: ChatSession) -> None:
    other = builders.chat_session()
    save(chat_session, talk(1))
    save(other, talk(1))
    with transaction.atomic():
        assert snapshots.drop(chat_session.pk) == 0
        assert read(chat_session)[1] == ""
    assert (read(chat_session), read(other)[1]) == ((None, "missing"), "")


def test_a_row_from_before_the_store_was_chosen_goes_too(
    chat_session: ChatSession, settings: Settings
) -> None:
    settings.CHAT_MEMORY_STORE = "memory.stores.DatabaseStore"
    save(chat_session, talk(1))
    settings.CHAT_MEMORY_STORE = "memory.stores.CacheStore"
    assert snapshots.drop(chat_session.pk) == 1


def test_forgetting_says_when_the_store_is_away_and_dropping_warns(
    chat_session: ChatSession, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    save(chat_session, talk(1))
    snapshots.forget(chat_session.pk)
    assert read(chat_session) == (None, "missing")
    settings.CHAT_MEMORY_STORE = f"{__name__}.StoreThatIsAway"
    with pytest.raises(Away):
        snapshots.forget(chat_session.pk)
    with caplog.at_level(logging.WARNING, "memory"):
        snapshots.drop(chat_session.pk)
    assert f"session {chat_session.pk} is still in its store" in caplog.text
    settings.CHAT_MEMORY_STORE = "memory.stores.DatabaseStore"
    snapshots.forget(chat_session.pk)


# --- A store that is away, and one that holds something else


def test_a_session_goes_on_from_its_history_while_the_store_is_away(
    chat_session: ChatSession, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CHAT_MEMORY_STORE = f"{__name__}.StoreThatIsAway"
    with caplog.at_level(logging.WARNING, "memory"):
        found = recalled(chat_session, ListReader(talk(2)), 4)
    assert (seqs(found.messages), found.source) == ([1, 2, 3, 4], "rebuild:unavailable")
    assert f"does not answer for session {chat_session.pk}" in caplog.text
    assert "connection refused" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "memory"):
        assert save(chat_session, talk(1)) is True
    assert "was not stored" in caplog.text


def test_what_is_no_window_is_built_again_and_replaced(chat_session: ChatSession) -> None:
    store = CacheStore()
    for strange in ([], [Message.user("hi")], [Message("system", "", ({"type": "kept"},))]):
        store.replace(str(chat_session.pk), strange)
        assert read(chat_session) == (None, "unreadable")
    save(chat_session, talk(1))
    assert read(chat_session)[1] == ""


def test_one_message_that_cannot_be_read_costs_a_rebuild_and_nothing_else(
    chat_session: ChatSession, caplog: pytest.LogCaptureFixture
) -> None:
    save(chat_session, talk(2), through=4)
    key = f"chat:memory:{chat_session.pk}"
    revision = f"{key}:{cache.get(key)}"
    cache.set(revision, cache.get(revision).replace('"role":"user"', '"role":"sorcerer"', 1))
    with caplog.at_level(logging.WARNING, "memory"):
        found = recalled(chat_session, ListReader(talk(2)), 4)
    assert (seqs(found.messages), found.source) == ([1, 2, 3, 4], "rebuild:unreadable")
    assert "sorcerer" not in "".join(each.message.role for each in found.messages)


@pytest.mark.parametrize(
    ("changes", "why"), [({"memory_epoch": 1}, "epoch"), ({"format_version": 9}, "version")]
)
def test_a_window_of_another_epoch_or_version_is_not_used(
    chat_session: ChatSession, changes: dict[str, Any], why: str
) -> None:
    save(chat_session, talk(1))
    store, memory_id = CacheStore(), str(chat_session.pk)
    kept = store.load(memory_id)
    assert kept is not None
    values = {**from_messages(memory_id, kept.messages), **changes}
    store.replace(memory_id, to_messages(values))
    assert read(chat_session) == (None, why)
