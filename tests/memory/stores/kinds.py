"""Every kind of store that the contract is run against."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache

from memory.stores import CacheStore, DatabaseStore, InMemoryStore, SnapshotStore
from tests import builders

IN_MEMORY = "in memory"
LOCMEM = "locmem"
REDIS = pytest.param("redis", marks=pytest.mark.redis)
DATABASE = pytest.param("database", marks=pytest.mark.django_db)
DATABASE_IN_THREADS = pytest.param("database", marks=pytest.mark.django_db(transaction=True))
EVERY_KIND = [IN_MEMORY, LOCMEM, REDIS, DATABASE]
EVERY_KIND_IN_THREADS = [IN_MEMORY, LOCMEM, REDIS, DATABASE_IN_THREADS]
KINDS_THAT_CAN_SPOIL = [LOCMEM, REDIS, DATABASE]


class Kind:
    """One kind of store: how another object over the same data is made, and how it is spoilt."""

    def __init__(self, store: SnapshotStore) -> None:
        self.store = store

    def again(self) -> SnapshotStore:
        """Another store object over the same data, as another process has it."""
        return self.store

    def new_id(self) -> str:
        return f"session-{uuid.uuid4()}"

    def spoil(self, memory_id: str, messages: Any, version: int = 1) -> None:
        """Put something else where the window of `memory_id` is stored."""
        raise NotImplementedError


class CacheKind(Kind):
    def __init__(self, cache: BaseCache) -> None:
        self.cache = cache
        super().__init__(CacheStore(cache))

    def again(self) -> SnapshotStore:
        return CacheStore(self.cache)

    def spoil(self, memory_id: str, messages: Any, version: int = 1) -> None:
        key = f"chat:memory:{memory_id}"
        value = json.dumps({"version": version, "messages": messages})
        self.cache.set(f"{key}:{self.cache.get(key)}", value)


class DatabaseKind(Kind):
    def __init__(self) -> None:
        super().__init__(DatabaseStore())

    def again(self) -> SnapshotStore:
        return DatabaseStore()

    def new_id(self) -> str:
        return str(builders.chat_session().pk)

    def spoil(self, memory_id: str, messages: Any, version: int = 1) -> None:
        from memory.models import MemorySnapshot

        rows = MemorySnapshot.objects.filter(pk=uuid.UUID(memory_id))
        rows.update(messages=messages, format_version=version)


@contextmanager
def redis_cache(url: str) -> Iterator[RedisCache]:
    """A cache on a Redis server whose keys are removed at the end."""
    prefix = f"contract-{uuid.uuid4()}"
    cache = RedisCache(url, {"KEY_PREFIX": prefix})
    try:
        yield cache
    finally:
        client = cache._cache.get_client(None, write=True)
        for key in client.scan_iter(match=f"*{prefix}*"):
            client.delete(key)
        client.close()


def locmem_cache() -> LocMemCache:
    return LocMemCache(f"contract-{uuid.uuid4()}", {"OPTIONS": {"MAX_ENTRIES": 100_000}})


@contextmanager
def kind_named(name: str, request: pytest.FixtureRequest) -> Iterator[Kind]:
    if name == IN_MEMORY:
        yield Kind(InMemoryStore())
    elif name == LOCMEM:
        yield CacheKind(locmem_cache())
    elif name == "redis":
        with redis_cache(request.getfixturevalue("redis_url")) as cache:
            yield CacheKind(cache)
    else:
        yield DatabaseKind()
