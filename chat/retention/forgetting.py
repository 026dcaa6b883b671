"""Clearing a session's memory: what was said stays on the page and reaches no model again."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from chat import events, leases
from chat.models import ChatSession, DeletionReceipt
from chat.retention import copies, receipts, removals
from chat.retention.notes import Actor, note, note_about
from chat.retention.preferences import drop_preference
from chat.retention.receipts import Gone, Kind, Subject, gone
from memory import digests, preferences, summaries
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
    unwanted = set(delete_preferences)
    refuse_unknown(session_id, unwanted)
    line, _ = clear(session_id, unwanted, Actor(actor, reason, ip), timeout)
    return Cleared(line, len(unwanted))


def clear(session_id: uuid.UUID, unwanted: set[int], by: Actor, timeout: float) -> tuple[int, Gone]:
    """Draw the line once nothing runs: where it is, and what went."""
    attempts = ATTEMPTS
    while True:
        leases.quiesce(session_id, timeout)
        attempts -= 1
        try:
            with transaction.atomic():
                return draw_line(session_id, unwanted, by)
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


def draw_line(session_id: uuid.UUID, unwanted: set[int], by: Actor) -> tuple[int, Gone]:
    copies.claim(copies.touched(session_id))
    leases.lock_idle(
        session_id,
        memory_starts_after=F("next_seq") - 1,
        memory_epoch=F("memory_epoch") + 1,
    )
    chat_session = ChatSession.objects.get(pk=session_id)
    taken = drop_memory(session_id)
    receipts.follow(taken.pending)
    delete_preferences_from(chat_session, unwanted, by)
    note("memory.clear", session_id, by)
    line = chat_session.memory_starts_after
    frame = {"type": "memory.cleared", "session": str(session_id), "memory_starts_after": line}
    transaction.on_commit(partial(events.publish_from_thread, session_id, frame))
    return line, taken


def drop_memory(session_id: uuid.UUID) -> Gone:
    """Drop the snapshot and the summaries of a session, and a digest that was made of them."""
    copies.drop_errors(Q(chat_session=session_id))
    snapshot, pending = removals.drop_snapshot(session_id)
    taken = gone(snapshots=snapshot, summaries=summaries.drop(session_id))
    return taken + Gone(pending=pending) + copies.empty_digest(session_id)


def delete_preferences_from(chat_session: ChatSession, unwanted: set[int], by: Actor) -> None:
    """Delete preferences with their source, and what they had replaced that came from it too, each
    with a receipt; what came from elsewhere is offered again."""
    owner = chat_session.tenant_id, chat_session.user_id
    wanted = preferences_from(chat_session).filter(pk__in=unwanted).values_list("pk", flat=True)
    ids = {older for each in wanted for older in preferences.with_superseded(*owner, each)}
    rows = UserPreference.objects.filter(pk__in=ids, source_session=chat_session).order_by("pk")
    for each in list(rows.values_list("pk", flat=True)):  # the oldest first
        taken = drop_preference(*owner, each, offer_older=True)
        subject = Subject(Kind.PREFERENCE, each, chat_session.user_id, chat_session.tenant_id)
        receipts.write(subject, taken, by)


# --- Everything that is remembered of a person ----------------------------------------------------


def forget_memory(
    tenant_id: int,
    user_id: int,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
    timeout: float = 20.0,
) -> DeletionReceipt:
    """Forget everything that is remembered of a person in a tenant; transcripts stay.

    The memory of each session is cleared, and preferences and the digest are deleted. As
    `clear_memory` it stops what runs, and raises `leases.Busy` when something keeps running; what
    it did until then is done.
    """
    acts = Actor(actor, reason, ip)
    taken = Gone()
    for session_id in list(with_memory(tenant_id, user_id)):
        try:
            taken += clear(session_id, set(), acts, timeout)[1]
        except leases.Gone:
            continue  # deleted meanwhile
    with transaction.atomic():
        rows = preferences.listed(tenant_id, user_id, statuses=UserPreference.Status.values)
        ids = list(rows.values_list("pk", flat=True))
        copies.claim(copies.holders(copies.from_preferences(ids)))
        for preference_id in ids:
            if rows.filter(pk=preference_id).exists():  # not gone with what superseded it
                taken += drop_preference(tenant_id, user_id, preference_id)
        taken += drop_digest(tenant_id, user_id)
        note_about("memory.forget", "user", str(user_id), acts)
        subject = Subject(Kind.MEMORY, user_id, user_id, tenant_id)
        return receipts.write(subject, taken, acts)


def forget_digest(
    tenant_id: int,
    user_id: int,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
) -> DeletionReceipt:
    """Delete the digest and what was sent of it; only summaries from now on make another."""
    acts = Actor(actor, reason, ip)
    with transaction.atomic():
        taken = drop_digest(tenant_id, user_id)
        note_about("digest.delete", "user", str(user_id), acts)
        subject = Subject(Kind.MEMORY, digest_id(tenant_id, user_id), user_id, tenant_id)
        return receipts.write(subject, taken, acts)


def digest_id(tenant_id: int, user_id: int) -> str:
    """By what a receipt names a digest: there is one for each person in a tenant."""
    return f"digest:{tenant_id}:{user_id}"


def drop_digest(tenant_id: int, user_id: int) -> Gone:
    """Its row first: whoever is writing a request with it ends before, and the copy is found."""
    deleted = digests.delete(tenant_id, user_id)
    blocks = copies.drop_digest_blocks(tenant_id, user_id)
    return gone(context_parts=blocks, digests=int(deleted))


def with_memory(tenant_id: int, user_id: int) -> QuerySet[ChatSession, uuid.UUID]:
    """Sessions of which a model could still be told something."""
    mine = ChatSession.objects.filter(tenant=tenant_id, user=user_id)
    told = Q(next_seq__gt=F("memory_starts_after") + 1)
    kept = Q(summaries__isnull=False) | Q(memory_snapshot__isnull=False)
    return mine.filter(told | kept).order_by("pk").distinct().values_list("pk", flat=True)
