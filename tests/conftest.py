"""Fixtures for every test: the test database, and databases and servers of a test's own."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.management.commands import flush
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.backends.postgresql.operations import DatabaseOperations as PostgresOperations
from django.db.backends.sqlite3.base import DatabaseWrapper as SqliteDatabase
from openai import DefaultAioHttpClient
from pytest_django import DjangoDbBlocker

from chat.llm import clients
from tests import services
from tests.databases import Databases
from tests.servers import Server, server

pytest_plugins = ["tests.skips", "tests.fakes"]

# Every test has an event loop and a model client of its own; reading the certificates, which no
# test uses, would take most of its time.
clients.DefaultAioHttpClient = functools.partial(  # type: ignore[assignment, attr-defined]
    DefaultAioHttpClient, verify=ssl.create_default_context()
)


# --- The test database ----------------------------------------------------------------------------


# The same for every test: made anew after each, they would take most of the time of emptying.
KEPT = {"auth_permission", "django_content_type"}


def _delete_rows(
    operations: BaseDatabaseOperations, style: object, tables: Sequence[str], **options: bool
) -> list[str]:
    """What empties the tables between two tests: much faster than TRUNCATE where rows are few.

    Foreign keys are checked at the end of the transaction, so any order will do.
    """
    return [f"DELETE FROM {operations.quote_name(each)};" for each in tables if each not in KEPT]


def _delete_rows_at_once(
    operations: BaseDatabaseOperations, style: object, tables: Sequence[str], **options: bool
) -> list[str]:
    """The same in one statement: fifty ways to the server and back take longer than the work."""
    return [" ".join(_delete_rows(operations, style, tables, **options))]


def _keep_what_migrations_made(*args: object, **options: object) -> None:
    """Instead of the signal by which content types and permissions are made after a flush."""


flush.emit_post_migrate_signal = _keep_what_migrations_made  # type: ignore[attr-defined]
PostgresOperations.sql_flush = _delete_rows_at_once  # type: ignore[method-assign, assignment]
SqliteDatabase.ops_class.sql_flush = _delete_rows  # type: ignore[method-assign, assignment]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Django's test database; before it is dropped, every other thread's connection is closed."""
    yield
    from chat import hops

    hops.shutdown()
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock():
            _close_other_connections()


def _close_other_connections() -> None:
    """Threads of asgiref and of test clients keep theirs, and would keep the database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    connection.close()


@pytest.fixture(autouse=True)
def _empty_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rate limits and cached state of one test are not the next one's."""
    yield
    if request.node.get_closest_marker("pure"):
        return
    if settings.REDIS_URL:
        _delete_keys_of_this_run()
    else:
        cache.clear()


def _delete_keys_of_this_run() -> None:
    import redis

    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter(match=f"*{settings.TEST_KEY_PREFIX}*"):
            client.delete(key)


# --- Services, databases and processes of a test's own --------------------------------------------


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A PostgreSQL server."""
    return services.postgres_url()


@pytest.fixture(scope="session")
def redis_url() -> str:
    """A Redis database."""
    return services.redis_url()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Makes empty and seeded databases for processes that a test starts."""
    made = Databases(tmp_path_factory.mktemp("databases"))
    yield made
    made.close()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts real server processes (`tests.servers.server`); those still alive are killed."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(server(tmp_path, **options))
