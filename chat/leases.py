"""The lease of a session: the running turn's id, who runs it, and until when.

The one ordering rule: every transaction that writes about a session begins with an UPDATE of the
session's row. A turn's own writes say `running_turn = mine`; no row changed means that the turn
has lost the session and writes nothing more. Expiry is measured by the database's clock.

All functions here are synchronous; those that update belong inside the caller's transaction.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from chat import liveness, tallies
from chat.models import ChatSession, ChatTurn
from chat.search import messages


class Gone(Exception):
    """The session was deleted."""


class Lost(Exception):
    """The turn no longer holds its session: it must write nothing more."""


class Busy(Exception):
    """A turn is running."""

    def __init__(self, turn: uuid.UUID, owner: str) -> None:
        super().__init__(f"Turn {turn} is running in this session; stop it or wait for its end.")
        self.turn = turn
        self.owner = owner


@dataclass(frozen=True)
class Holder:
    """What the session's row says of its running turn."""

    turn: uuid.UUID
    owner: str
    is_expired: bool


def expiry() -> Combinable:
    """The end of a lease that is taken or renewed now."""
    return ExpressionWrapper(
        Now() + timedelta(seconds=settings.CHAT_LEASE_SECONDS), output_field=DateTimeField()
    )


def take(session_id: uuid.UUID, turn_id: uuid.UUID, **changes: Any) -> bool:
    """Make `turn_id` the running turn if none is; `changes` are written in the same UPDATE."""
    return bool(
        ChatSession.objects.filter(pk=session_id, running_turn=None).update(
            running_turn=turn_id,
            lease_owner=liveness.owner(),
            lease_expires_at=expiry(),
            last_active_at=Now(),
            **changes,
        )
    )


def hold(session_id: uuid.UUID, turn_id: uuid.UUID, **changes: Any) -> None:
    """Renew the lease of `turn_id`; `Lost` when it is no longer the running turn."""
    mine = ChatSession.objects.filter(pk=session_id, running_turn=turn_id)
    if not mine.update(lease_expires_at=expiry(), **changes):
        raise Lost(f"Turn {turn_id} no longer holds session {session_id}.")


def release(session_id: uuid.UUID, turn_id: uuid.UUID, **changes: Any) -> None:
    """End the lease of `turn_id`; `Lost` when it is no longer the running turn."""
    mine = ChatSession.objects.filter(pk=session_id, running_turn=turn_id)
    if not mine.update(
        running_turn=None, lease_owner="", lease_expires_at=None, last_active_at=Now(), **changes
    ):
        raise Lost(f"Turn {turn_id} no longer holds session {session_id}.")


def lock_idle(session_id: uuid.UUID, **changes: Any) -> None:
    """Lock the row of a session in which nothing runs; `Busy` or `Gone` otherwise."""
    idle = ChatSession.objects.filter(pk=session_id, running_turn=None)
    if idle.update(**{"last_active_at": F("last_active_at"), **changes}):
        return
    found = holder(session_id)
    if found is None:
        raise Gone(f"Session {session_id} does not exist any more.")
    raise Busy(found.turn, found.owner)


def holder(session_id: uuid.UUID) -> Holder | None:
    """Who holds the session; None when nobody does or the session is gone."""
    row = (
        ChatSession.objects.filter(pk=session_id)
        .annotate(is_expired=Q(lease_expires_at__lt=Now()))
        .values_list("running_turn", "lease_owner", "is_expired")
        .first()
    )
    if row is None:
        return None
    turn, owner, is_expired = row
    return Holder(turn, owner, is_expired) if turn is not None else None


def can_take_over(found: Holder) -> bool:
    """Whether the running turn's owner is known to be dead, or has let its lease expire."""
    return found.is_expired or liveness.owner_is_gone(found.owner)


def settle(session_id: uuid.UUID, found: Holder) -> bool:
    """End the turn of a dead owner as interrupted, its stored text kept; False if others did.

    Call it only for a holder that `can_take_over` allows.
    """
    with transaction.atomic():
        dead = ChatSession.objects.filter(
            pk=session_id, running_turn=found.turn, lease_owner=found.owner
        )
        if found.is_expired:
            dead = dead.filter(lease_expires_at__lt=Now())
        if not dead.update(running_turn=None, lease_owner="", lease_expires_at=None):
            return False
        running = ChatTurn.objects.filter(pk=found.turn, status=ChatTurn.Status.RUNNING)
        running.update(
            status=ChatTurn.Status.INTERRUPTED,
            error_code="interrupted",
            error_detail="The server that was answering went away.",
            finished_at=Now(),
        )
        tallies.recount(session_id)
        messages.index_answers(session_id, found.turn)
    return True


def quiesce(session_id: uuid.UUID, timeout: float = 20.0) -> None:
    """Ask a running turn to stop and wait for its end; `Busy` when it goes on all the same."""
    found = holder(session_id)
    if found is None:
        return
    request_stop(found.turn, None)
    found = wait_idle(session_id, timeout)
    if found is None:
        return
    if not can_take_over(found):
        raise Busy(found.turn, found.owner)
    settle(session_id, found)


def request_stop(turn_id: uuid.UUID, seen: int | None) -> bool:
    """Ask the owner of a running turn, in whichever process, to stop it."""
    running = ChatTurn.objects.filter(pk=turn_id, status=ChatTurn.Status.RUNNING)
    return bool(running.update(stop_requested=True, stop_seen=seen))


def wait_idle(session_id: uuid.UUID, timeout: float) -> Holder | None:
    """Poll until nothing runs or the holder can be taken over; who still holds it, if anybody.

    A holder that can be taken over is returned at once; so is one that is still there after
    `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while found := holder(session_id):
        if can_take_over(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
    return None
