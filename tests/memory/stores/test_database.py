"""The database store beside the contract: sessions, ids, failing statements, other engines."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection

from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.models import MemorySnapshot
from memory.stores import DatabaseStore
from memory.window import WindowPolicy
from tests import builders
from tests.databases import Databases
from tests.environment import ROOT, process_environment

U = Message.user
A = Message.assistant


@pytest.fixture
def memory_id(db: None) -> str:
    return str(builders.chat_session().pk)


def test_what_no_database_holds_is_replaced_and_shown(memory_id: str) -> None:
    stored = DatabaseStore().replace(memory_id, [U("a\x00b\ud83d")])
    assert stored.messages == (U("ab\ufffd"),)
    assert DatabaseStore().load(memory_id) == stored


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


@pytest.mark.parametrize("bad", ["session-1", str(uuid.uuid4()).upper(), uuid.uuid4().hex])
def test_an_id_that_names_no_session_is_refused(db: None, bad: Any) -> None:
    for act in (
        DatabaseStore().load,
        DatabaseStore().delete,
        lambda each: DatabaseStore().replace(each, []),
    ):
        with pytest.raises(ValueError, match="memory id"):
            act(bad)


class FailAt:
    """Lets a number of statements through and then none, as a server that goes away."""

    def __init__(self, statements: int) -> None:
        self.left = statements

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise DatabaseError("the server went away")
        return execute(*arguments)


@pytest.mark.django_db(transaction=True)
def test_wherever_the_database_fails_nothing_is_half_written() -> None:
    memory_id = str(builders.chat_session().pk)
    memory = ChatMemory(memory_id, WindowPolicy(20), DatabaseStore())
    memory.add(U("q"), A("a"))
    for statements in range(20):
        failing = FailAt(statements)
        try:
            with connection.execute_wrapper(failing):
                memory.add(U(f"q{statements}"), A(f"a{statements}"))
        except DatabaseError:
            assert memory.messages() == [U("q"), A("a")]
        else:
            assert statements >= 4
            assert len(memory.messages()) == 4
            return
    pytest.fail("it never succeeded")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("call", ["messages", "clear"])
def test_a_database_that_is_down_is_an_error_and_never_an_empty_memory(call: str) -> None:
    memory = ChatMemory(str(builders.chat_session().pk), WindowPolicy(20), DatabaseStore())
    memory.add(U("q"), A("a"))
    with connection.execute_wrapper(FailAt(0)), pytest.raises(DatabaseError, match="went away"):
        getattr(memory, call)()
    assert memory.messages() == [U("q"), A("a")]


@pytest.mark.mariadb
def test_the_contract_holds_on_mariadb(databases: Databases) -> None:
    """The contract's own tests, in a run of their own on that server."""
    contract = "tests/memory/stores/test_contract.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "database", contract],
        cwd=ROOT,
        env=process_environment(DATABASE_URL=databases.empty("mariadb")),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
