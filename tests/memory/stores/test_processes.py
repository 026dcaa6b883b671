"""Several processes on one memory id, and stores that go away while somebody writes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
import redis
from django.core.cache.backends.redis import RedisCache

from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.stores import CacheStore
from tests import embedded
from tests.databases import Databases, run_with_models
from tests.environment import ROOT, process_environment
from tests.memory.stores.writer import ROOMY

SESSIONS = """
from django.contrib.auth import get_user_model
from django.core.management import call_command
from chat.models import Assistant, ChatSession, ModelEndpoint, Tenant

call_command("migrate", verbosity=0)
endpoint = ModelEndpoint.objects.create(name="e", model="demo")
holder = {
    "tenant": Tenant.objects.get_or_create(slug="default", defaults={"name": "Default"})[0],
    "user": get_user_model().objects.create_user("alice"),
    "assistant": Assistant.objects.create(slug="a", name="A", endpoint=endpoint),
}
for _ in range(9):
    print(ChatSession.objects.create(**holder).pk)
"""
READ = """
import sys
from memory.stores import DatabaseStore

for each in DatabaseStore().load("{memory_id}").messages:
    print(each.content)
"""
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

ENGINES = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]


class Writers:
    """Processes that add to one memory."""

    def __init__(self, kind: str, memory_id: str, names: str, count: int, **settings: str) -> None:
        environ = process_environment(DJANGO_SETTINGS_MODULE="tests.models_alone", **settings)
        command = [sys.executable, "-m", "tests.memory.stores.writer", kind, memory_id]
        self.processes = [
            subprocess.Popen(
                [*command, name, str(count)],
                cwd=ROOT,
                env=environ,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for name in names
        ]

    def start(self) -> None:
        for process in self.processes:
            assert said_by(process) == "ready"
        for process in self.processes:
            tell(process, "go")

    def results(self) -> list[tuple[int, str]]:
        """Of each writer: how many adds were acknowledged, and the error that ended it."""
        found = []
        for process in self.processes:
            acknowledged, _, problem = said_by(process).partition(" ")
            found.append((int(acknowledged), problem))
        return found

    def stored(self) -> list[str]:
        """What one of the writers reads in the end."""
        tell(self.processes[0], "read")
        found: list[str] = json.loads(said_by(self.processes[0]))
        return found


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@contextmanager
def writers(
    kind: str, memory_id: str, names: str, count: int, **settings: str
) -> Iterator[Writers]:
    started = Writers(kind, memory_id, names, count, **settings)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.communicate()


def assert_all_there(found: list[str], names: str, count: int) -> None:
    """Every exchange of every writer, whole, and those of one writer in their order."""
    assert_all_there_so_far(found, names)
    assert len(found) == 2 * len(names) * count


@pytest.fixture
def prefix(redis_url: str) -> Iterator[str]:
    """The prefix of a test's own keys on the Redis server, which are removed at the end."""
    name = f"memory-{uuid.uuid4()}"
    yield name
    client = RedisCache(redis_url, {})._cache.get_client(None, write=True)
    for key in client.scan_iter(match=f"*{name}*"):
        client.delete(key)
    client.close()


