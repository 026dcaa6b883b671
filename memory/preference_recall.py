"""Which preferences a request is given, and which a person has."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.blocks import PreferenceText
from memory.models import UserPreference
from memory.preference_fields import ALL
from memory.preference_rows import not_expired, of
from memory.text import key_digest
from memory.words import question_tokens, tokens

LOOKED_AT = 200
"""So many of the newest preferences are ranked for one request."""
RECALLED = 50
"""At most so many of them are given to it."""

Status = UserPreference.Status


@dataclass(frozen=True)
class Owner:
    """Whose preferences, and for which assistant (its slug)."""

    tenant_id: int
    user_id: int
    scope: str


def active_for(owner: Owner, question: str = "") -> tuple[PreferenceText, ...]:
    """What is active for the owner, best first.

    What shares most words with the question comes first, then the assistant's own before `all`,
    then the newest. Where both have a key, the assistant's own counts.
    """
    scopes = {ALL, owner.scope}
    rows = of(owner.tenant_id, owner.user_id).filter(
        not_expired(), scope__in=scopes, is_current=True
    )
    # A database may compare without regard to case; scopes are compared as they are.
    found = [row for row in rows.order_by("-id")[:LOOKED_AT] if row.scope in scopes]
    by_key: dict[str, UserPreference] = {}
    for row in sorted(found, key=lambda row: row.scope == ALL):
        by_key.setdefault(row.key_digest, row)
    ranked = _ranked(by_key.values(), question)[:RECALLED]
    return tuple(PreferenceText(row.pk, row.key, row.text, row.scope, row.origin) for row in ranked)


def _ranked(rows: Iterable[UserPreference], question: str) -> list[UserPreference]:
    asked = set(question_tokens(question))

    def rank(row: UserPreference) -> tuple[int, bool, int]:
        shared = asked.intersection(tokens(f"{row.key} {row.text}")) if asked else ()
        return -len(shared), row.scope == ALL, -row.pk

    return sorted(rows, key=rank)


def hold(ids: Collection[int]) -> set[int]:
    """Which of these there are: nobody deletes them until the caller's transaction ends.

    So whoever deletes one finds the copies that this transaction makes. It hinders no other change.
    """
    rows = UserPreference.objects.filter(pk__in=ids)
    if connection.vendor == "sqlite":  # where nobody else is writing now
        return set(rows.values_list("pk", flat=True))
    lock = "FOR KEY SHARE" if connection.vendor == "postgresql" else "LOCK IN SHARE MODE"
    table = connection.ops.quote_name(UserPreference._meta.db_table)
    marks = ", ".join(["%s"] * len(ids))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table} WHERE id IN ({marks}) {lock}", list(ids))
        return {pk for (pk,) in cursor.fetchall()}


def used(ids: Iterable[int]) -> None:
    """These were part of a request just now.

    One that somebody is changing or deleting is let be: whoever deletes waits for records of
    requests, which the end of a turn has locked when it comes here.
    """
    features = connection.features
    rows = UserPreference.objects.select_for_update(
        skip_locked=features.has_select_for_update_skip_locked,
        no_key=features.has_select_for_no_key_update,
    )
    with transaction.atomic():
        free = list(rows.filter(pk__in=list(ids)).values_list("pk", flat=True))
        UserPreference.objects.filter(pk__in=free).update(last_used_at=timezone.now())


def listed(
    tenant_id: int,
    user_id: int,
    *,
    source_session: uuid.UUID | None = None,
    statuses: Collection[str] = (Status.ACTIVE, Status.PROPOSED, Status.DISABLED),
) -> QuerySet[UserPreference]:
    """The user's preferences, newest first; with `source_session` those that came from it.

    One that expired is still listed, so that it can be deleted; a proposal that expired is not.
    """
    rows = of(tenant_id, user_id).filter(status__in=statuses).order_by("-id")
    rows = rows.filter(not_expired() | ~Q(status=Status.PROPOSED))
    return rows if source_session is None else rows.filter(source_session_id=source_session)


def matching(owner: Owner, key: str) -> list[UserPreference]:
    """What is active for the owner under `key`: the assistant's own, and that for all."""
    scopes = {ALL, owner.scope}
    rows = of(owner.tenant_id, owner.user_id).filter(
        not_expired(), scope__in=scopes, key_digest=key_digest(key), is_current=True
    )
    return [row for row in rows.order_by("-id") if row.scope in scopes]
