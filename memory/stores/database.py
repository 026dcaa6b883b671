"""Windows in the database: each belongs to a chat session and leaves with it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from memory.messages import ROLES, Message, from_data, require_messages, to_data
from memory.models import MemorySnapshot
from memory.stores.base import RevisionConflict, Snapshot, require_memory_id
from memory.text import clean_data

logger = logging.getLogger(__name__)


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
        messages = tuple(_readable(memory_id, data) for data in row.messages)
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
    revision = found + 1
    new = MemorySnapshot(chat_session_id=session_id, revision=revision, messages=data)
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


def _readable(memory_id: str, data: Any) -> Message:
    """The stored message; one that cannot be read becomes its plain text, with a warning."""
    try:
        return from_data(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        logger.warning(
            "a stored message of %s cannot be read (%s); its plain text is used",
            memory_id,
            type(error).__name__,
        )
    fields: Mapping[str, Any] = data if isinstance(data, dict) else {"content": data}
    role = fields.get("role")
    text = str(fields.get("content") or "")
    return Message("user" if role == "tool" or role not in ROLES else role, text)
