"""Windows in a cache of Django: Redis, Memcached, or the memory of one process.

Django's cache API has no compare-and-set, but its `add` is one: of all who add the same key exactly
one succeeds. So every revision of a window is a key of its own, written by `add` and by nothing
else, whole or not at all:

    chat:memory:{id}             the newest revision known, where reading begins
    chat:memory:{id}:{revision}  the window, or that it was deleted, or that a newer one is there

A writer that was too slow finds its revision taken. One that dies between the two keys has written
its window all the same: reading goes on from the revision that is noted to the newest that is
there. What is replaced keeps its key for an hour without its text, for writers that read it before.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.dummy import DummyCache
from django.core.exceptions import ImproperlyConfigured

from memory.messages import Message, from_data, require_messages, to_data
from memory.stores.base import (
    RebuildNeeded,
    RevisionConflict,
    Snapshot,
    attempts,
    next_revision,
    require_memory_id,
)
from memory.stores.content import FORMAT_VERSION, read_messages

PREFIX = "chat:memory"
WEEK = 7 * 24 * 3600
KEPT_SECONDS = 3600  # how long the key of a replaced or deleted window stays, at most its own time
_LONGEST_NAME = 150  # Memcached takes keys of 250 bytes
_PROBE_SECONDS = 60
_LOOKS = 3  # a window that is being replaced is looked for again

_UNREADABLE: dict[str, Any] = {"version": FORMAT_VERSION, "messages": "unreadable"}

logger = logging.getLogger(__name__)
T = TypeVar("T")


class NoAnswer(ConnectionError):
    """The cache does not answer; whether it holds anything cannot be told."""

    def __init__(self, memory_id: str) -> None:
        self.memory_id = memory_id
        super().__init__(f"the cache does not answer for memory {memory_id!r}; is it away?")


class NotStored(RuntimeError):
    """The cache did not keep what it was given."""

    def __init__(self, memory_id: str, size: int) -> None:
        self.memory_id = memory_id
        super().__init__(
            f"the cache did not store {size} bytes for memory {memory_id!r}, and nobody else wrote"
            " there; look whether it takes values of that size and has room"
        )


@dataclass(frozen=True)
class _Newest:
    """The newest revision of a window that the cache knows of (0: none) and what it holds."""

    revision: int
    content: dict[str, Any] | None

    @property
    def is_window(self) -> bool:
        return self.content is not None and self.content.get("messages", ()) is not None

    @property
    def visible_revision(self) -> int:
        """The revision as callers know it: 0 where there is nothing to be read."""
        return self.revision if self.is_window else 0


class CacheStore:
    """A SnapshotStore over Django's cache framework; windows expire `ttl` seconds after a write.

    `cache` is the alias of a cache in CACHES, or a cache. What it loses or lets expire is lost:
    a cache keeps what can be built again, or what may be forgotten.
    """

    def __init__(
        self, cache: str | BaseCache = "default", *, ttl: int = WEEK, prefix: str = PREFIX
    ) -> None:
        if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < 1:
            raise ValueError(f"ttl is {ttl!r}; use a positive number of seconds")
        self._named = cache
        self._ttl = ttl
        self._prefix = prefix

    def load(self, memory_id: str) -> Snapshot | None:
        newest = self._newest(memory_id, self._key(memory_id))
        if not newest.is_window:
            return None
        content = newest.content or {}
        messages = read_messages(memory_id, content.get("version"), content.get("messages"))
        return Snapshot(memory_id, messages, newest.revision)

    def replace(
        self,
        memory_id: str,
        messages: Iterable[Message],
        *,
        expected_revision: int | None = None,
    ) -> Snapshot:
        key = self._key(memory_id)
        data = [to_data(each) for each in require_messages(messages)]
        if expected_revision is not None:
            revision = self._commit(memory_id, key, data, expected_revision)
        else:
            revision = self._insist(memory_id, key, data)
        return Snapshot(memory_id, tuple(from_data(each) for each in data), revision)

    def delete(self, memory_id: str) -> None:
        key = self._key(memory_id)
        try:
            is_there = self._newest(memory_id, key).is_window
        except RebuildNeeded:
            is_there = True
        if is_there:
            self._insist(memory_id, key, None)

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run `call` where Django's asynchronous cache methods run."""
        return await sync_to_async(call)(*arguments)

    @property
    def _cache(self) -> BaseCache:
        cache = caches[self._named] if isinstance(self._named, str) else self._named
        if isinstance(cache, DummyCache):
            raise ImproperlyConfigured(
                f"the cache {self._named!r} is a DummyCache, which keeps nothing; memory needs a"
                " cache such as Redis or Memcached"
            )
        return cache

    def _key(self, memory_id: str) -> str:
        name = quote(require_memory_id(memory_id), safe="", errors="surrogatepass")
        if len(name) > _LONGEST_NAME:
            name = f"#{sha256(memory_id.encode('utf-8', 'surrogatepass')).hexdigest()}"
        return f"{self._prefix}:{name}"

    # --- Reading

    def _newest(self, memory_id: str, key: str) -> _Newest:
        revision = 0
        for _ in range(_LOOKS):
            noted = self._cache.get(key)
            if noted is None:
                self._require_answer(memory_id, key)
                return _Newest(0, None)
            if not isinstance(noted, int):
                raise RebuildNeeded(memory_id, "unreadable")
            revision, value = self._walk(key, noted)
            content = _content(key, value)
            if content is None:
                self._require_answer(memory_id, key)
            elif content.get("is_replaced"):
                continue
            return _Newest(revision, content)
        return _Newest(revision, None)  # what replaced it is lost

    def _require_answer(self, memory_id: str, key: str) -> None:
        """Raise NoAnswer unless the cache can tell that something is not there.

        pymemcache, for one, says "nothing" to everything for a second after a server went away.
        """
        probe = f"{key}:there"
        if not self._cache.add(probe, 1, _PROBE_SECONDS) and self._cache.get(probe) is None:
            raise NoAnswer(memory_id)

    def _walk(self, key: str, noted: int) -> tuple[int, Any]:
        """The newest revision from the one that is noted on, and its value."""
        found = self._cache.get_many([_at(key, noted), _at(key, noted + 1)])
        revision, value = noted, found.get(_at(key, noted))
        following = found.get(_at(key, noted + 1))
        while following is not None:
            revision, value = revision + 1, following
            following = self._cache.get(_at(key, revision + 1))
        return revision, value

    # --- Writing

    def _insist(self, memory_id: str, key: str, data: list[dict[str, Any]] | None) -> int:
        """Write whatever is there; `data` None writes that the window is deleted."""
        conflict: RevisionConflict | None = None
        for _ in attempts():
            try:
                return self._commit(memory_id, key, data, None)
            except RevisionConflict as error:
                conflict = error
            except RebuildNeeded:
                self._cache.delete(key)  # nothing that this code noted; begin anew
        raise conflict or RebuildNeeded(memory_id, "unreadable")

    def _commit(
        self, memory_id: str, key: str, data: list[dict[str, Any]] | None, expected: int | None
    ) -> int:
        began = time.monotonic()
        newest = self._newest(memory_id, key)
        found = newest.visible_revision
        if expected not in (None, found):
            raise RevisionConflict(memory_id, expected or 0, found)
        before = newest.revision or self._begin(memory_id, key)
        token = secrets.token_hex(8)
        value = _value(messages=data, token=token)
        if not self._claim(memory_id, _at(key, before + 1), value, token, keep=data is not None):
            raise RevisionConflict(memory_id, found, before + 1)
        if time.monotonic() - began > self._kept / 2:
            # The key of an overtaken revision may have expired and been free for that reason.
            self._cache.delete(_at(key, before + 1))
            raise TimeoutError(f"writing memory {memory_id!r} took too long; write it again")
        self._note(memory_id, key, before + 1, replaced=newest.content is not None)
        return before + 1

    def _begin(self, memory_id: str, key: str) -> int:
        """The number that the revisions of a new window follow; one of its writers chooses it."""
        start = next_revision(0)
        if self._cache.add(key, start, self._ttl):
            return start
        other = self._cache.get(key)
        if other is None:
            raise NotStored(memory_id, size=8)
        raise RevisionConflict(memory_id, 0, other)

    def _claim(self, memory_id: str, key: str, value: str, token: str, *, keep: bool) -> bool:
        """Write the revision; False when another writer has it."""
        if self._cache.add(key, value, self._ttl if keep else self._kept):
            return True
        there = _content(key, self._cache.get(key))
        if there is None:
            raise NotStored(memory_id, len(value))
        return there.get("token") == token  # ours: a client repeats what it got no answer to

    def _note(self, memory_id: str, key: str, revision: int, *, replaced: bool) -> None:
        """Note where the window is, and take the text out of the revision that it replaced."""
        try:
            if (self._cache.get(key) or 0) < revision:
                self._cache.set(key, revision, self._ttl)
            if replaced:
                self._cache.set(_at(key, revision - 1), _value(is_replaced=True), self._kept)
        except Exception as error:  # what a backend raises is the backend's own
            # The window is stored, and reading finds it behind the revision that is noted.
            logger.warning("memory %s is stored; tidying up failed: %r", memory_id, error)

    @property
    def _kept(self) -> int:
        return min(KEPT_SECONDS, self._ttl)


def _at(key: str, revision: int) -> str:
    return f"{key}:{revision}"


def _value(**fields: Any) -> str:
    """JSON in ASCII, so that any text comes back as it was."""
    return json.dumps({"version": FORMAT_VERSION, **fields}, separators=(",", ":"))


def _content(key: str, value: Any) -> dict[str, Any] | None:
    """What is stored at a revision; None when it has expired, or was replaced meanwhile."""
    if value is None:
        return None
    try:
        content = json.loads(value)
    except (TypeError, ValueError, RecursionError) as error:
        logger.warning("what is stored at %s cannot be read: %s", key, type(error).__name__)
        content = None
    return content if isinstance(content, dict) else _UNREADABLE
