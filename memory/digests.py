"""Digests: who a person is and what they are busy with, in a few lines, made from summaries.

What a person or staff wrote is never overwritten by a model. A deleted digest is a row without
text: only summaries made after that moment count for the next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from memory.blocks import DigestText
from memory.models import ConversationSummary, UserDigest
from memory.text import clean

LENGTH = 2_000  # characters
SOURCES = 10  # sessions, those with the newest summaries


class InvalidDigest(ValueError):
    """A text that cannot be stored; it says why."""


@dataclass(frozen=True)
class Source:
    """The newest summary of one session."""

    summary_id: int
    session_id: uuid.UUID
    text: str
    tokens: int


@dataclass(frozen=True)
class Plan:
    """What the next digest is made from; `revision` is the row's now, 0: there is none."""

    revision: int
    sources: tuple[Source, ...]


def of(tenant_id: int, user_id: int, *, hold: bool = False) -> DigestText | None:
    """The digest that opens a new conversation; None: there is none, or it is switched off.

    With `hold` nobody changes it until the caller's transaction ends.
    """
    rows = _of(tenant_id, user_id).filter(is_enabled=True).exclude(text="")
    row = (rows.select_for_update() if hold else rows).first()
    return DigestText(row.pk, row.text, tuple(row.sources)) if row is not None else None


def row_of(tenant_id: int, user_id: int) -> UserDigest | None:
    """The row, as its owner and staff see it; one that was deleted has no text."""
    return _of(tenant_id, user_id).first()


def plan(tenant_id: int, user_id: int) -> Plan | None:
    """What a model may make the next digest from; None: nothing is due.

    Nothing is due where a person wrote the text, where it is switched off, and where no summary is
    newer than it.
    """
    row = row_of(tenant_id, user_id)
    if row is not None and (row.origin != "model" or not row.is_enabled):
        return None
    summaries = _summaries(tenant_id, user_id)
    if row is not None and row.made_after is not None:
        summaries = summaries.filter(created_at__gt=row.made_after)
    sources = _newest(summaries)
    made_from_these = (
        row is not None
        and set(row.sources) == {str(each.session_id) for each in sources}
        and not summaries.filter(created_at__gt=row.updated_at).exists()
    )
    if not sources or made_from_these:
        return None
    return Plan(row.revision if row is not None else 0, sources)


def save(tenant_id: int, user_id: int, made_from: Plan, text: str) -> bool:
    """Store what a model made, in a transaction that has locked the sessions that it comes from.

    False, and nothing stored, when somebody else changed the digest meanwhile or one of the
    summaries is gone.
    """
    wanted = [each.summary_id for each in made_from.sources]
    if ConversationSummary.objects.filter(pk__in=wanted).count() != len(wanted):
        return False
    values = {
        "text": _text(text),
        "sources": [str(each.session_id) for each in made_from.sources],
        "origin": "model",
    }
    if made_from.revision:
        mine = _of(tenant_id, user_id).filter(revision=made_from.revision)
        return bool(mine.update(revision=F("revision") + 1, updated_at=timezone.now(), **values))
    try:
        with transaction.atomic():
            UserDigest.objects.create(tenant_id=tenant_id, user_id=user_id, **values)
    except IntegrityError:
        return False
    return True


def edit(tenant_id: int, user_id: int, text: str, *, origin: str = "user") -> UserDigest:
    """Write the text; from then on no model changes it. `InvalidDigest`."""
    values = {"text": _text(text), "origin": origin, "sources": []}
    return _write(tenant_id, user_id, values)


def set_enabled(tenant_id: int, user_id: int, enabled: bool) -> UserDigest | None:
    """Use the digest, or use it no more and let no model write it; None: there is none."""
    if row_of(tenant_id, user_id) is None:
        return None
    return _write(tenant_id, user_id, {"is_enabled": enabled})


def delete(tenant_id: int, user_id: int) -> bool:
    """Delete the text; only summaries made from now on count for another. False: there was none."""
    row = row_of(tenant_id, user_id)
    if row is None or not row.text:
        return False
    now = timezone.now()
    _write(
        tenant_id,
        user_id,
        {"text": "", "sources": [], "origin": "model", "made_after": now, "is_enabled": True},
    )
    return True


def forget_source(tenant_id: int, user_id: int, session_id: uuid.UUID) -> bool:
    """Empty a digest that a model made with words of this session; True: it is to be made anew."""
    row = row_of(tenant_id, user_id)
    if row is None or str(session_id) not in row.sources:
        return False
    _write(tenant_id, user_id, {"text": "", "sources": []})
    return True


def _write(tenant_id: int, user_id: int, values: Mapping[str, Any]) -> UserDigest:
    """Change the row, or make it; whoever read an older revision then writes no more."""
    with transaction.atomic():
        UserDigest.objects.get_or_create(tenant_id=tenant_id, user_id=user_id)
        mine = _of(tenant_id, user_id)
        mine.update(revision=F("revision") + 1, updated_at=timezone.now(), **values)
        return mine.get()


def _of(tenant_id: int, user_id: int) -> QuerySet[UserDigest]:
    return UserDigest.objects.filter(tenant_id=tenant_id, user_id=user_id)


def _summaries(tenant_id: int, user_id: int) -> QuerySet[ConversationSummary]:
    """Those of the person's sessions that still have their memory."""
    left_to_assistant = Q(
        chat_session__memory_enabled=None, chat_session__assistant__memory_enabled=True
    )
    return ConversationSummary.objects.filter(
        Q(chat_session__memory_enabled=True) | left_to_assistant,
        chat_session__tenant=tenant_id,
        chat_session__user=user_id,
        chat_session__is_temporary=False,
    )


def _newest(summaries: QuerySet[ConversationSummary]) -> tuple[Source, ...]:
    """The newest version of each of the sessions that were summarised last, newest first."""
    newest = summaries.order_by().values("chat_session").annotate(newest=Max("pk"))
    ids: list[int] = list(newest.order_by("-newest").values_list("newest", flat=True)[:SOURCES])
    rows = ConversationSummary.objects.filter(pk__in=ids).order_by("-pk")
    return tuple(Source(row.pk, row.chat_session_id, row.text, row.token_count) for row in rows)


def _text(text: str) -> str:
    found = clean(text).strip()
    if not found:
        raise InvalidDigest("The text is empty; delete the digest instead.")
    if len(found) > LENGTH:
        raise InvalidDigest(f"The text has {len(found)} characters; at most {LENGTH} are allowed.")
    return found
