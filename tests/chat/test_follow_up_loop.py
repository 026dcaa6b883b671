"""The loop and the command that do what is due: bounded, rung, stopped, and never lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.core.management import call_command
from django.db import DatabaseError

from chat import dues, follow_ups, llm, running
from chat.dues import Claim
from chat.follow_ups import Loop, work
from chat.hops import Overloaded
from chat.models import ChatSession, PendingRemoval
from tests import builders
from tests.fakes import FakeEndpoint, Reply, Wait, answer
from tests.follow_ups import due_rows, follow, waiting, work_off
from tests.orders import say, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await follow_ups.stop()
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    made = session_at(fake_endpoint, title="Hello")
    builders.exchange(made)
    return made


def mark(*subjects: str, kind: str = "title") -> None:
    for subject in subjects:
        dues.mark(kind, subject)


async def until_title(chat_session: ChatSession, title: str, seconds: float = 5.0) -> None:
    named = ChatSession.objects.filter(pk=chat_session.pk, title=title)
    async with asyncio.timeout(seconds):
        while not await named.aexists():
            await asyncio.sleep(0.02)


def made_by(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setitem(work.MAKERS, "title", make)


# --- The loop -------------------------------------------------------------------------------------


async def test_the_end_of_a_turn_rings_the_loop_of_its_process(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.follow_ups.loop.POLL_SECONDS", 60.0)
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    follow_ups.start()
    await asyncio.sleep(0.2)  # it has looked, and waits
    fake_endpoint.replies(answer("In the mountains."))
    fake_endpoint.default = lambda body: answer("Holidays")
    await say(chat_session, "Where do we spend our holidays?")
    await until_title(chat_session, "Holidays")


async def test_exports_are_not_looked_at_whenever_the_bell_rings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[int]()
    monkeypatch.setattr(
        "chat.transfer.export_jobs.run_due_exports", lambda stopped: looks.append(len(looks))
    )
    follow_ups.start()
    for _ in range(5):
        await asyncio.sleep(0.05)
        follow_ups.ring()
    assert looks == [0]


async def test_what_others_made_due_is_found_without_a_bell(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.follow_ups.loop.POLL_SECONDS", 0.1)
    follow_ups.start()
    await asyncio.sleep(0.05)
    fake_endpoint.replies(answer("Found"))
    await sync_to_async(dues.mark_session)("title", chat_session.pk)
    await until_title(chat_session, "Found")


async def test_a_process_that_leaves_it_to_workers_does_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_FOLLOW_UPS_IN_WEB = False
    await sync_to_async(dues.mark_session)("title", chat_session.pk)
    follow_ups.start()
    follow_ups.ring()
    await asyncio.sleep(0.2)
    assert fake_endpoint.requests == []


async def test_no_more_are_done_at_once_than_the_setting_says(
    monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    settings.CHAT_FOLLOW_UP_TASKS = 3
    at_once = most = 0

    async def make(claim: Claim) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1

    made_by(monkeypatch, make)
    await sync_to_async(mark)(*(str(number) for number in range(10)))
    assert await work_off() == {"done": 10, "failed": 0, "given back": 0}
    assert most == 3
    assert await sync_to_async(due_rows)() == []


async def test_a_database_that_is_away_does_not_end_the_loop(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, failures = work.claim, [DatabaseError("away"), Overloaded("busy")]

    async def flaky(limit: int) -> list[Claim]:
        if failures:
            raise failures.pop()
        return await claim(limit)

    monkeypatch.setattr("chat.follow_ups.loop.work.claim", flaky)
    monkeypatch.setattr("chat.follow_ups.loop.POLL_SECONDS", 0.05)
    fake_endpoint.replies(answer("At last"))
    await sync_to_async(dues.mark_session)("title", chat_session.pk)
    follow_ups.start()
    await until_title(chat_session, "At last")


async def test_stopping_gives_back_what_is_being_done_and_counts_no_failure(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Wait(gate), *answer("Late").steps]))
    await sync_to_async(dues.mark_session)("title", chat_session.pk)
    follow_ups.start()
    async with asyncio.timeout(5):
        while not fake_endpoint.requests:
            await asyncio.sleep(0.01)
    await running.registry.follow_ups.stop()
    gate.set()
    row = await waiting().aget()
    assert (row.claimed_by, row.attempts, row.last_error) == ("", 0, "")
    assert (await ChatSession.objects.aget()).title == "Hello"
    fake_endpoint.replies(answer("Somebody else's"))
    assert (await work_off())["done"] == 1


# --- One follow-up --------------------------------------------------------------------------------


async def test_what_takes_too_long_fails_with_its_time(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_FOLLOW_UP_SECONDS = 1
    gate = threading.Event()
    fake_endpoint.replies(Reply([Wait(gate), *answer("Late").steps]))
    await follow(chat_session, "title")
    gate.set()
    [(_, attempts, error)] = await sync_to_async(due_rows)()
    assert attempts == 1
    assert error.startswith("timeout: ")


async def test_a_fault_of_our_own_is_named_in_the_row_and_told_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def make(claim: Claim) -> None:
        raise KeyError("the text of a person")

    made_by(monkeypatch, make)
    await sync_to_async(mark)("x")
    assert await work_off() == {"done": 0, "failed": 1, "given back": 0}
    [(_, attempts, error)] = await sync_to_async(due_rows)()
    assert (attempts, error) == (1, "internal_error: KeyError; the server's log says more.")
    assert "Traceback" in caplog.text


async def test_a_process_with_too_much_to_do_leaves_it_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0

    async def make(claim: Claim) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Overloaded("busy")

    made_by(monkeypatch, make)
    await sync_to_async(mark)("x")
    assert await work_off() == {"done": 1, "failed": 0, "given back": 1}


async def test_removals_that_stay_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    await PendingRemoval.objects.acreate(kind="cache", name="some-key")
    await sync_to_async(mark)("all", kind="removals")
    assert (await work_off())["done"] == 1
    assert not await PendingRemoval.objects.aexists()
    monkeypatch.setattr("chat.retention.removals.retry", lambda: (0, 2))
    await sync_to_async(mark)("all", kind="removals")
    assert (await work_off())["failed"] == 1
    [(_, _, error)] = await sync_to_async(due_rows)()
    assert error == "removals_left: 2 things could not be removed yet."


# --- The command ----------------------------------------------------------------------------------


def test_the_command_does_what_is_due_and_says_how_much(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    dues.mark_session("title", chat_session.pk)
    fake_endpoint.replies(answer("Holidays"))
    out = StringIO()
    call_command("run_due", stdout=out)
    assert out.getvalue() == "Done: 1; failed and to be tried again: 0\n"
    chat_session.refresh_from_db()
    assert chat_session.title == "Holidays"


async def test_a_loop_that_was_never_started_can_be_stopped() -> None:
    await Loop().stop()
    await follow_ups.stop()


@pytest.mark.parametrize("ticks", range(4))
async def test_a_loop_that_is_rung_while_it_is_stopped_ends(ticks: int) -> None:
    loop = Loop()
    loop.start()
    await asyncio.sleep(0.1)  # it has looked, and waits
    loop.ring()
    for _ in range(ticks):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await loop.stop()