class Migrated:
    """A database for this module's tests on each engine, with sessions that nobody has used."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._found: dict[str, tuple[str, list[str]]] = {}

    def __call__(self, engine: str) -> tuple[str, str]:
        """The URL of the database, and the id of an unused session there."""
        if engine not in self._found:
            url = self._databases.empty(engine)
            ids = run_with_models(url, SESSIONS).split()
            self._found[engine] = (url, ids)
        url, ids = self._found[engine]
        return url, ids.pop()


@pytest.fixture(scope="module")
def migrated(databases: Databases) -> Migrated:
    return Migrated(databases)


def stored_in(database_url: str, memory_id: str) -> list[str]:
    return run_with_models(database_url, READ.format(memory_id=memory_id)).split()


# --- Four processes at once


def four_on_a_database(database_url: str, memory_id: str, count: int) -> None:
    with writers("database", memory_id, "abcd", count, DATABASE_URL=database_url) as running:
        running.start()
        assert running.results() == [(count, "")] * 4
        assert_all_there(running.stored(), "abcd", count)


def four_on_redis(redis_url: str, prefix: str, count: int) -> None:
    settings = {"REDIS_URL": redis_url, "PREFIX": prefix}
    with writers("redis", "m", "abcd", count, **settings) as running:
        running.start()
        assert running.results() == [(count, "")] * 4
        assert_all_there(running.stored(), "abcd", count)


def stored_on_redis(redis_url: str, prefix: str) -> list[str]:
    store = CacheStore(RedisCache(redis_url, {}), prefix=prefix)
    return [each.content or "" for each in ChatMemory("m", ROOMY, store).messages()]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_four_processes_add_to_a_database_is_all_there(
    migrated: Migrated, engine: str
) -> None:
    four_on_a_database(*migrated(engine), 10)


@pytest.mark.redis
def test_what_four_processes_add_to_redis_is_all_there(redis_url: str, prefix: str) -> None:
    four_on_redis(redis_url, prefix, 25)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_four_times_200_adds_to_a_database_are_all_there(migrated: Migrated, engine: str) -> None:
    four_on_a_database(*migrated(engine), 200)


@pytest.mark.slow
@pytest.mark.redis
def test_four_times_200_adds_to_redis_are_all_there(redis_url: str, prefix: str) -> None:
    four_on_redis(redis_url, prefix, 200)


# --- A store that goes away, and a writer that does


@pytest.mark.redis
def test_a_redis_that_stops_is_an_error_and_never_an_empty_memory(tmp_path: Path) -> None:
    with ExitStack() as server:
        url = server.enter_context(embedded.redis(tmp_path))
        memory = ChatMemory("m", ROOMY, CacheStore(RedisCache(url, {})))
        settings = {"REDIS_URL": url, "PREFIX": "chat:memory"}
        with writers("redis", "m", "ab", 100_000, **settings) as running:
            running.start()
            wait_until(lambda: len(memory.messages()) > 40)
            server.close()
            for acknowledged, problem in running.results():
                assert acknowledged > 0
                assert problem.startswith("redis.exceptions.ConnectionError: ")
    for act in (memory.messages, memory.clear, lambda: memory.add(Message.user("x"))):
        with pytest.raises(redis.ConnectionError):
            act()


@pytest.mark.redis
def test_connections_that_break_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """The client repeats what it got no answer to; an add that was done is not done again."""
    with ExitStack() as stack:
        url = stack.enter_context(embedded.redis(tmp_path))  # a server without other clients
        settings = {"REDIS_URL": url, "PREFIX": "m"}
        running = stack.enter_context(writers("redis", "m", "ab", 150, **settings))
        server = stack.enter_context(redis.Redis.from_url(url))
        running.start()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            server.client_kill_filter(_type="normal", skipme=True)
            time.sleep(0.02)
        results = running.results()
        found = stored_on_redis(url, "m")
    assert found[1::2] == [f"{text}!" for text in found[::2]]
    for name, (acknowledged, problem) in zip("ab", results, strict=True):
        mine = [text for text in found[::2] if text.startswith(name)]
        assert mine == [f"{name}-{n}" for n in range(len(mine))]
        assert len(mine) in (acknowledged, acknowledged + bool(problem))


@pytest.mark.redis
def test_a_writer_that_is_killed_leaves_whole_exchanges_on_redis(
    redis_url: str, prefix: str
) -> None:
    settings = {"REDIS_URL": redis_url, "PREFIX": prefix}
    with writers("redis", "m", "ab", 100_000, **settings) as running:
        running.start()
        wait_until(lambda: len(stored_on_redis(redis_url, prefix)) > 40)
        for process in running.processes:
            process.kill()
    found = stored_on_redis(redis_url, prefix)
    assert_all_there_so_far(found, "ab")
    memory = ChatMemory("m", ROOMY, CacheStore(RedisCache(redis_url, {}), prefix=prefix))
    memory.add(Message.user("q"), Message.assistant("a"))
    assert [each.content for each in memory.messages()] == [*found, "q", "a"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_writer_that_is_killed_leaves_whole_exchanges_in_a_database(
    migrated: Migrated, engine: str
) -> None:
    url, memory_id = migrated(engine)
    with writers("database", memory_id, "ab", 100_000, DATABASE_URL=url) as running:
        running.start()
        time.sleep(2)
        for process in running.processes:
            process.kill()
    found = stored_in(url, memory_id)
    assert found
    assert_all_there_so_far(found, "ab")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_a_database_that_drops_its_connections_is_an_error_and_nothing_is_half_written(
    migrated: Migrated, engine: str
) -> None:
    url, memory_id = migrated(engine)
    with writers("database", memory_id, "ab", 100_000, DATABASE_URL=url) as running:
        running.start()
        time.sleep(1)
        drop_connections(url)
        results = running.results()
    found = stored_in(url, memory_id)
    assert_all_there_so_far(found, "ab")
    for name, (acknowledged, problem) in zip("ab", results, strict=True):
        assert problem.startswith(("django.db.utils.OperationalError", "django.db.utils.Interface"))
        mine = [text for text in found[::2] if text.startswith(name)]
        assert acknowledged > 0
        assert len(mine) in (acknowledged, acknowledged + 1)


def drop_connections(url: str) -> None:
    """What the writers see when the server is restarted."""
    parts = urlsplit(url)
    name = parts.path[1:]
    if parts.scheme == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        return
    server = pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=parts.username or "root",
        password=parts.password or "",
    )
    with server, server.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [name])
        for (thread,) in cursor.fetchall():
            cursor.execute("KILL %s", [thread])


def assert_all_there_so_far(found: list[str], names: str) -> None:
    """Whole exchanges of every writer, in its order, up to where it was cut off."""
    assert found[1::2] == [f"{text}!" for text in found[::2]]
    for name in names:
        mine = [text for text in found[::2] if text.startswith(f"{name}-")]
        assert mine == [f"{name}-{n}" for n in range(len(mine))]


def wait_until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- A restart


@pytest.mark.parametrize("engine", ENGINES)
def test_write_restart_and_read_clear_and_read(migrated: Migrated, engine: str) -> None:
    """Four processes one after the other: 2, 2, 0, 0."""
    url, session_id = migrated(engine)
    steps = [run(url, STEP, step, session_id) for step in ("write", "read", "clear", "read")]
    assert [lines[0] for lines in steps] == ["2", "2", "0", "0"]
    assert steps[1][1:] == ["项目代号是青云-4173", "已记住"]


def run(database_url: str, code: str, *arguments: str) -> list[str]:
    environ = process_environment(
        DATABASE_URL=database_url,
        DJANGO_SETTINGS_MODULE="tests.models_alone",
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
