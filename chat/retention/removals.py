"""What a deletion must still remove from another store, until it is done."""

from __future__ import annotations

import logging
import uuid

from django.conf import settings
from django.core.cache import cache
from django.core.files.storage import default_storage
from django.db import OperationalError, connection
from django.db.models import QuerySet

from chat import attachments, temporary
from chat.limits import CACHE_AWAY
from chat.models import Attachment, PendingRemoval
from chat.retention.places import Removed
from chat.search import messages as search
from memory import snapshots
from memory.stores import RevisionConflict
from memory.stores.cache import NotStored

logger = logging.getLogger(__name__)

Kind = PendingRemoval.Kind
RETRY_SECONDS = 60.0
WINDOW = "window of "  # and a session's id: its snapshot in the store that CHAT_MEMORY_STORE names
IN_TABLES = "memory.stores.DatabaseStore"
# OSError is among them: what a disk says. The index is in the database, which may be busy.
AWAY = (*CACHE_AWAY, NotStored, RevisionConflict, OperationalError)


# --- What must go, written in the transaction that deletes ----------------------------------------


def of_files(rows: QuerySet[Attachment]) -> tuple[PendingRemoval, ...]:
    return tuple(attachments.pending_removals(rows))


def of_temporary_text(session_id: uuid.UUID) -> PendingRemoval:
    return PendingRemoval.objects.create(kind=Kind.CACHE, name=temporary.key_of(session_id))


def of_snapshot(session_id: uuid.UUID) -> tuple[PendingRemoval, ...]:
    """The window of a session, where windows are kept outside of the tables."""
    if settings.CHAT_MEMORY_STORE == IN_TABLES:
        return ()
    return (PendingRemoval.objects.create(kind=Kind.CACHE, name=f"{WINDOW}{session_id}"),)


def of_index(removed: Removed) -> tuple[PendingRemoval, ...]:
    """Where words of entries that went stay in the files of the index until it is merged."""
    if not removed.rows.get("search_entries") or connection.vendor != "sqlite":
        return ()
    return (PendingRemoval.objects.create(kind=Kind.INDEX, name="search"),)


def drop_snapshot(session_id: uuid.UUID) -> tuple[int, tuple[PendingRemoval, ...]]:
    """Delete the snapshot of a session wherever it is: how many rows, and what must still go."""
    return snapshots.drop(session_id), of_snapshot(session_id)


# --- Removing -------------------------------------------------------------------------------------


def carry_out(pending: PendingRemoval) -> bool:
    """Remove one thing; what cannot be reached now stays listed for `retry`."""
    try:
        remove(pending)
    except AWAY as error:
        kind = pending.get_kind_display()
        logger.warning("%s %s is still to be removed: %s", kind, pending.name, error)
        pending.attempts += 1
        pending.last_error = str(error)[:500]
        PendingRemoval.objects.filter(pk=pending.pk).update(
            attempts=pending.attempts, last_error=pending.last_error
        )
        return False
    pending.delete()
    return True


def remove(pending: PendingRemoval) -> None:
    """Remove it; what is not there is gone already."""
    if pending.kind == Kind.INDEX:
        search.optimise()
    elif pending.kind == Kind.FILE:
        default_storage.delete(pending.name)
    elif pending.kind == Kind.CACHE and pending.name.startswith(WINDOW):
        snapshots.forget(uuid.UUID(pending.name.removeprefix(WINDOW)))
    elif pending.kind == Kind.CACHE:
        cache.delete(pending.name)
    else:
        raise ValueError(f"Removal {pending.pk} is of the kind {pending.kind!r}, unknown here.")


def retry() -> tuple[int, int]:
    """Try everything that is still to be removed: how many went, how many stay.

    The index is merged once for all that wait for it.
    """
    waiting = list(PendingRemoval.objects.order_by("pk"))
    done = [carry_out(pending) for pending in waiting if pending.kind != Kind.INDEX]
    if index := [pending for pending in waiting if pending.kind == Kind.INDEX]:
        is_merged = carry_out(index[0])
        if is_merged:
            PendingRemoval.objects.filter(pk__in=[each.pk for each in index[1:]]).delete()
        done += [is_merged] * len(index)
    return done.count(True), done.count(False)
