"""Every engine goes from nothing to today's tables and back to nothing."""

from __future__ import annotations

import json

import pytest

from tests.databases import Databases, manage

ENGINES = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]

THERE_AND_BACK = """
import json
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

def ours(names):
    return sorted(name for name in names if name.startswith(("chat_", "memory_")))

def state():
    applied = {app for app, _ in MigrationRecorder(connection).applied_migrations()}
    return [ours(connection.introspection.table_names()), sorted(applied & {"chat", "memory"})]

call_command("check", databases=["default"], fail_level="WARNING", verbosity=0)
call_command("migrate", verbosity=0)
there = state()
for app in ("memory", "chat"):
    call_command("migrate", app, "zero", verbosity=0)
back = state()
call_command("migrate", verbosity=0)
print("STATES", json.dumps([there, back, state()]))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_migrations_go_from_zero_and_back_to_zero(engine: str, databases: Databases) -> None:
    output = manage(databases.empty(engine), "shell", "--no-imports", "--command", THERE_AND_BACK)
    there, back, again = json.loads(output.split("STATES", 1)[1])
    assert {"chat_chatsession", "chat_chatmessage", "memory_memorysnapshot"} <= set(there[0])
    assert there[1] == ["chat", "memory"]
    assert back == [[], []]
    assert again == there
