"""Windows in this process alone; they are gone when it ends."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from dataclasses import replace

from memory.messages import Message, require_messages
from memory.stores.base import (
    RevisionConflict,
    Snapshot,
    next_revision,
    require_memory_id,
)


class InMemoryStore:
    """A SnapshotStore over a dict; safe to share between threads."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}
        self._lock = threading.Lock()

    def load(self, memory_id: str) -> Snapshot | None:
        snapshot = self._snapshots.get(require_memory_id(memory_id))
        return replace(snapshot, messages=_own(snapshot.messages)) if snapshot else None

    def replace(
        self,
        memory_id: str,
        messages: Iterable[Message],
        *,
        expected_revision: int | None = None,
    ) -> Snapshot:
        require_memory_id(memory_id)
        found = _own(require_messages(messages))
        with self._lock:
            before = self._snapshots.get(memory_id)
            revision = before.revision if before else 0
            if expected_revision not in (None, revision):
                raise RevisionConflict(memory_id, expected_revision or 0, revision)
            snapshot = Snapshot(memory_id, found, next_revision(revision))
            self._snapshots[memory_id] = snapshot
        return replace(snapshot, messages=_own(found))

    def delete(self, memory_id: str) -> None:
        require_memory_id(memory_id)
        with self._lock:
            self._snapshots.pop(memory_id, None)


def _own(messages: Iterable[Message]) -> tuple[Message, ...]:
    """`messages` with nothing in them that somebody else can change; only parts can be."""
    return tuple(
        replace(each, parts=copy.deepcopy(each.parts)) if each.parts else each for each in messages
    )
