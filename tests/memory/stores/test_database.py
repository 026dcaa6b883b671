from __future__ import annotations

import logging
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest
from django.db import connection

from memory.chat_memory import ChatMemory
from memory.messages import Message, ToolCall
from memory.models import MemorySnapshot
from memory.stores import DatabaseStore, RevisionConflict
from memory.window import WindowPolicy
from tests import builders
from tests.databases import Databases, manage
from tests.environment import ROOT, process_environment

U = Message.user
A = Message.assistant


@pytest.fixture
def memory_id(db: None) -> str:
    return str(builders.chat_session().pk)


def test_what_was_never_stored_is_none(memory_id: str) -> None:
    assert DatabaseStore().load(memory_id) is None


def test_messages_come_back_as_they_were(memory_id: str) -> None:
    messages = (
        Message.system("规则"),
        Message.user('Grüße 👋 "quoted" \\ back\nnew\ttab', name="Ana"),
        Message.user("x", parts=[{"type": "image_url", "image_url": {"url": "https://x/"}}]),
        Message.assistant(None, [ToolCall("c1", "f", '{"b":1,"a":2}')]),
        Message.tool("c1", "שלום", "f", is_error=True),
        Message.assistant(""),
        Message.user("的" * 100_000),
    )
    stored = DatabaseStore().replace(memory_id, messages)
    assert (stored.messages, stored.revision) == (messages, 1)
    assert DatabaseStore().load(memory_id) == stored


def test_what_no_database_holds_is_replaced_and_shown(memory_id: str) -> None:
    stored = DatabaseStore().replace(memory_id, [U("a\x00b\ud83d")])
    assert stored.messages == (U("ab\ufffd"),)
    assert DatabaseStore().load(memory_id) == stored


def test_a_replacement_is_whole_and_an_empty_one_counts(memory_id: str) -> None:
    store = DatabaseStore()
    store.replace(memory_id, [U("a"), A("b")])
    assert store.replace(memory_id, []).revision == 2
    assert store.load(memory_id).messages == ()  # type: ignore[union-attr]


def test_an_expected_revision_guards_the_write(memory_id: str) -> None:
    store = DatabaseStore()
    store.replace(memory_id, [U("a")], expected_revision=0)
    for stale in (0, 2):
        with pytest.raises(RevisionConflict, match=f"has revision 1, expected {stale}"):
            store.replace(memory_id, [U("b")], expected_revision=stale)
    store.replace(memory_id, [U("c")], expected_revision=1)
    assert store.load(memory_id).messages == (U("c"),)  # type: ignore[union-attr]


def test_ids_do_not_mix_and_deleting_is_repeatable(memory_id: str) -> None:
    store, other = DatabaseStore(), str(builders.chat_session().pk)
    store.replace(memory_id, [U("mine")])
    store.replace(other, [U("other")])
    store.delete(memory_id)
    store.delete(memory_id)
    assert store.load(memory_id) is None
    assert store.load(other).messages == (U("other"),)  # type: ignore[union-attr]


def test_a_window_needs_a_session_and_leaves_with_it(memory_id: str) -> None:
    store, unknown = DatabaseStore(), str(uuid.uuid4())
    with pytest.raises(LookupError, match=f"no chat session '{unknown}'"):
        store.replace(unknown, [U("x")])
    assert store.load(unknown) is None
    store.replace(memory_id, [U("x")])
    row = MemorySnapshot.objects.select_related("chat_session").get()
    row.chat_session.delete()
    assert store.load(memory_id) is None
    with pytest.raises(LookupError):
        store.replace(memory_id, [U("late")])


@pytest.mark.parametrize(
    "bad", [None, 7, "", "session-1", str(uuid.uuid4()).upper(), uuid.uuid4().hex]
)
def test_an_id_that_names_no_session_is_refused(db: None, bad: Any) -> None:
    for act in (
        DatabaseStore().load,
        DatabaseStore().delete,
        lambda each: DatabaseStore().replace(each, []),
    ):
        with pytest.raises((TypeError, ValueError), match="memory id"):
            act(bad)


def test_a_message_that_cannot_be_read_becomes_its_plain_text(
    memory_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    DatabaseStore().replace(memory_id, [U("first"), A("second")])
    MemorySnapshot.objects.update(
        messages=[
            {"role": "user", "content": "first"},
            {"role": "sorcerer", "content": "second"},
            {"role": "assistant", "content": "third", "tool_calls": ["broken"]},
            {"role": "assistant", "content": None},
            "fifth",
            None,
        ]
    )
    with caplog.at_level(logging.WARNING, "memory"):
        found = DatabaseStore().load(memory_id)
    assert found is not None
    assert found.messages == (U("first"), U("second"), A("third"), A(""), U("fifth"), U(""))
    assert caplog.text.count("cannot be read") == 5
    assert "second" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_adds_of_two_writers_are_both_kept() -> None:
    memory_id = str(builders.chat_session().pk)
    policy = WindowPolicy(1_000, align_to_turns=False)
    barrier = threading.Barrier(3)
    errors: list[Exception] = []

    def write(name: str) -> None:
        memory = ChatMemory(memory_id, policy, DatabaseStore())
        try:
            barrier.wait()
            for n in range(5):
                memory.add(U(f"{name}-{n}"))
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    found = [
        each.content or "" for each in ChatMemory(memory_id, policy, DatabaseStore()).messages()
    ]
    assert sorted(found) == sorted(f"{name}-{n}" for name in "abc" for n in range(5))


STEP = """
import sys, django
django.setup()
from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.stores import DatabaseStore
from memory.window import WindowPolicy

memory = ChatMemory(sys.argv[2], WindowPolicy(20), DatabaseStore())
if sys.argv[1] == "write":
    memory.add(Message.user("项目代号是青云-4173"), Message.assistant("已记住"))
elif sys.argv[1] == "clear":
    memory.clear()
found = memory.messages()
print(len(found))
for each in found:
    print(each.content)
"""

SESSION = """
import django
django.setup()
from django.contrib.auth import get_user_model
from chat.models import Assistant, ChatSession, ModelEndpoint, Tenant

endpoint = ModelEndpoint.objects.create(name="e", model="demo")
made = ChatSession.objects.create(
    tenant=Tenant.objects.get_or_create(slug="default", defaults={"name": "Default"})[0],
    user=get_user_model().objects.create_user("alice"),
    assistant=Assistant.objects.create(slug="a", name="A", endpoint=endpoint),
)
print(made.pk)
"""


def run(database_url: str, code: str, *arguments: str) -> list[str]:
    environ = process_environment(
        DATABASE_URL=database_url,
        DJANGO_SETTINGS_MODULE="chatproject.settings",
        PYTHONIOENCODING="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_write_restart_and_read_clear_and_read(databases: Databases, engine: str) -> None:
    """Four processes one after the other: 2, 2, 0, 0."""
    database_url = databases.empty(engine)
    manage(database_url, "migrate", "--verbosity", "0")
    (session_id,) = run(database_url, SESSION)
    steps = [
        run(database_url, STEP, step, session_id) for step in ("write", "read", "clear", "read")
    ]
    assert [lines[0] for lines in steps] == ["2", "2", "0", "0"]
    assert steps[1][1:] == ["项目代号是青云-4173", "已记住"]
