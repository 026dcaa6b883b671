"""Turns over snapshots that are not in the database, and what their manifests account for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.core.cache import cache

from chat import llm
from chat.models import ChatSession
from memory.models import MemorySnapshot
from tests.fakes import FakeEndpoint, answer
from tests.orders import again, last_record, run_order, say, sent, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    return session_at(fake_endpoint)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture(autouse=True)
def _no_cache_of_others() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


async def newest_manifest(chat_session: ChatSession) -> dict[str, Any]:
    return (await last_record(chat_session)).manifest


async def test_the_next_turn_reads_the_window_from_the_cache(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_MEMORY_STORE = "memory.stores.CacheStore"
    fake_endpoint.replies(answer("a1"), answer("a2"), answer("a3"))
    await say(chat_session, "u1")
    await say(chat_session, "u2")
    assert (await newest_manifest(chat_session))["source"] == "snapshot"
    assert sent(fake_endpoint)[1:] == ["u1", "a1", "u2"]
    assert await MemorySnapshot.objects.acount() == 0
    cache.clear()
    await say(chat_session, "u3")
    assert (await newest_manifest(chat_session))["source"] == "rebuild:missing"
    assert sent(fake_endpoint)[1:] == ["u1", "a1", "u2", "a2", "u3"]


async def test_answering_an_earlier_message_again_accounts_for_what_followed_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(*(answer(f"a{n}") for n in range(1, 5)))
    await say(chat_session, "u1")
    second = await say(chat_session, "u2")
    await say(chat_session, "u3")
    await run_order(again("regenerate", second))
    assert sent(fake_endpoint)[1:] == ["u1", "a1", "u2"]
    assert (await newest_manifest(chat_session))["left_out"] == [
        {"from": 4, "through": 6, "reason": "other_branch"}
    ]
