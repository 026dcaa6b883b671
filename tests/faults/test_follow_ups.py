"""A worker that is killed in the middle of a follow-up: another one does it, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.db import connection

from chat import dues
from chat.models import ChatSession
from tests import builders
from tests.environment import ROOT, process_environment
from tests.fakes import FakeEndpoint, Pause, Reply, answer
from tests.follow_ups import waiting
from tests.orders import session_at

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 2  # CHAT_FOLLOW_UP_SECONDS of the workers; a claim holds for 3


def database_url() -> str:
    """The test database of this run, as a process of its own is told it."""
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    name, user, host = values["NAME"], values["USER"], values["HOST"]
    return f"{connection.vendor.replace('postgresql', 'postgres')}://{user}@{host}/{name}"


@pytest.fixture
def worker() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        environ = process_environment(
            DATABASE_URL=database_url(),
            CHAT_FOLLOW_UP_SECONDS=str(SECONDS),
            CHAT_MEDIA_ROOT=str(settings.MEDIA_ROOT),
        )
        command = [sys.executable, "manage.py", "run_due", *options]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_what_a_killed_worker_had_claimed_is_done_by_another_after_its_claim_expired(
    fake_endpoint: FakeEndpoint, worker: Callable[..., subprocess.Popen[bytes]]
) -> None:
    chat_session = session_at(fake_endpoint, title="Hello")
    builders.exchange(chat_session)
    dues.mark_session("title", chat_session.pk)
    fake_endpoint.replies(Reply([Pause(60), *answer("Of the dead").steps]), answer("Of the living"))
    first = worker("--loop")
    until(lambda: bool(fake_endpoint.requests))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    row = waiting().get()
    assert row.claimed_by != ""
    worker("--loop")
    until(lambda: ChatSession.objects.filter(title="Of the living").exists())
    until(lambda: not waiting().exists())
    assert len(fake_endpoint.requests) == 2


def test_a_worker_that_is_asked_to_end_gives_back_what_it_does(
    fake_endpoint: FakeEndpoint, worker: Callable[..., subprocess.Popen[bytes]]
) -> None:
    chat_session = session_at(fake_endpoint, title="Hello")
    builders.exchange(chat_session)
    dues.mark_session("title", chat_session.pk)
    fake_endpoint.replies(Reply([Pause(60), *answer("Late").steps]))
    process = worker("--loop")
    until(lambda: bool(fake_endpoint.requests))
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.decode().endswith("Done: 0; failed and to be tried again: 0\n")
    row = waiting().get()
    assert (row.claimed_by, row.attempts) == ("", 0)
