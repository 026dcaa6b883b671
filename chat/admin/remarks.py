"""What reviewers say of a session or a turn: notes, scores, tags.

A remark is stored in one transaction that begins with an UPDATE of the session's row. Audit events
say that something was said, never what.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Now
from django.utils.text import slugify

from chat.access import is_allowed
from chat.admin import audit, reviews
from chat.models import ChatSession, ChatTurn, ReviewNote, ReviewScore, ReviewTag

SUBJECT = "session"  # of a score that is not a turn's


def may_score(user: Any) -> bool:
    return reviews.may_review(user) and is_allowed(user, "chat.add_reviewscore")


def may_tag(user: Any) -> bool:
    return reviews.may_review(user) and is_allowed(user, "chat.change_reviewtag")


@dataclass(frozen=True)
class Remark:
    """What is said at once, of a session or of one of its turns; empty parts say nothing."""

    turn: ChatTurn | None = None
    note: str = ""
    score_name: str = ""
    score: int | None = None
    new_tags: tuple[str, ...] = ()
    dropped_tags: tuple[int, ...] = ()


def say(request: Any, chat_session: ChatSession, remark: Remark) -> None:
    """Store a remark in one transaction; the speaker's own claim begins anew."""
    with transaction.atomic():
        _lock(chat_session.pk, request.user)
        if remark.note:
            _add_note(request, chat_session, remark)
        if remark.score is not None:
            _set_score(request, chat_session, remark, remark.score)
        if remark.new_tags or remark.dropped_tags:
            _change_tags(request, chat_session, remark)


def remove_note(request: Any, chat_session: ChatSession, note_id: int) -> bool:
    """Take back a note of one's own; False: there is no such note."""
    with transaction.atomic():
        _lock(chat_session.pk, request.user)
        mine = ReviewNote.objects.filter(pk=note_id, chat_session=chat_session, author=request.user)
        found, _ = mine.delete()
        if found:
            about = {"note": note_id}
            audit.note(request, "review.note_remove", "session", chat_session.pk, filter=about)
    return bool(found)


def _lock(session_id: uuid.UUID, user: Any) -> None:
    mine = Q(review_state=reviews.State.IN_REVIEW, review_claimed_by=user)
    claimed_at = Case(When(mine, then=Now()), default=F("review_claimed_at"))
    if not ChatSession.objects.filter(pk=session_id).update(review_claimed_at=claimed_at):
        raise reviews.Refused("The session was deleted meanwhile.")


def _add_note(request: Any, chat_session: ChatSession, remark: Remark) -> None:
    """The same words about the same by the same person are said once, however often sent."""
    there = ReviewNote.objects.filter(
        chat_session=chat_session, turn=remark.turn, author=request.user, text=remark.note
    )
    if there.exists():
        return
    made = ReviewNote.objects.create(
        chat_session=chat_session, turn=remark.turn, author=request.user, text=remark.note
    )
    _note(request, "review.note", chat_session, remark, note=made.pk)


def _set_score(request: Any, chat_session: ChatSession, remark: Remark, value: int) -> None:
    """One score per name, author and subject: giving it again replaces one's own."""
    ReviewScore.objects.update_or_create(
        chat_session=chat_session,
        subject=str(remark.turn.pk) if remark.turn else SUBJECT,
        name=remark.score_name,
        author=request.user,
        defaults={"value": value, "turn": remark.turn},
    )
    _note(request, "review.score", chat_session, remark, value=value)


def _change_tags(request: Any, chat_session: ChatSession, remark: Remark) -> None:
    added = [tag_named(chat_session.tenant_id, name) for name in remark.new_tags]
    dropped = chat_session.review_tags.filter(pk__in=remark.dropped_tags)
    dropped_ids = list(dropped.values_list("pk", flat=True))
    chat_session.review_tags.remove(*dropped_ids)
    chat_session.review_tags.add(*added)
    about = {"added": [tag.pk for tag in added], "removed": dropped_ids}
    _note(request, "review.tags", chat_session, remark, **about)


def _note(
    request: Any, action: str, chat_session: ChatSession, remark: Remark, **about: Any
) -> None:
    if remark.turn is not None:
        about["turn"] = str(remark.turn.pk)
    audit.note(request, action, "session", chat_session.pk, filter=about)


# --- Tags -----------------------------------------------------------------------------------------


def slug_of(name: str) -> str:
    """What makes two names the same tag; "" when nothing of the name can stand in a slug."""
    return slugify(name, allow_unicode=True)[:60].strip("-_")


def tag_named(tenant_id: int, name: str) -> ReviewTag:
    """The tenant's tag of that name, made if it is not there."""
    return ReviewTag.objects.get_or_create(
        tenant_id=tenant_id, slug=slug_of(name), defaults={"name": name}
    )[0]


def tag_all(request: Any, rows: QuerySet[ChatSession], name: str) -> int:
    """File sessions under a tag, each under its own tenant's of that name. One event for all."""
    ids = list(rows.order_by("pk").values_list("pk", flat=True))
    with transaction.atomic():
        there = ChatSession.objects.filter(pk__in=ids)
        changed = there.update(review_state=F("review_state"))  # locks the rows
        by_tenant: dict[int, list[ChatSession]] = defaultdict(list)
        for each in there.only("tenant"):
            by_tenant[each.tenant_id].append(each)
        tags = {tenant_id: tag_named(tenant_id, name) for tenant_id in sorted(by_tenant)}
        for tenant_id, tag in tags.items():
            tag.chat_sessions.add(*by_tenant[tenant_id])
        reviews.note_many(
            request, "review.tag", ids, changed, tags=[tag.pk for tag in tags.values()]
        )
    return changed
