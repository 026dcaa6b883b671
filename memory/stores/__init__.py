"""Snapshot stores. Those that need Django are imported only when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memory.stores.base import (
    RebuildNeeded,
    RevisionConflict,
    Snapshot,
    SnapshotStore,
    require_memory_id,
)
from memory.stores.in_memory import InMemoryStore

if TYPE_CHECKING:
    from memory.stores.cache import CacheStore
    from memory.stores.database import DatabaseStore

__all__ = [
    "CacheStore",
    "DatabaseStore",
    "InMemoryStore",
    "RebuildNeeded",
    "RevisionConflict",
    "Snapshot",
    "SnapshotStore",
    "require_memory_id",
]


_ON_DJANGO = {"CacheStore": "memory.stores.cache", "DatabaseStore": "memory.stores.database"}


def __getattr__(name: str) -> Any:
    if name in _ON_DJANGO:
        return getattr(import_module(_ON_DJANGO[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
