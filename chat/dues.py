"""What is due after a turn: marked in the transaction that makes it due, claimed by conditional
UPDATE, deleted when done.

A claim that is not given back within one and a half CHAT_FOLLOW_UP_SECONDS may be taken over: its
worker has died, which counts as a failed attempt. Times are the database's. One that lies further
ahead than any that is set here comes from a clock that was put back since, and holds nothing up.
Everything here is synchronous.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from chat.models import FollowUp
from memory.text import clean

Kind = FollowUp.Kind
FIRST_BACKOFF = 30.0  # seconds; doubles with every failure
LONGEST_BACKOFF = 86_400.0
CLOCK_SLACK = 3_600.0
"""Seconds that the clock may be put back, for which due work then waits."""
TRIES = 5  # to mark what others do at the same time
ERROR_LENGTH = 500
WORKER_LOST = "worker_lost: whoever was doing this died or hung."
ANEW = ":anew"  # ends the subject of a summary that is to be made from the history alone


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
    mark_kinds([kind], subject, session_id, delay)


def mark_session(kind: str, session_id: uuid.UUID, delay: float = 0.0) -> None:
    mark(kind, str(session_id), session_id, delay)


def mark_kinds(
    kinds: Iterable[str], subject: str, session_id: uuid.UUID | None = None, delay: float = 0.0
) -> None:
    """`mark` of several kinds at once, in two statements.

    Inserted first: a row that somebody inserts at the same time is then seen, and raised. One that
    was there and is gone at the second statement was done meanwhile, and is inserted again. One
    that MariaDB never inserts is about a session that is gone: there is nothing to do.
    """
    wanted = dict.fromkeys(kinds)
    marked = FollowUp.objects.filter(kind__in=list(wanted), subject=subject)
    for _ in range(TRIES):
        rows = [
            FollowUp(
                kind=kind,
                subject=subject,
                chat_session_id=session_id,
                due_at=_later(delay),
                version=0,
            )
            for kind in wanted
        ]
        FollowUp.objects.bulk_create(rows, ignore_conflicts=True)
        if marked.update(version=F("version") + 1) >= len(wanted):
            return


def once(kind: str, subject: str, delay: float) -> None:
    """Make something due `delay` seconds from now, unless it is; nobody waits for its row."""
    row = FollowUp(kind=kind, subject=subject, due_at=_later(delay))
    FollowUp.objects.bulk_create([row], ignore_conflicts=True)


def claim(limit: int, kinds: Collection[str] = Kind.values) -> list[Claim]:
    """Claim at most `limit` follow-ups of these kinds that are due, the longest waiting first."""
    hold = settings.CHAT_FOLLOW_UP_SECONDS * 1.5
    free = Q(claimed_until=None) | _outside("claimed_until", hold)
    due = FollowUp.objects.filter(free, _outside("due_at", LONGEST_BACKOFF), kind__in=kinds)
    claims = []
    for row in list(due.order_by("due_at", "id")[:limit]):
        token = uuid.uuid4().hex
        lost = {"attempts": row.attempts + 1, "last_error": WORKER_LOST} if row.claimed_by else {}
        taken = FollowUp.objects.filter(
            free, pk=row.pk, version=row.version, claimed_by=row.claimed_by
        ).update(claimed_by=token, claimed_until=_later(hold), **lost)
        if taken:
            attempts = row.attempts + bool(lost)
            session_id = row.chat_session_id
            claims.append(
                Claim(row.pk, row.kind, row.subject, session_id, row.version, attempts, token)
            )
    return claims


def done(claim: Claim) -> None:
    """The work is done; what was made due again meanwhile stays due."""
    with transaction.atomic():
        if not _mine(claim).filter(version=claim.version).delete()[0]:
            again(claim)


def again(claim: Claim) -> None:
    """A part of the work is done, and the rest is due at once."""
    _mine(claim).update(claimed_by="", claimed_until=None, attempts=0, last_error="", due_at=Now())


def give_back(claim: Claim) -> None:
    """Nothing was done: somebody else may do it at once, and no failure is counted."""
    _mine(claim).update(claimed_by="", claimed_until=None)


def failed(claim: Claim, error: str) -> float:
    """Try again later; the seconds until then. `error` is a code and a short text, no secrets."""
    wait = min(FIRST_BACKOFF * 2.0**claim.attempts, LONGEST_BACKOFF)
    _mine(claim).update(
        claimed_by="",
        claimed_until=None,
        attempts=claim.attempts + 1,
        last_error=clean(error)[:ERROR_LENGTH],
        due_at=_later(wait),
    )
    return wait


def try_now(ids: Collection[int]) -> int:
    """Take the backoff from these follow-ups; how many there were."""
    return FollowUp.objects.filter(pk__in=ids).update(due_at=Now())


def _mine(claim: Claim) -> QuerySet[FollowUp]:
    return FollowUp.objects.filter(pk=claim.id, claimed_by=claim.token)


def _outside(name: str, longest: float) -> Q:
    """A time that has passed, or lies more than `longest` seconds ahead, where none is set."""
    passed = Q(**{f"{name}__lte": Now()})
    return passed | Q(**{f"{name}__gt": _later(longest + CLOCK_SLACK)})


def _later(seconds: float) -> Combinable:
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=DateTimeField())
