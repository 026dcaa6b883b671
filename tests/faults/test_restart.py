"""One process on the embedded defaults that is killed, restarted, or asked to forget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest

from tests.clients import Person
from tests.databases import Databases
from tests.servers import Server

LONG = "demo: long 400; slow 10"
SQLITE_AND_POSTGRES = pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)


@SQLITE_AND_POSTGRES
async def test_after_kill_and_restart_the_input_is_there_once_and_the_partial_text_is_marked(
    engine: str, start_server: Callable[..., Server], databases: Databases
) -> None:
    database_url = databases.seeded(engine)
    first = start_server(database_url=database_url)
    alice = Person(first.url, "alice")
    session = alice.new_session()
    socket = await alice.socket(session)
    await socket.send(LONG)
    await socket.until("turn.delta")
    await asyncio.sleep(1.5)  # a partial text is stored about once a second
    while not (stored := alice.messages(session)[-1])["is_partial"]:
        await asyncio.sleep(0.1)
    first.kill()

    second = start_server(database_url=database_url)
    alice = alice.at(second.url)
    socket = await alice.socket(session)  # the same page, reconnecting
    assert socket.frames[0]["running"] is not None
    end = await socket.end(5)  # long before the lease would expire
    assert (end["type"], end["error"]["code"]) == ("turn.interrupted", "interrupted")
    question, partial = alice.messages(session)
    assert question["content"] == LONG
    assert partial["is_partial"] is True
    assert partial["content"].startswith(stored["content"])
    assert partial["turn"]["status"] == "interrupted"
    answer = await socket.ask("demo: context")
    assert answer
    _, context = alice.call("GET", f"sessions/{session}/turns/{socket.frames[-1]['turn']}/context/")
    assert [part["kind"] for part in context["parts"]] == ["prompt", "history", "history", "input"]
    assert context["proof"] == "ok"
    assert len(alice.messages(session)) == 4
    await socket.close()


async def test_a_message_can_be_sent_at_once_after_a_restart(
    start_server: Callable[..., Server], databases: Databases
) -> None:
    database_url = databases.seeded("sqlite")
    first = start_server(database_url=database_url)
    alice = Person(first.url, "alice")
    session = alice.new_session()
    socket = await alice.socket(session)
    await socket.send("demo: wait 60")
    await socket.until("turn.accepted")
    first.kill()
    second = start_server(database_url=database_url)
    status, turn = alice.at(second.url).call(
        "POST",
        f"sessions/{session}/turns/",
        {"text": "Hello again", "client_id": str(uuid.uuid4())},
    )
    assert status in (200, 201), turn
    assert turn["status"] == "completed"
    statuses = [each["turn"]["status"] for each in alice.at(second.url).messages(session)]
    assert statuses == ["interrupted", "completed", "completed"]


async def test_clearing_memory_in_the_middle_of_a_stream_leaves_nothing_to_come_back(
    start_server: Callable[..., Server], databases: Databases
) -> None:
    running = start_server(database_url=databases.seeded("sqlite"))
    alice = Person(running.url, "alice")
    session = alice.new_session()
    socket = await alice.socket(session)
    await socket.ask("Please remember the verification phrase “Qingyun-4173”")
    await socket.send(LONG)
    await socket.until("turn.delta")
    status, cleared = await asyncio.to_thread(
        alice.call, "POST", f"sessions/{session}/clear-memory/", {}
    )
    assert status == 200, cleared
    await socket.until("memory.cleared")
    messages = alice.messages(session)
    assert cleared["memory_starts_after"] == messages[-1]["seq"] == 4
    assert messages[-1]["turn"]["status"] == "stopped"
    answer = await socket.ask("What verification phrase did I ask you to remember?")
    assert "4173" not in answer
    _, context = alice.call("GET", f"sessions/{session}/turns/{socket.frames[-1]['turn']}/context/")
    assert [part["kind"] for part in context["parts"]] == ["prompt", "input"]
    assert context["manifest"]["left_out"] == [
        {"from": 1, "through": 4, "reason": "before_forget_line"}
    ]
    await socket.close()
