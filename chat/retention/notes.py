"""What is kept of a deletion: who did it, to which session, and why. Never any text."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from chat.models import AuditEvent
from memory.text import clean

REASON_LENGTH = 500


@dataclass(frozen=True)
class Actor:
    """Who acts, why, and from which address; nobody is a command or the product itself.

    `by` is one of DeletionReceipt.By, where it cannot be told from the person.
    """

    person: Any = None
    reason: str = ""
    ip: str | None = None
    by: str = ""


def note(action: str, session_id: uuid.UUID, by: Actor) -> None:
    """Record an action on a session, in the transaction that does it."""
    note_about(action, "session", str(session_id), by)


def note_about(action: str, object_type: str, object_id: str, by: Actor, count: int = 1) -> None:
    AuditEvent.objects.create(
        actor=by.person,
        action=action,
        object_type=object_type,
        object_id=object_id,
        count=count,
        reason=clean(by.reason)[:REASON_LENGTH],
        ip=by.ip,
    )
