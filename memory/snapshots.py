"""Snapshots of windows: the row of a session, read if it is current and replaced whole."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import F
from django.utils import timezone

from memory.context import HistoryMessage, LeftOut, Window
from memory.history import MemoryPolicy, SessionState
from memory.messages import from_data, to_data
from memory.models import MemorySnapshot

FORMAT_VERSION = 1

logger = logging.getLogger(__name__)


def load_valid(state: SessionState, policy: MemoryPolicy) -> Window | None:
    """The stored window if it is what a rebuild would give now, else None."""
    return read(state, policy)[0]


def read(state: SessionState, policy: MemoryPolicy) -> tuple[Window | None, str]:
    """The stored window, or None and why it cannot be used."""
    row = MemorySnapshot.objects.filter(pk=state.id).first()
    if row is None:
        return None, "missing"
    if reason := _why_not(row, state, policy):
        return None, reason
    try:
        messages = tuple(_message(data) for data in row.messages)
        left_out = tuple(LeftOut(*each) for each in row.left_out)
    except (KeyError, TypeError, ValueError) as error:
        logger.warning(
            "the memory snapshot of session %s cannot be read (%s); rebuilding it from history",
            state.id,
            type(error).__name__,
        )
        return None, "unreadable"
    return Window(messages, left_out, "snapshot", row.before_seq, policy.described()), ""


def save(state: SessionState, policy: MemoryPolicy, window: Window, through_seq: int) -> bool:
    """Replace the row, inside the transaction that has locked the session's row.

    Nothing is written, and False returned, when the session is gone or its memory epoch is no
    longer the one in `state`: text that was cleared or redacted meanwhile does not come back.
    """
    if not _sessions().filter(pk=state.id, memory_epoch=state.memory_epoch).exists():
        return False
    values: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "through_seq": through_seq,
        "before_seq": window.before_seq,
        "memory_epoch": state.memory_epoch,
        "policy": policy.fingerprint(),
        "messages": [_data(each) for each in window.messages],
        "left_out": [[each.from_seq, each.through_seq, each.reason] for each in window.left_out],
        "updated_at": timezone.now(),
    }
    rows = MemorySnapshot.objects.filter(pk=state.id)
    if not rows.update(revision=F("revision") + 1, **values):
        MemorySnapshot.objects.create(chat_session_id=state.id, **values)
    return True


def drop(session_id: uuid.UUID) -> int:
    """Delete the row; how many there were."""
    return MemorySnapshot.objects.filter(pk=session_id).delete()[0]


def _sessions() -> Any:
    """The sessions that snapshots belong to; memory knows them by the foreign key alone."""
    return MemorySnapshot._meta.get_field("chat_session").related_model._default_manager


def _why_not(row: MemorySnapshot, state: SessionState, policy: MemoryPolicy) -> str:
    if row.format_version != FORMAT_VERSION:
        return "version"
    if row.memory_epoch != state.memory_epoch:
        return "epoch"
    if row.policy != policy.fingerprint():
        return "policy"
    return "" if row.through_seq == state.newest_seq else "behind"


def _data(message: HistoryMessage) -> dict[str, Any]:
    return {
        **to_data(message.message),
        "seq": message.seq,
        "id": message.id,
        "turn": message.turn,
        "is_partial": message.is_partial,
        "tokens": message.tokens,
        "encoding": message.encoding,
    }


def _message(data: Mapping[str, Any]) -> HistoryMessage:
    return HistoryMessage(
        from_data(data),
        seq=data["seq"],
        id=data["id"],
        turn=data["turn"],
        is_partial=data["is_partial"],
        tokens=data["tokens"],
        encoding=data["encoding"],
    )
