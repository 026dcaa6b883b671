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
    """Who acts, why, and from which address; nobody is a command or the product itself."""

    person: Any = None
    reason: str = ""
    ip: str | None = None


def note(action: str, session_id: uuid.UUID, by: Actor) -> None:
    """Record an action on a session, in the transaction that does it."""
    AuditEvent.objects.create(
        actor=by.person,
        action=action,
        object_type="session",
        object_id=str(session_id),
        reason=clean(by.reason)[:REASON_LENGTH],
        ip=by.ip,
    )
