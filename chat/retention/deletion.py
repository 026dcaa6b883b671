"""Deleting a session with everything that derives from it, in one transaction.

It begins with an UPDATE of the session's row, as every transaction about a session does, and does
not wait for a running turn: whatever the turn writes later is conditional on that row. Rows leave
by plain DELETE statements, so memory does not grow with the conversation.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q

from chat import attachments, events, leases, temporary
from chat.models import (
    Attachment,
    ChatMessage,
    ChatSession,
    ModelCall,
    PendingRemoval,
    SessionTombstone,
)
from chat.retention import places, removals
from chat.retention.notes import Actor, note
from chat.retention.places import SESSION_PLACES, Removed
from memory.models import UserPreference


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
        places.loosen(ChatMessage.objects.filter(chat_session=session_id))
        # Calls to models are kept, without what they were for: they were paid.
        ModelCall.objects.filter(chat_session=session_id).update(chat_session=None)
        removed = places.empty(SESSION_PLACES, session_id)
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
