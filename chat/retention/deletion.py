"""Deleting a session with everything that derives from it, in one transaction.

It begins with an UPDATE of the session's row, as every transaction about a session does, and does
not wait for a running turn: whatever the turn writes later is conditional on that row.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q

from chat import events, leases
from chat.models import (
    Attachment,
    AuditEvent,
    ChatMessage,
    ChatSession,
    DeletionReceipt,
    ModelCall,
    SessionTombstone,
)
from chat.retention import copies, exports, places, receipts, removals
from chat.retention.notes import Actor, note
from chat.retention.places import SESSION_PLACES
from chat.retention.preferences import drop_preference
from chat.retention.receipts import Gone, Kind, Subject, gone
from memory.models import UserPreference


def forget_session(
    session_id: uuid.UUID,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
    by: str = "",
    only_if: Q | None = None,
) -> DeletionReceipt:
    """Delete a session for good; `leases.Gone` when there is none, or none as `only_if` says.

    Preferences that came from it stay; where they came from, and the words, leave. What was only
    proposed goes. The receipt is complete once everything outside of the tables is gone too.
    """
    acts = Actor(actor, reason, ip, by)
    with transaction.atomic():
        taken, subject = erase(session_id, acts, only_if or Q())
        return receipts.write(subject, taken, acts)


def erase(session_id: uuid.UUID, by: Actor, only_if: Q) -> tuple[Gone, Subject]:
    """Delete a session in the caller's transaction: what went, and whose it was."""
    elsewhere = copies.from_session(session_id) & ~Q(chat_session=session_id)
    sent = copies.from_preferences(proposed_from(session_id))
    lock(session_id, only_if, copies.holders(elsewhere | sent))
    tenant_id, user_id = ChatSession.objects.values_list("tenant", "user").get(pk=session_id)
    taken = copies.empty_digest(session_id) + copies.drop(elsewhere)
    taken += leave_preferences(session_id, tenant_id, user_id) + outside_of_tables(session_id)
    taken += exports.drop_holding(tenant_id, session_id)
    places.loosen(ChatMessage.objects.filter(chat_session=session_id))
    # Calls to models are kept, without what they were for: they were paid.
    ModelCall.objects.filter(chat_session=session_id).update(chat_session=None)
    rows = places.empty(SESSION_PLACES, session_id)
    taken += Gone(rows, removals.of_index(rows)) + drop_reasons(session_id)
    SessionTombstone.objects.get_or_create(pk=session_id)
    note("session.delete", session_id, by)
    frame = {"type": "session.deleted", "session": str(session_id)}
    transaction.on_commit(partial(events.publish_from_thread, session_id, frame))
    return taken, Subject(Kind.SESSION, session_id, user_id, tenant_id)


def lock(session_id: uuid.UUID, only_if: Q, holders: set[uuid.UUID]) -> None:
    """Lock the row and take the session from whatever runs in it; lock those with copies too."""
    for each in sorted({session_id, *holders}):
        if each != session_id:
            copies.claim([each])
            continue
        rows = ChatSession.objects.filter(only_if, pk=session_id)
        if not rows.update(head=None, running_turn=None, lease_owner="", lease_expires_at=None):
            raise leases.Gone(f"Session {session_id} does not exist any more, or must be kept.")
    # An UPDATE on PostgreSQL still lets others insert rows that refer to this one; this does not.
    ChatSession.objects.select_for_update().filter(pk=session_id).values_list("pk").first()


def leave_preferences(session_id: uuid.UUID, tenant_id: int, user_id: int) -> Gone:
    """What is only proposed goes with what it was read from; the rest stays, without its source."""
    taken = Gone()
    for each in proposed_from(session_id):
        taken += drop_preference(tenant_id, user_id, each, offer_older=True)
    kept = UserPreference.objects.filter(source_session=session_id)
    quotes = kept.exclude(quote="").count()
    kept.update(source_session=None, source_seq=None, quote="")
    return taken + gone(quotes=quotes)


def proposed_from(session_id: uuid.UUID) -> list[int]:
    """Proposals that came from a session, the newest first."""
    proposed = UserPreference.objects.filter(
        source_session=session_id, status=UserPreference.Status.PROPOSED
    )
    return list(proposed.order_by("-pk").values_list("pk", flat=True))


def outside_of_tables(session_id: uuid.UUID) -> Gone:
    pending = removals.of_files(Attachment.objects.filter(chat_session=session_id))
    pending += removals.of_snapshot(session_id)
    if ChatSession.objects.filter(pk=session_id, is_temporary=True).exists():
        pending += (removals.of_temporary_text(session_id),)
    return Gone(pending=pending)


def drop_reasons(session_id: uuid.UUID) -> Gone:
    """Reasons are anybody's words: those of earlier events about the session leave."""
    events_about = AuditEvent.objects.filter(object_type="session", object_id=str(session_id))
    return gone(audit_reasons=events_about.exclude(reason="").update(reason=""))
