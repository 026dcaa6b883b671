"""Databases for tests that start processes of their own: empty ones, and seeded ones.

Tests that stay inside pytest's process use `django_db` instead.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql

from tests import services
from tests.environment import ROOT, process_environment

_numbers = itertools.count(1)
SEED = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("bootstrap", demo=True)
"""


def fresh_name() -> str:
    """A database name that no other run uses at the same time."""
    return f"chat_{os.getpid()}_{next(_numbers)}"


def on_server(server_url: str, name: str) -> str:
    """The URL of the database `name` on the server that `server_url` names."""
    return urlsplit(server_url)._replace(path=f"/{name}").geturl()


def manage(database_url: str, *arguments: str, **settings: str) -> str:
    """Run a manage.py command against the database; its output. It must succeed."""
    environ = process_environment(DATABASE_URL=database_url, **settings)
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, f"manage.py {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def run_with_models(database_url: str, code: str) -> str:
    """Run Python code in a process that has the models alone; its output. It must succeed."""
    settings = {"DJANGO_SETTINGS_MODULE": "tests.models_alone"}
    return manage(database_url, "shell", "--no-imports", "-c", code, **settings)


class Databases:
    """Makes databases on "sqlite", "postgres" or "mariadb", and drops them all in `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._templates: dict[str, str] = {}

    def empty(self, engine: str) -> str:
        """The URL of a new database without tables."""
        name = fresh_name()
        if engine == "sqlite":
            return f"sqlite:///{self._folder / name}.sqlite3"
        if engine == "mariadb":
            return self._on_mariadb(name)
        return self._on_postgres(name, template="template0")

    def seeded(self, engine: str) -> str:
        """The URL of a new database that is migrated and has the demo users."""
        if engine not in self._templates:
            self._templates[engine] = self.empty(engine)
            manage(self._templates[engine], "shell", "--no-imports", "-c", SEED)
        template = self._templates[engine]
        if engine == "postgres":
            return self._on_postgres(fresh_name(), template=urlsplit(template).path[1:])
        copy = self.empty("sqlite")
        with sqlite3.connect(template.removeprefix("sqlite:///")) as connection:
            connection.execute("VACUUM INTO ?", [copy.removeprefix("sqlite:///")])
        connection.close()
        return copy

    def close(self) -> None:
        self._stack.close()

    def _on_postgres(self, name: str, template: str) -> str:
        server = services.postgres_url()
        _postgres(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self._stack.callback(_postgres, server, f'DROP DATABASE "{name}" WITH (FORCE)')
        return on_server(server, name)

    def _on_mariadb(self, name: str) -> str:
        server = services.mariadb_url()
        _mariadb(server, f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        self._stack.callback(_mariadb, server, f"DROP DATABASE `{name}`")
        return on_server(server, name)


def drop_postgres_leftovers(server_url: str, name: str) -> None:
    """Drop a run's own database, and Django's test database beside it, if a run left them."""
    for leftover in (name, f"test_{name}"):
        _postgres(server_url, f'DROP DATABASE IF EXISTS "{leftover}" WITH (FORCE)')


def _postgres(server_url: str, statement: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _mariadb(server_url: str, statement: str) -> None:
    parts = urlsplit(server_url)
    connection = pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=parts.username or "root",
        password=parts.password or "",
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
