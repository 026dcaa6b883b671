"""Two server processes on PostgreSQL and Redis: one conversation, whoever serves it."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients import Person
from tests.databases import Databases
from tests.servers import Server, server

pytestmark = [pytest.mark.postgres, pytest.mark.redis]
LONG = "demo: long 400; slow 8"


@dataclass
class Pair:
    one: Server
    two: Server
    alice: Person  # at the first server

    @property
    def alice_at_two(self) -> Person:
        return self.alice.at(self.two.url)


@contextmanager
def two_servers(folder: Path, database_url: str, redis_url: str) -> Iterator[Pair]:
    """Two processes on one database, started side by side."""
    with ExitStack() as stack, ThreadPoolExecutor() as starting:

        def start(_: int) -> Server:
            started = server(
                folder,
                database_url=database_url,
                redis_url=redis_url,
                CHAT_LEASE_SECONDS="6",
                CHAT_TURNS_PER_MINUTE="1000",
            )
            return stack.enter_context(started)

        one, two = starting.map(start, range(2))
        yield Pair(one, two, Person(one.url, "alice"))


@pytest.fixture
def own_pair(tmp_path: Path, databases: Databases, redis_url: str) -> Iterator[Pair]:
    """Two servers of a test's own, to end or to stop."""
    with two_servers(tmp_path, databases.seeded("postgres"), redis_url) as started:
        yield started


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, redis_url: str
) -> Iterator[Pair]:
    """Two servers for all tests that let them live."""
    folder = tmp_path_factory.mktemp("pair")
    with two_servers(folder, databases.seeded("postgres"), redis_url) as started:
        yield started


async def test_a_turn_runs_in_one_process_and_is_watched_stopped_and_resumed_from_the_other(
    pair: Pair,
) -> None:
    session = pair.alice.new_session()
    here, there = await pair.alice.socket(session), await pair.alice_at_two.socket(session)
    await here.send(LONG)
    accepted = await there.until("turn.accepted")
    while len(there.text) < 200:
        await there.next()
    await there.say("turn.stop", turn=accepted["turn"], seen=150)
    ends = await asyncio.gather(here.end(), there.end())
    assert [end["type"] for end in ends] == ["turn.stopped", "turn.stopped"]
    assert ends[0]["message"]["content"] == ends[1]["message"]["content"] == here.text[:150]
    assert (here.gaps, there.gaps) == (0, 0)
    await there.say("turn.retry", turn=accepted["turn"], client_id=str(uuid.uuid4()))
    resumed = await asyncio.gather(here.end(), there.end())
    assert {end["type"] for end in resumed} == {"turn.completed"}
    assert here.text == there.text == resumed[0]["message"]["content"]
    await asyncio.gather(here.close(), there.close())


async def test_twenty_five_joins_in_the_middle_of_a_stream_have_no_gap_and_all_catch_up(
    pair: Pair,
) -> None:
    session = pair.alice.new_session()
    here = await pair.alice.socket(session)
    await here.send("demo: long 900; slow 4")
    await here.until("turn.delta")
    joined = []
    for _ in range(25):
        joined.append(await pair.alice_at_two.socket(session))
        await asyncio.sleep(0.05)
    ends = await asyncio.gather(here.end(60), *(each.end(60) for each in joined))
    content = ends[0]["message"]["content"]
    assert {end["message"]["content"] for end in ends} == {content}
    assert [each.gaps for each in joined] == [0] * 25
    assert {each.text for each in joined} == {content}
    middle = [each for each in joined if any(f["type"] == "turn.delta" for f in each.frames)]
    assert len(middle) > 20  # they really came in the middle
    await asyncio.gather(here.close(), *(each.close() for each in joined))


async def test_the_other_process_ends_the_turn_of_one_that_was_killed(own_pair: Pair) -> None:
    session = own_pair.alice.new_session()
    here, there = await own_pair.alice.socket(session), await own_pair.alice_at_two.socket(session)
    await here.send(LONG)
    while len(there.text) < 300:
        await there.next()
    await asyncio.sleep(1.2)  # a partial text is stored about once a second
    own_pair.one.kill()
    end = await there.end(20)
    assert end["type"] == "turn.interrupted"
    assert end["error"]["code"] == "interrupted"
    partial = end["message"]["content"]
    assert partial
    assert end["message"]["is_partial"] is True
    assert there.text.startswith(partial)
    answer = await there.ask("Hello")
    assert answer
    messages = own_pair.alice_at_two.messages(session)
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[1]["content"] == partial
    await there.close()


