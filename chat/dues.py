"""What is due after a turn: marked in the transaction that makes it due, claimed by conditional
UPDATE, deleted when done.

A claim that is not given back within CHAT_FOLLOW_UP_SECONDS may be taken over. Times are the
database's. Everything here is synchronous.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from chat.models import FollowUp

Kind = FollowUp.Kind
FIRST_BACKOFF = 30.0  # seconds; doubles with every failure
LONGEST_BACKOFF = 3600.0
ERROR_LENGTH = 500


@dataclass(frozen=True)
class Claim:
    """A follow-up that this process may do now, and nobody else until the claim expires."""

    id: int
    kind: str
    subject: str
    session_id: uuid.UUID | None
    version: int
    attempts: int
    """Failures before this attempt."""
    token: str


def mark(kind: str, subject: str, session_id: uuid.UUID | None = None, delay: float = 0.0) -> None:
    """Make something due `delay` seconds from now; what is due already is due again.

    A failed follow-up keeps its backoff: only its `version` is raised.
    """
    if FollowUp.objects.filter(kind=kind, subject=subject).update(version=F("version") + 1):
        return
    FollowUp.objects.bulk_create(
        [FollowUp(kind=kind, subject=subject, chat_session_id=session_id, due_at=_later(delay))],
        ignore_conflicts=True,
    )


def mark_session(kind: str, session_id: uuid.UUID, delay: float = 0.0) -> None:
    mark(kind, str(session_id), session_id, delay)


def claim(limit: int) -> list[Claim]:
    """Claim at most `limit` follow-ups that are due, oldest first."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=Now())
    due = FollowUp.objects.filter(free, due_at__lte=Now()).order_by("due_at", "id")
    claims = []
    for row in list(due[:limit]):
        token = uuid.uuid4().hex
        taken = FollowUp.objects.filter(free, pk=row.pk, version=row.version).update(
            claimed_by=token, claimed_until=_later(settings.CHAT_FOLLOW_UP_SECONDS * 1.5)
        )
        if taken:
            claims.append(
                Claim(
                    row.pk,
                    row.kind,
                    row.subject,
                    row.chat_session_id,
                    row.version,
                    row.attempts,
                    token,
                )
            )
    return claims


def done(claim: Claim) -> None:
    """The work is done; what was made due again meanwhile stays due."""
    mine = FollowUp.objects.filter(pk=claim.id, claimed_by=claim.token)
    with transaction.atomic():
        if not mine.filter(version=claim.version).delete()[0]:
            mine.update(claimed_by="", claimed_until=None, attempts=0, last_error="", due_at=Now())


def failed(claim: Claim, error: str) -> float:
    """Try again later; the seconds until then. `error` is a code and a short text, no secrets."""
    wait = min(FIRST_BACKOFF * 2.0**claim.attempts, LONGEST_BACKOFF)
    FollowUp.objects.filter(pk=claim.id, claimed_by=claim.token).update(
        claimed_by="",
        claimed_until=None,
        attempts=claim.attempts + 1,
        last_error=error[:ERROR_LENGTH],
        due_at=_later(wait),
    )
    return wait


def _later(seconds: float) -> Combinable:
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=DateTimeField())
