"""Clearing a session's memory: what was said stays on the page and reaches no model again."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from chat import events, leases
from chat.models import ChatSession
from chat.retention import copies, receipts, removals
from chat.retention.notes import Actor, note
from chat.retention.preferences import drop_preference
from chat.retention.receipts import Gone, gone
from memory import preferences, summaries
from memory.models import UserPreference

ATTEMPTS = 3  # somebody may start a turn between the end of one and our transaction


@dataclass(frozen=True)
class Cleared:
    """The new forget line, and how many preferences went with what came before it."""

    memory_starts_after: int
    preferences: int


class UnknownPreferences(Exception):
    """Preferences that did not come from this session, or are gone."""

    def __init__(self, ids: Collection[int]) -> None:
        names = ", ".join(str(each) for each in sorted(ids))
        super().__init__(f"No preference of this session has the id {names}; look at them again.")
        self.ids = sorted(ids)


def preferences_from(chat_session: ChatSession) -> QuerySet[UserPreference]:
    """The preferences of the session's holder that came from this session, newest first."""
    return preferences.listed(
        chat_session.tenant_id, chat_session.user_id, source_session=chat_session.pk
    )


def clear_memory(
    session_id: uuid.UUID,
    *,
    actor: Any = None,
    delete_preferences: Collection[int] = (),
    reason: str = "",
    ip: str | None = None,
    timeout: float = 20.0,
) -> Cleared:
    """Draw the forget line after the newest message, and drop what memory holds before it.

    A running turn is stopped first and its end is awaited, up to `timeout` seconds a time;
    `leases.Busy` when turns keep running, `leases.Gone` when there is no such session,
    `UnknownPreferences` when one of `delete_preferences` did not come from it.
    """
    refuse_unknown(session_id, set(delete_preferences))
    attempts = ATTEMPTS
    while True:
        leases.quiesce(session_id, timeout)
        attempts -= 1
        try:
            with transaction.atomic():
                return draw_line(session_id, set(delete_preferences), Actor(actor, reason, ip))
        except leases.Busy:
            if not attempts:
                raise


def refuse_unknown(session_id: uuid.UUID, wanted: set[int]) -> None:
    chat_session = ChatSession.objects.filter(pk=session_id).first()
    if chat_session is None:
        raise leases.Gone(f"Session {session_id} does not exist.")
    known = preferences_from(chat_session).filter(pk__in=wanted).values_list("pk", flat=True)
    if unknown := wanted - set(known):
        raise UnknownPreferences(unknown)


def draw_line(session_id: uuid.UUID, unwanted: set[int], by: Actor) -> Cleared:
    leases.lock_idle(
        session_id,
        memory_starts_after=F("next_seq") - 1,
        memory_epoch=F("memory_epoch") + 1,
    )
    chat_session = ChatSession.objects.get(pk=session_id)
    taken = drop_memory(session_id) + delete_preferences_from(chat_session, unwanted)
    receipts.follow(taken.pending)
    note("memory.clear", session_id, by)
    line = chat_session.memory_starts_after
    frame = {"type": "memory.cleared", "session": str(session_id), "memory_starts_after": line}
    transaction.on_commit(partial(events.publish_from_thread, session_id, frame))
    return Cleared(line, len(unwanted))


def drop_memory(session_id: uuid.UUID) -> Gone:
    """Drop the snapshot and the summaries of a session, and a digest that was made of them."""
    snapshot, pending = removals.drop_snapshot(session_id)
    taken = gone(snapshots=snapshot, summaries=summaries.drop(session_id))
    return taken + Gone(pending=pending) + copies.empty_digest(session_id)


def delete_preferences_from(chat_session: ChatSession, unwanted: set[int]) -> Gone:
    """Delete preferences with their source; what they had replaced is offered again."""
    found = preferences_from(chat_session).filter(pk__in=unwanted).values_list("pk", flat=True)
    owner = chat_session.tenant_id, chat_session.user_id
    taken = [drop_preference(*owner, each, offer_older=True) for each in list(found)]
    return sum(taken, Gone())
