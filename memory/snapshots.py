"""Snapshots of windows: one for a session, read if it is current and replaced whole.

CHAT_MEMORY_STORE says where they are kept. In the database (the default) that is a row, written in
the transaction that ends the turn. Any other store is written right after that transaction, by
compare-and-set on its revision; what it loses, or cannot give, is built again from the history.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.module_loading import import_string

from memory.context import HistoryMessage, LeftOut, Window
from memory.history import MemoryPolicy, SessionState
from memory.messages import from_data, to_data
from memory.models import MemorySnapshot
from memory.stores import DatabaseStore, RebuildNeeded, RevisionConflict, SnapshotStore
from memory.stores.windows import from_messages, to_messages

FORMAT_VERSION = 1

logger = logging.getLogger(__name__)


def read(state: SessionState, policy: MemoryPolicy) -> tuple[Window | None, str]:
    """The stored window if it is what a rebuild would give now, else None and why it is not."""
    try:
        row = _load(state.id)
    except RebuildNeeded as needed:
        return None, needed.why
    except DatabaseError:
        raise
    except Exception as error:  # what a store raises is the store's own
        logger.warning(
            "the snapshot store does not answer for session %s (%r); its window is built from the"
            " history",
            state.id,
            error,
        )
        return None, "unavailable"
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
    described = policy.described()
    return Window(messages, left_out, "snapshot", row.before_seq, described, state.last_seq), ""


def save(state: SessionState, policy: MemoryPolicy, window: Window, through_seq: int) -> bool:
    """Replace the snapshot, inside the transaction that has locked the session's row.

    Nothing is written, and False returned, when the session is gone or its memory epoch is no
    longer the one in `state`: text that was cleared or redacted meanwhile does not come back.
    """
    if not _is_current(state):
        return False
    values: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "through_seq": through_seq,
        "before_seq": window.before_seq,
        "memory_epoch": state.memory_epoch,
        "policy": policy.fingerprint(),
        "messages": [_data(each) for each in window.messages],
        "left_out": [[each.from_seq, each.through_seq, each.reason] for each in window.left_out],
    }
    store = _store()
    if store is not None:
        transaction.on_commit(partial(_write, store, state, values))
        return True
    values["updated_at"] = timezone.now()
    rows = MemorySnapshot.objects.filter(pk=state.id)
    if not rows.update(revision=F("revision") + 1, **values):
        MemorySnapshot.objects.create(chat_session_id=state.id, **values)
    return True


def drop(session_id: uuid.UUID) -> int:
    """Delete the row, in the caller's transaction; how many there were.

    What a store outside of the tables keeps goes right after that transaction. Where it must not
    stay when the store is away, list it and call `forget` until it does not raise.
    """
    if _store() is not None:
        transaction.on_commit(partial(_forget_or_warn, session_id))
    return MemorySnapshot.objects.filter(pk=session_id).delete()[0]


def forget(session_id: uuid.UUID) -> None:
    """Delete what a store outside of the tables keeps of the session; its errors propagate."""
    store = _store()
    if store is not None:
        store.delete(str(session_id))


# --- The store ------------------------------------------------------------------------------------


def _store() -> SnapshotStore | None:
    """The store that is not the database's rows; None: it is."""
    store = _made(settings.CHAT_MEMORY_STORE)
    return None if isinstance(store, DatabaseStore) else store


@lru_cache
def _made(path: str) -> SnapshotStore:
    store: SnapshotStore = import_string(path)()
    return store


def _load(session_id: uuid.UUID) -> MemorySnapshot | None:
    """The snapshot as a row, wherever it is kept; RebuildNeeded, or what the store raises."""
    store = _store()
    if store is None:
        return MemorySnapshot.objects.filter(pk=session_id).first()
    found = store.load(str(session_id))
    if found is None:
        return None
    values = from_messages(found.memory_id, found.messages)
    return MemorySnapshot(chat_session_id=session_id, revision=found.revision, **values)


def _write(store: SnapshotStore, state: SessionState, values: Mapping[str, Any]) -> None:
    """Replace what the store has, unless that is newer; the turn that it belongs to has ended.

    The memory may be cleared, and the session deleted, at any moment. Whoever does that deletes
    here after its transaction, so either that comes after our write, or we see the new epoch then.
    """
    memory_id = str(state.id)
    try:
        revision = _older_revision(state, values)
        if revision is None or not _is_current(state):
            return
        store.replace(memory_id, to_messages(values), expected_revision=revision)
        if not _is_current(state):
            store.delete(memory_id)
    except RevisionConflict as conflict:
        logger.info("the snapshot of a turn was not stored: %s", conflict)
    except Exception as error:  # what a store raises is the store's own; the turn has ended
        logger.warning("the memory snapshot of session %s was not stored: %r", state.id, error)


def _older_revision(state: SessionState, values: Mapping[str, Any]) -> int | None:
    """The revision that may be replaced (0: nothing is there); None: what is there is newer."""
    try:
        row = _load(state.id)
    except RebuildNeeded:
        forget(state.id)
        return 0
    if row is None:
        return 0
    mine = (values["memory_epoch"], values["through_seq"])
    return None if (row.memory_epoch, row.through_seq) > mine else row.revision


def _forget_or_warn(session_id: uuid.UUID) -> None:
    try:
        forget(session_id)
    except Exception as error:  # what a store raises is the store's own
        logger.warning(
            "the memory snapshot of session %s is still in its store, until it expires: %r",
            session_id,
            error,
        )


def _is_current(state: SessionState) -> bool:
    """Whether the session is there, and its memory the one that was read."""
    sessions: Any = MemorySnapshot._meta.get_field("chat_session").related_model
    found = sessions._default_manager.filter(pk=state.id, memory_epoch=state.memory_epoch)
    return bool(found.exists())


# --- The values -----------------------------------------------------------------------------------


def _why_not(row: MemorySnapshot, state: SessionState, policy: MemoryPolicy) -> str:
    if row.format_version != FORMAT_VERSION:
        return "version"
    if row.memory_epoch != state.memory_epoch:
        return "epoch"
    if row.policy != policy.fingerprint():
        return "policy"
    return "" if row.through_seq == state.newest_seq else "behind"


def _data(message: HistoryMessage) -> dict[str, Any]:
    data = {
        **to_data(message.message),
        "seq": message.seq,
        "id": message.id,
        "turn": message.turn,
        "is_partial": message.is_partial,
        "tokens": message.tokens,
        "encoding": message.encoding,
    }
    return {**data, "mark": message.mark} if message.mark else data


def _message(data: Mapping[str, Any]) -> HistoryMessage:
    return HistoryMessage(
        from_data(data),
        seq=data["seq"],
        id=data["id"],
        turn=data["turn"],
        is_partial=data["is_partial"],
        tokens=data["tokens"],
        encoding=data["encoding"],
        mark=data.get("mark", ""),
    )
