"""Windows in the database: each belongs to a chat session and leaves with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, transaction

from memory.messages import Message, from_data, require_messages, to_data
from memory.models import MemorySnapshot
from memory.stores.base import (
    RevisionConflict,
    Snapshot,
    next_revision,
    require_memory_id,
)
from memory.stores.content import FORMAT_VERSION, read_messages
from memory.text import clean_data

T = TypeVar("T")


class UnknownMemoryId(LookupError):
    """There is no chat session with this id."""

    def __init__(self, memory_id: str) -> None:
        self.memory_id = memory_id
        super().__init__(
            f"there is no chat session {memory_id!r}; a stored window belongs to a session"
        )


class DatabaseStore:
    """A SnapshotStore over MemorySnapshot rows; a memory id is the id of a chat session.

    NUL is removed and a lone surrogate becomes U+FFFD, which not every database can hold.
    """

    def load(self, memory_id: str) -> Snapshot | None:
        row = MemorySnapshot.objects.filter(pk=_session_id(memory_id)).first()
        if row is None:
            return None
        messages = read_messages(memory_id, row.format_version, row.messages)
        return Snapshot(memory_id, messages, row.revision)

    def replace(
        self,
        memory_id: str,
        messages: Iterable[Message],
        *,
        expected_revision: int | None = None,
    ) -> Snapshot:
        session_id = _session_id(memory_id)
        data = [clean_data(to_data(each)) for each in require_messages(messages)]
        with transaction.atomic():
            revision = _write(memory_id, session_id, data, expected_revision)
        return Snapshot(memory_id, tuple(from_data(each) for each in data), revision)

    def delete(self, memory_id: str) -> None:
        MemorySnapshot.objects.filter(pk=_session_id(memory_id)).delete()

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run `call` where Django's asynchronous code uses the database."""
        return await sync_to_async(_with_live_connection)(call, *arguments)


def _with_live_connection(call: Callable[..., T], *arguments: Any) -> T:
    close_old_connections()
    try:
        return call(*arguments)
    finally:
        close_old_connections()


def _write(
    memory_id: str, session_id: uuid.UUID, data: list[dict[str, Any]], expected: int | None
) -> int:
    """Write the row and return its revision; the caller holds a transaction."""
    sessions: Any = MemorySnapshot._meta.get_field("chat_session").related_model
    if not sessions._default_manager.select_for_update().filter(pk=session_id).exists():
        raise UnknownMemoryId(memory_id)
    row = MemorySnapshot.objects.select_for_update().filter(pk=session_id).first()
    found = row.revision if row else 0
    if expected not in (None, found):
        raise RevisionConflict(memory_id, expected or 0, found)
    revision = next_revision(found)
    new = MemorySnapshot(
        chat_session_id=session_id,
        format_version=FORMAT_VERSION,
        revision=revision,
        messages=data,
    )
    new.save(force_insert=row is None, force_update=row is not None)
    return revision


def _session_id(memory_id: str) -> uuid.UUID:
    """The session's id; only its one usual spelling, so that two ids never share a row."""
    require_memory_id(memory_id)
    try:
        session_id = uuid.UUID(memory_id)
    except ValueError:
        session_id = None
    if session_id is None or str(session_id) != memory_id:
        raise ValueError(
            f"memory id {memory_id!r} is not the id of a chat session, as in {uuid.UUID(int=0)}"
        )
    return session_id
