"""Every engine goes from nothing to today's tables and back to nothing."""

from __future__ import annotations

import pytest

from tests.databases import Databases, manage

ENGINES = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_migrations_go_from_zero_and_back_to_zero(engine: str, databases: Databases) -> None:
    url = databases.empty(engine)
    manage(url, "check", "--database", "default", "--fail-level", "WARNING")
    manage(url, "migrate")
    assert "[ ]" not in manage(url, "showmigrations")
    for app in ("memory", "chat"):
        manage(url, "migrate", app, "zero")
    assert "[X]" not in manage(url, "showmigrations", "memory", "chat")
    assert tables(url) == []
    manage(url, "migrate")


def tables(url: str) -> list[str]:
    """The tables of our own apps that the database holds."""
    code = (
        "from django.db import connection as c;"
        "names = c.introspection.table_names();"
        "print('TABLES', *sorted(n for n in names if n.startswith(('chat_', 'memory_'))))"
    )
    output = manage(url, "shell", "--no-imports", "--command", code)
    return output.split("TABLES", 1)[1].split()
