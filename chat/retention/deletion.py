"""Deleting a session with everything that derives from it, in one transaction.

It begins with an UPDATE of the session's row, as every transaction about a session does, and does
not wait for a running turn: whatever the turn writes later is conditional on that row. Rows leave
by plain DELETE statements, so memory does not grow with the conversation.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from chat import attachments, events, leases, temporary
from chat.models import (
    Attachment,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    Feedback,
    PendingRemoval,
    SessionTombstone,
)
from chat.retention import removals
from chat.retention.notes import Actor, note
from memory.models import MemorySnapshot, UserPreference


@dataclass(frozen=True)
class Removed:
    """How many rows left, by the name of their place."""

    rows: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Removed) -> Removed:
        return Removed(dict(Counter(self.rows) + Counter(other.rows)))

    @property
    def total(self) -> int:
        return sum(self.rows.values())


@dataclass(frozen=True)
class Place:
    """A table with rows that derive from a session, and which those are."""

    name: str
    rows: Callable[[uuid.UUID], QuerySet[Any]]


def feedback_of(session_id: uuid.UUID) -> QuerySet[Feedback]:
    return Feedback.objects.filter(turn__in=ChatTurn.objects.filter(chat_session=session_id))


def owned(model: Any) -> Callable[[uuid.UUID], QuerySet[Any]]:
    """The rows of `model` that name the session as theirs."""
    return lambda session_id: model.objects.filter(chat_session=session_id)


# Every place that holds what a session said, in an order that immediate foreign keys accept.
PLACES = (
    Place("feedback", feedback_of),
    Place("context_records", owned(ContextRecord)),
    Place("context_parts", owned(ContextPart)),
    Place("snapshots", owned(MemorySnapshot)),
    Place("attachments", owned(Attachment)),
    Place("turns", owned(ChatTurn)),
    Place("messages", owned(ChatMessage)),
    Place("sessions", lambda session_id: ChatSession.objects.filter(pk=session_id)),
)


def delete_session(
    session_id: uuid.UUID,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
    only_if: Q | None = None,
) -> Removed:
    """Delete a session for good; `leases.Gone` when there is none, or none as `only_if` says.

    Preferences that came from it stay; where they came from, and the words, leave.
    """
    with transaction.atomic():
        lock(session_id, only_if or Q())
        UserPreference.objects.filter(source_session=session_id).update(
            source_session=None, source_seq=None, quote=""
        )
        if ChatSession.objects.filter(pk=session_id, is_temporary=True).exists():
            pending = PendingRemoval.objects.create(
                kind=PendingRemoval.Kind.CACHE, name=temporary.key_of(session_id)
            )
            transaction.on_commit(partial(removals.carry_out, pending))
        for file in attachments.pending_removals(
            Attachment.objects.filter(chat_session=session_id)
        ):
            transaction.on_commit(partial(removals.carry_out, file))
        removed = remove_rows(session_id)
        SessionTombstone.objects.get_or_create(pk=session_id)
        note("session.delete", session_id, Actor(actor, reason, ip))
        frame = {"type": "session.deleted", "session": str(session_id)}
        transaction.on_commit(partial(events.publish_from_thread, session_id, frame))
    return removed


def lock(session_id: uuid.UUID, only_if: Q) -> None:
    """Lock the row and take the session from whatever runs in it."""
    rows = ChatSession.objects.filter(only_if, pk=session_id)
    if not rows.update(head=None, running_turn=None, lease_owner="", lease_expires_at=None):
        raise leases.Gone(f"Session {session_id} does not exist any more, or must be kept.")
    # An UPDATE on PostgreSQL still lets others insert rows that refer to this one; this does not.
    ChatSession.objects.select_for_update().filter(pk=session_id).values_list("pk").first()


def remove_rows(session_id: uuid.UUID) -> Removed:
    if not connection.features.can_defer_constraint_checks:  # MariaDB checks row by row
        messages = ChatMessage.objects.filter(chat_session=session_id)
        messages.update(parent=None, turn=None)
    removed = {}
    for place in PLACES:
        rows = place.rows(session_id)
        removed[place.name] = rows._raw_delete(rows.db)
    return Removed(removed)
