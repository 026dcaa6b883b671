"""Making the index anew from the messages, a batch at a time, while people write."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F

from chat.models import ChatSession
from chat.search import messages
from chat.search.embeddings import embedder
from chat.search.engines import engine

SESSIONS = 500  # ids that are read at once


@dataclass(frozen=True)
class Progress:
    """How far a rebuild has come."""

    sessions: int
    messages: int


def prepare() -> str | None:
    """Make a place for vectors, if they are wanted; what the operator should know of it.

    Before a rebuild of everything, which fills it.
    """
    words = engine()
    return words.prepare_vectors() if words is not None and embedder() is not None else None


def rebuild(
    session_id: uuid.UUID | None = None, tell: Callable[[Progress], None] = lambda progress: None
) -> Progress:
    """Index every message anew, or those of one session; `tell` hears of it after each session.

    Each batch is a transaction of its own that holds the session's row, so nothing that is written,
    redacted or deleted meanwhile is missed or comes back. It can be stopped and begun again.
    """
    progress = Progress(0, 0)
    for each in [session_id] if session_id is not None else _session_ids():
        progress = Progress(progress.sessions + 1, progress.messages + _index(each))
        tell(progress)
    return progress


def _session_ids() -> Iterator[uuid.UUID]:
    rows = ChatSession.objects.order_by("pk").values_list("pk", flat=True)
    batch = list(rows[:SESSIONS])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__gt=batch[-1])[:SESSIONS])


def _index(session_id: uuid.UUID) -> int:
    count = after = 0
    while True:
        with transaction.atomic():
            row = ChatSession.objects.filter(pk=session_id)
            if not row.update(last_active_at=F("last_active_at")):
                return count
            if not after and row.filter(is_temporary=True).exists():
                messages.remove_session(session_id)
            batch = messages.index_batch(session_id, after)
        if batch is None:
            return count
        count += batch.messages
        after = batch.through
