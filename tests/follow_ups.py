"""Follow-ups for tests: what is due, done to its end, and what is left of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.db.models.functions import Now

from chat import dues
from chat.follow_ups import Loop
from chat.models import ChatSession, FollowUp, ModelCall
from tests.fakes import FakeEndpoint, Received, Reply, Wait, answer


async def work_off() -> dict[str, int]:
    """Do everything that is due now, as `manage.py run_due` does; how it ended."""
    loop = Loop()
    await loop.work_off()
    return loop.counts


async def follow(chat_session: ChatSession, kind: str) -> dict[str, int]:
    """Make `kind` due for a session, and do what is due."""
    await sync_to_async(dues.mark_session)(kind, chat_session.pk)
    return await work_off()


async def again() -> dict[str, int]:
    """Do what failed before, without waiting for its backoff."""
    await waiting().aupdate(due_at=Now())
    return await work_off()


def waiting() -> QuerySet[FollowUp]:
    """All but the roll-up of the day's usage, which every call makes due."""
    return FollowUp.objects.exclude(kind="usage")


def saying(value: Any, **how: Any) -> Reply:
    """A whole answer with this JSON."""
    return answer(json.dumps(value, ensure_ascii=False), **how)


def asked(received: Received) -> dict[str, Any]:
    """The data of a follow-up's request."""
    data: dict[str, Any] = json.loads(received.body["messages"][-1]["content"])
    return data


def asked_last(fake_endpoint: FakeEndpoint) -> dict[str, Any]:
    return asked(fake_endpoint.requests[-1])


def due_rows() -> list[tuple[str, int, str]]:
    """What is due or waits: kind, failures, last error."""
    return list(waiting().order_by("id").values_list("kind", "attempts", "last_error"))


def calls() -> list[tuple[str, str]]:
    """Calls to models that no turn made: kind and error code, oldest first."""
    return list(ModelCall.objects.order_by("id").values_list("kind", "error_code"))


class Meanwhile:
    """Something that happens while a model call runs: the fake endpoint waits for it."""

    def __init__(self, fake_endpoint: FakeEndpoint, reply: Reply) -> None:
        self.fake_endpoint = fake_endpoint
        self.gate = threading.Event()
        self.before = len(fake_endpoint.requests)
        fake_endpoint.replies(Reply([Wait(self.gate), *reply.steps]))

    async def do(self, happening: Callable[[], Awaitable[object]]) -> dict[str, int]:
        """Work off what is due, and let `happening` come in between the call and its answer."""
        working = asyncio.create_task(work_off())
        async with asyncio.timeout(10):
            while len(self.fake_endpoint.requests) <= self.before:
                await asyncio.sleep(0.01)
        await happening()
        self.gate.set()
        return await working
