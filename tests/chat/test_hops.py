"""The bounded executor between the event loop and the database."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from chat import hops
from chat.limits import Bucket, count_in_minute
from chat.models import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_hop_runs_in_a_thread_of_its_own_and_sees_the_database() -> None:
    name = await hops.hop(lambda: threading.current_thread().name)
    assert name.startswith("chat-db")
    await Tenant.objects.acreate(slug="seen", name="Seen")
    assert await hops.hop(Tenant.objects.filter(slug="seen").count) == 1


async def test_an_error_comes_back_to_whoever_asked() -> None:
    with pytest.raises(ZeroDivisionError):
        await hops.hop(lambda: 1 // 0)


async def test_a_full_queue_refuses_hops_and_lets_urgent_ones_through(settings: Any) -> None:
    await asyncio.to_thread(hops.shutdown)
    settings.CHAT_EXECUTOR_THREADS, settings.CHAT_EXECUTOR_QUEUE = 1, 2
    gate = threading.Event()
    waiting = [asyncio.create_task(hops.hop(gate.wait, 5)) for _ in range(3)]
    await asyncio.sleep(0.01)
    with pytest.raises(hops.Overloaded, match="3 database steps are waiting"):
        await hops.hop(gate.wait, 5)
    urgent = asyncio.create_task(hops.urgent_hop(gate.wait, 5))
    gate.set()
    assert await asyncio.gather(*waiting, urgent) == [True] * 4
    assert await hops.hop(int) == 0
    await asyncio.to_thread(hops.shutdown)


async def test_after_a_shutdown_the_next_hop_starts_anew() -> None:
    await hops.hop(int)
    await asyncio.to_thread(hops.shutdown)
    await asyncio.to_thread(hops.shutdown)  # twice is as good as once
    names = {thread.name for thread in threading.enumerate()}
    assert not any(name.startswith("chat-db") for name in names)
    assert await hops.hop(int) == 0


def test_a_bucket_lets_so_many_through_at_once_and_no_more() -> None:
    bucket = Bucket(3)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_while_the_cache_is_away_nothing_is_counted_and_nobody_is_held_up(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:9/0",
        }
    }
    assert count_in_minute("turns", 1) == 0
    assert "the cache is away" in caplog.text


def test_counts_are_kept_by_what_and_by_whom() -> None:
    first, second = count_in_minute("turns", 1), count_in_minute("turns", 1)
    assert second in (first + 1, 1)  # 1: a new minute began in between
    assert count_in_minute("turns", 2) == 1
    assert count_in_minute("exports", 1) == 1
