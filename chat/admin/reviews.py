"""Reviews: the states of a session, and who has claimed it.

Every change is one short transaction that begins with an UPDATE of the session's row and leaves an
audit event. A state is changed only from what was seen: of two who claim one session, one wins.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from chat.access import is_allowed
from chat.admin import audit
from chat.models import ChatSession

State = ChatSession.ReviewState
MOVES: Mapping[str, tuple[str, ...]] = {
    State.NONE: (State.IN_REVIEW, State.QUEUED),
    State.QUEUED: (State.IN_REVIEW, State.NONE),
    State.IN_REVIEW: (State.REVIEWED, State.FLAGGED, State.QUEUED),
    State.REVIEWED: (State.IN_REVIEW, State.FLAGGED, State.QUEUED),
    State.FLAGGED: (State.RESOLVED, State.IN_REVIEW, State.QUEUED),
    State.RESOLVED: (State.IN_REVIEW, State.QUEUED),
}
LABELS = {
    State.NONE: "Take out of the queue",
    State.QUEUED: "Queue for review",
    State.IN_REVIEW: "Claim",
    State.REVIEWED: "Mark as reviewed",
    State.FLAGGED: "Flag",
    State.RESOLVED: "Resolve",
}
LABELS_OF_MOVES = {
    (State.IN_REVIEW, State.QUEUED): "Release",
    (State.IN_REVIEW, State.IN_REVIEW): "Take over",
    **{
        (former, State.IN_REVIEW): "Review again"
        for former in (State.REVIEWED, State.FLAGGED, State.RESOLVED)
    },
}
QUEUEABLE = tuple(
    state for state, to in MOVES.items() if State.QUEUED in to and state != State.IN_REVIEW
)
BATCH = 20  # queued sessions that are tried before looking again


class Refused(Exception):
    """The review's state does not allow it, or has changed meanwhile; nothing was written."""


def may_review(user: Any) -> bool:
    return is_allowed(user, "chat.add_reviewnote")


# --- States and claims ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """The state of a session's review, and who has claimed it since when."""

    state: str
    claimed_by: int | None
    claimed_at: datetime | None
    is_stale: bool

    def is_held_against(self, user: Any) -> bool:
        """Whether somebody else has a claim that has not grown stale."""
        return (
            self.state == State.IN_REVIEW
            and self.claimed_by not in (None, user.pk)
            and not self.is_stale
        )

    def is_taken_over(self, user: Any) -> bool:
        """Whether a claim of `user` would end the stale claim of somebody else."""
        return self.claimed_by not in (None, user.pk)

    def is_mine(self, user: Any) -> bool:
        return self.state == State.IN_REVIEW and self.claimed_by == user.pk

    def moves(self, user: Any) -> Iterator[tuple[str, str]]:
        """The states that `user` may bring it to, each with the word for doing so."""
        if self.is_held_against(user):
            return
        if self.state == State.IN_REVIEW and not self.is_mine(user):
            yield State.IN_REVIEW, LABELS_OF_MOVES[State.IN_REVIEW, State.IN_REVIEW]
            return
        for to in MOVES[self.state]:
            yield to, LABELS_OF_MOVES.get((State(self.state), State(to)), LABELS[State(to)])


def standing(session_id: uuid.UUID) -> Standing | None:
    """As the database's clock has it; None: there is no such session."""
    names = ("review_state", "review_claimed_by", "review_claimed_at")
    rows = ChatSession.objects.filter(pk=session_id).only(*names)
    row = with_staleness(rows).first()
    if row is None:
        return None
    is_stale = bool(row.is_stale)  # type: ignore[attr-defined]  # annotated
    return Standing(row.review_state, row.review_claimed_by_id, row.review_claimed_at, is_stale)


def with_staleness(rows: QuerySet[ChatSession]) -> QuerySet[ChatSession]:
    """Adds `is_stale`: the claim is older than CHAT_REVIEW_CLAIM_HOURS."""
    return rows.annotate(is_stale=_has_grown_stale())


def _has_grown_stale() -> Q:
    return Q(review_claimed_at__lt=Now() - timedelta(hours=settings.CHAT_REVIEW_CLAIM_HOURS))


def move(request: Any, session_id: uuid.UUID, to: str) -> None:
    """Bring the review to the state `to`; into review means: claimed by who asks."""
    seen = standing(session_id)
    if seen is None:
        raise Refused("The session was deleted meanwhile.")
    if to not in dict(seen.moves(request.user)):
        raise Refused(_why_not(seen, to, request.user))
    claims = to == State.IN_REVIEW
    unchanged = ChatSession.objects.filter(
        pk=session_id, review_state=seen.state, review_claimed_by=seen.claimed_by
    )
    if seen.is_taken_over(request.user):
        unchanged = unchanged.filter(_has_grown_stale())
    with transaction.atomic():
        if not unchanged.update(
            review_state=to,
            review_claimed_by=request.user if claims else None,
            review_claimed_at=Now() if claims else None,
        ):
            raise Refused("Somebody else changed this review at the same moment.")
        about = {"from": str(seen.state), "to": str(to)}
        if seen.is_taken_over(request.user):
            about["taken_from"] = str(seen.claimed_by)
        audit.note(request, "review.state", "session", session_id, filter=about)


def _why_not(seen: Standing, to: str, user: Any) -> str:
    if seen.is_held_against(user):
        return "Somebody else is reviewing this session."
    if to not in State.values:
        return f"{to[:40]!r} is no state of a review; the states are {', '.join(State.values)}."
    return f"A review that is {seen.state} cannot become {to}."


def claim_next(request: Any, rows: QuerySet[ChatSession]) -> uuid.UUID | None:
    """Claim the oldest queued session of `rows` that nobody else gets first; None: none is left."""
    while waiting := list(oldest_first(rows).values_list("pk", flat=True)[:BATCH]):
        for session_id in waiting:
            try:
                move(request, session_id, State.IN_REVIEW)
            except Refused:
                continue  # somebody else got it: the next one, then
            return session_id
    return None


def newest_claim(user: Any, rows: QuerySet[ChatSession]) -> uuid.UUID | None:
    """What `user` claimed last and is still at."""
    mine = rows.filter(review_state=State.IN_REVIEW, review_claimed_by=user.pk)
    return mine.order_by("-review_claimed_at").values_list("pk", flat=True).first()


def oldest_first(rows: QuerySet[ChatSession]) -> QuerySet[ChatSession]:
    return rows.filter(review_state=State.QUEUED).order_by("created_at", "pk")


def queue_all(request: Any, rows: QuerySet[ChatSession]) -> int:
    """Queue what may be queued; a review that somebody is at goes on. One event for all."""
    ids = list(rows.filter(review_state__in=QUEUEABLE).order_by("pk").values_list("pk", flat=True))
    if not ids:
        return 0
    with transaction.atomic():
        changed = ChatSession.objects.filter(pk__in=ids, review_state__in=QUEUEABLE).update(
            review_state=State.QUEUED, review_claimed_by=None, review_claimed_at=None
        )
        note_many(request, "review.queue", ids, changed)
    return changed


def note_many(request: Any, action: str, ids: Sequence[Any], count: int, **about: Any) -> None:
    """One event for what was done to many sessions; it lists their ids."""
    only = ids[0] if len(ids) == 1 else ""
    about["sessions"] = [str(each) for each in ids]
    audit.note(request, action, "session", only, count=count, filter=about)
