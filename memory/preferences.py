"""Preferences across sessions: one active row per key, recalled as data, deleted for good.

Everything here takes the tenant and the user and filters by them in the query; an id of somebody
else raises UserPreference.DoesNotExist, as an unknown one does.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from memory import forgotten
from memory import preference_fields as fields
from memory.forgotten import is_forgotten
from memory.models import UserPreference
from memory.preference_fields import ALL, KEY_LENGTH, SCOPE_LENGTH, InvalidPreference
from memory.preference_recall import (
    LOOKED_AT,
    RECALLED,
    Owner,
    active_for,
    hold,
    listed,
    matching,
    used,
)
from memory.preference_rows import active, alone, not_expired, of
from memory.text import folded_key, key_digest

__all__ = [
    "ALL",
    "KEY_LENGTH",
    "LOOKED_AT",
    "RECALLED",
    "SCOPE_LENGTH",
    "InvalidPreference",
    "Owner",
    "active_for",
    "answer",
    "delete",
    "disable",
    "edit",
    "enable",
    "hold",
    "is_forgotten",
    "listed",
    "matching",
    "remember",
    "set_expiry",
    "used",
    "with_superseded",
]

Status = UserPreference.Status


# --- Remembering ----------------------------------------------------------------------------------


def remember(
    owner_tenant_id: int,
    user_id: int,
    scope: str,
    key: str,
    text: str,
    *,
    origin: str,
    source_session: uuid.UUID | None = None,
    source_seq: int | None = None,
    quote: str = "",
    confidence: float | None = None,
    expires_at: datetime | None = None,
    status: str = Status.ACTIVE,
    replaces: str | None = None,
) -> UserPreference:
    """Store what `key` means now, or propose it; several may be proposed for one key.

    An active one supersedes the active row of its key in the same step. `replaces` names the key
    of an active row that this says anew in other words: the new row takes that key. The same text
    again makes no second row: the row that says it is returned, made active if that was asked for.
    """
    values: dict[str, Any] = {
        "scope": fields.checked_scope(scope),
        "key": fields.checked_key(key),
        "text": fields.checked_text(text),
        "origin": fields.checked_origin(origin),
        "status": fields.checked_status(status),
        "quote": fields.checked_quote(quote),
        "confidence": fields.checked_confidence(confidence),
        "expires_at": fields.checked_expiry(expires_at),
        "source_session_id": source_session,
        "source_seq": source_seq,
    }
    mine = of(owner_tenant_id, user_id)

    def write() -> UserPreference:
        named = active(mine, values["scope"], replaces).first() if replaces else None
        if named is not None and not active(mine, values["scope"], values["key"]).exists():
            values["key"] = named.key
        if (same := _said_already(mine, values)) is not None:
            return _say_again(mine, same, values)
        new = UserPreference(tenant_id=owner_tenant_id, user_id=user_id, **values)
        if new.status == Status.PROPOSED:
            new.save(force_insert=True)
            return new
        current = active(mine, new.scope, new.key)
        old = _supersede(current | mine.filter(pk=named.pk) if named is not None else current)
        new.save(force_insert=True)
        mine.filter(pk__in=old).update(superseded_by=new)
        return new

    return alone(user_id, write)


def _said_already(mine: QuerySet[UserPreference], values: dict[str, Any]) -> UserPreference | None:
    """The row that says the same under the same key, whatever became of it but being replaced.

    An active row in other capitals is another text where somebody writes, not where one is
    proposed.
    """
    rows = mine.filter(not_expired(), scope=values["scope"], key_digest=key_digest(values["key"]))
    wanted = folded_key(values["text"])
    standing = rows.exclude(status=Status.SUPERSEDED).order_by("-id")
    for row in sorted(standing, key=lambda row: not row.is_current):
        is_exact = row.text == values["text"]
        may_differ = values["status"] == Status.PROPOSED or not row.is_current
        if is_exact or (may_differ and folded_key(row.text) == wanted):
            return row
    return None


def _say_again(
    mine: QuerySet[UserPreference], row: UserPreference, values: dict[str, Any]
) -> UserPreference:
    """What is said again lasts as long as the longer of both statements."""
    if row.expires_at is not None:
        until = values["expires_at"]
        row.expires_at = max(row.expires_at, until) if until is not None else None
        mine.filter(pk=row.pk).update(expires_at=row.expires_at)
    if values["status"] == Status.ACTIVE and not row.is_current:
        mine.filter(pk=row.pk).update(text=values["text"], origin=values["origin"])
        return _activate(mine, row)
    return row


def is_taken_from(
    tenant_id: int, user_id: int, key: str, source_session: uuid.UUID, source_seq: int
) -> bool:
    """Whether something was taken from this message under this key, in whatever words."""
    taken = of(tenant_id, user_id).filter(source_session=source_session, source_seq=source_seq)
    return taken.filter(key_digest=key_digest(key)).exists()


def is_switched_off(tenant_id: int, user_id: int, key: str, said_at: datetime | None) -> bool:
    """Whether what `key` means was disabled after this was said; None: nobody knows when it was."""
    off = of(tenant_id, user_id).filter(status=Status.DISABLED, key_digest=key_digest(key))
    return (off if said_at is None else off.filter(updated_at__gte=said_at)).exists()


def answer(tenant_id: int, user_id: int, preference_id: int, keep: bool) -> UserPreference | None:
    """Keep a proposal, which supersedes the active row of its key, or delete it for good, with what
    it had superseded in a time when it was active.

    What was answered already stays as it is and is returned.
    """
    mine = of(tenant_id, user_id)

    def write() -> UserPreference | None:
        row = mine.exclude(~not_expired(), status=Status.PROPOSED).get(pk=preference_id)
        if row.status != Status.PROPOSED:
            return row
        if keep:
            return _activate(mine, row)
        _delete(mine, with_superseded(tenant_id, user_id, preference_id))
        return None

    return alone(user_id, write)


# --- Changing -------------------------------------------------------------------------------------


def edit(
    tenant_id: int, user_id: int, preference_id: int, text: str, *, origin: str = "user"
) -> UserPreference:
    """Change the text; the row is then what `origin` wrote.

    Keyed hashes of the wording that goes stay, so that it is not taken from old messages again.
    """
    values = {"text": fields.checked_text(text), "origin": fields.checked_origin(origin)}
    mine = of(tenant_id, user_id)

    def write() -> UserPreference:
        forgotten.note_wording(mine.get(pk=preference_id), values["text"])
        return _change(tenant_id, user_id, preference_id, values)

    return alone(user_id, write)


def set_expiry(
    tenant_id: int, user_id: int, preference_id: int, expires_at: datetime | None
) -> UserPreference:
    """Let the row hold until a later time, also one that has expired; None: for good."""
    values = {"expires_at": fields.checked_expiry(expires_at)}
    return _change(tenant_id, user_id, preference_id, values)


def disable(tenant_id: int, user_id: int, preference_id: int) -> UserPreference:
    """Keep the row and recall it no more."""
    values = {"status": Status.DISABLED, "is_current": None}
    return _change(tenant_id, user_id, preference_id, values)


def enable(tenant_id: int, user_id: int, preference_id: int) -> UserPreference:
    """Make the row active; another active row of its key is superseded in the same step.

    One that has expired holds again, and for good: somebody wants it now.
    """
    mine = of(tenant_id, user_id)
    return alone(user_id, lambda: _activate(mine, mine.get(pk=preference_id)))


def _activate(mine: QuerySet[UserPreference], row: UserPreference) -> UserPreference:
    others = active(mine, row.scope, row.key).exclude(pk=row.pk)
    mine.filter(pk__in=_supersede(others)).update(superseded_by=row)
    values: dict[str, Any] = {"status": Status.ACTIVE, "is_current": True, "superseded_by": None}
    if row.expires_at is not None and row.expires_at <= timezone.now():
        values["expires_at"] = None
    return _change(row.tenant_id, row.user_id, row.pk, values)


def _supersede(rows: QuerySet[UserPreference]) -> list[int]:
    """Take `rows` out of use, and say which they were."""
    ids = list(rows.select_for_update().values_list("pk", flat=True))
    UserPreference.objects.filter(pk__in=ids).update(
        status=Status.SUPERSEDED, is_current=None, updated_at=timezone.now()
    )
    return ids


def _change(
    tenant_id: int, user_id: int, preference_id: int, values: dict[str, Any]
) -> UserPreference:
    mine = of(tenant_id, user_id)
    mine.filter(pk=preference_id).update(updated_at=timezone.now(), **values)
    return mine.get(pk=preference_id)


# --- Deleting -------------------------------------------------------------------------------------


def delete(tenant_id: int, user_id: int, preference_id: int, *, offer_older: bool = False) -> int:
    """Delete the row and what it superseded, which nobody could find any more; how many went.

    Keyed hashes of what went stay, so that it is not taken from old messages again. With
    `offer_older`, for a row that goes because its source goes, what it superseded is proposed; or
    is superseded by what had replaced the row, where something had.
    """
    mine = of(tenant_id, user_id)

    def write() -> int:
        gone = with_superseded(tenant_id, user_id, preference_id)
        if offer_older:
            gone = [preference_id]
            _offer_older(mine, mine.get(pk=preference_id))
        return _delete(mine, gone)

    return alone(user_id, write)


def _delete(mine: QuerySet[UserPreference], ids: Collection[int]) -> int:
    rows = mine.filter(pk__in=ids)
    forgotten.note(rows)
    return rows.delete()[0]


def _offer_older(mine: QuerySet[UserPreference], row: UserPreference) -> None:
    """Propose what `row` superseded, unless a newer one stands in its place all the same."""
    older = mine.filter(superseded_by=row)
    if row.status == Status.SUPERSEDED:
        older.update(superseded_by=row.superseded_by_id)
        return
    older.filter(not_expired()).update(
        status=Status.PROPOSED, superseded_by=None, updated_at=timezone.now()
    )


def with_superseded(tenant_id: int, user_id: int, preference_id: int) -> list[int]:
    """The ids of a preference and of everything that it superseded, directly or not."""
    mine = of(tenant_id, user_id)
    row = mine.get(pk=preference_id)
    found = {row.pk}
    if row.is_current:  # rows of its key whose successor is gone belong to it
        left = mine.filter(scope=row.scope, key_digest=row.key_digest, superseded_by=None)
        found.update(left.filter(status=Status.SUPERSEDED).values_list("pk", flat=True))
    newest = found
    while newest:
        older = mine.filter(superseded_by__in=newest).exclude(pk__in=found)
        newest = set(older.values_list("pk", flat=True))
        found |= newest
    return sorted(found)