async def test_one_client_id_at_two_processes_is_one_turn(pair: Pair) -> None:
    session = pair.alice.new_session()
    here, there = await pair.alice.socket(session), await pair.alice_at_two.socket(session)
    client_id = str(uuid.uuid4())
    await asyncio.gather(
        *(each.send("Hello", client_id=client_id) for each in (here, there, here, there, here))
    )
    ends = await asyncio.gather(here.end(), there.end())
    again = await pair.alice_at_two.socket(session)
    await again.send("Hello", client_id=client_id)
    repeated = await again.end()
    assert {end["turn"] for end in (*ends, repeated)} == {ends[0]["turn"]}
    assert len(pair.alice.messages(session)) == 2
    await asyncio.gather(here.close(), there.close(), again.close())


async def test_deleting_in_one_process_ends_the_turn_in_the_other_and_nothing_comes_back(
    pair: Pair,
) -> None:
    session = pair.alice.new_session()
    here = await pair.alice.socket(session)
    await here.send(LONG)
    await here.until("turn.delta")
    status, _ = pair.alice_at_two.call("DELETE", f"sessions/{session}/")
    assert status == 200
    await here.until("session.deleted")
    await asyncio.sleep(2.5)  # longer than two flushes
    for person in (pair.alice, pair.alice_at_two):
        assert person.call("GET", f"sessions/{session}/")[0] == 404
        assert person.call("GET", f"sessions/{session}/messages/")[0] == 404
    await here.close()


async def test_a_process_that_is_asked_to_end_lets_its_turn_finish(own_pair: Pair) -> None:
    session = own_pair.alice.new_session()
    here, there = await own_pair.alice.socket(session), await own_pair.alice_at_two.socket(session)
    await here.send("demo: long 200; slow 10")
    await there.until("turn.delta")
    exit_code, end = await asyncio.gather(asyncio.to_thread(own_pair.one.terminate), there.end())
    assert exit_code in (0, -signal.SIGTERM)  # uvicorn raises the signal again once it has drained
    assert end["type"] == "turn.completed"
    assert there.text == end["message"]["content"]
    assert there.gaps == 0
    await there.close()


async def test_a_watcher_elsewhere_never_ends_a_turn_that_is_only_silent(pair: Pair) -> None:
    session = pair.alice.new_session()
    here = await pair.alice.socket(session)
    await here.send("demo: wait 8")  # longer than a watcher waits before it looks at the lease
    await here.until("turn.accepted")
    there = await pair.alice_at_two.socket(session)
    ends = await asyncio.gather(here.end(), there.end())
    assert [end["type"] for end in ends] == ["turn.completed", "turn.completed"]
    assert here.text == there.text == ends[0]["message"]["content"]
    await asyncio.gather(here.close(), there.close())


async def test_a_process_that_hangs_loses_its_turn_and_writes_nothing_when_it_wakes(
    own_pair: Pair,
) -> None:
    session = own_pair.alice.new_session()
    here, there = await own_pair.alice.socket(session), await own_pair.alice_at_two.socket(session)
    await here.send("demo: long 2000; slow 8")
    while len(there.text) < 300:
        await there.next()
    await asyncio.sleep(1.5)  # a partial text is stored about once a second
    own_pair.one.hang()
    end = await there.end(40)  # when the lease has expired
    assert end["type"] == "turn.interrupted"
    own_pair.one.wake()
    answer = await there.ask("Hello")
    await asyncio.sleep(2)
    messages = own_pair.alice_at_two.messages(session)
    assert [each["turn"]["status"] for each in messages[1::2]] == ["interrupted", "completed"]
    assert messages[-1]["content"] == answer
    assert len(messages) == 4
    await asyncio.gather(here.close(), there.close())
