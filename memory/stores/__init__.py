"""Snapshot stores. DatabaseStore needs Django and is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memory.stores.base import RevisionConflict, Snapshot, SnapshotStore, require_memory_id
from memory.stores.in_memory import InMemoryStore

if TYPE_CHECKING:
    from memory.stores.database import DatabaseStore

__all__ = [
    "DatabaseStore",
    "InMemoryStore",
    "RevisionConflict",
    "Snapshot",
    "SnapshotStore",
    "require_memory_id",
]


def __getattr__(name: str) -> Any:
    if name == "DatabaseStore":
        return import_module("memory.stores.database").DatabaseStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
