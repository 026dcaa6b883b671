"""Preferences across sessions: written by people, one active row per key, recalled as data.

Everything here takes the tenant and the user and filters by them in the query; an id of somebody
else raises UserPreference.DoesNotExist, as an unknown one does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.blocks import PreferenceText
from memory.models import PREFERENCE_TEXT_LENGTH, UserPreference
from memory.text import clean, folded_key, key_digest, normal_key

ALL = "all"
KEY_LENGTH = 100
SCOPE_LENGTH = 60
RECALLED = 50
"""At most so many preferences are looked at for one request."""

_ATTEMPTS = 3

Status = UserPreference.Status


@dataclass(frozen=True)
class Owner:
    """Whose preferences, and for which assistant (its slug)."""

    tenant_id: int
    user_id: int
    scope: str


class InvalidPreference(ValueError):
    """A key, text or scope that cannot be stored; `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} {problem}")


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
) -> UserPreference:
    """Store what `key` means now; the active row of that key is superseded in the same step.

    The same text again changes nothing and returns the row that says it.
    """
    values: dict[str, Any] = {
        "scope": _scope(scope),
        "key": _key(key),
        "text": _text(text),
        "origin": _origin(origin),
        "source_session_id": source_session,
        "source_seq": source_seq,
    }
    mine = _of(owner_tenant_id, user_id)

    def write() -> UserPreference:
        current = _active(mine, values["scope"], values["key"])
        same = current.filter(_not_expired()).first()
        if same is not None and same.text == values["text"]:
            return same
        old = _supersede(current)
        new = UserPreference.objects.create(tenant_id=owner_tenant_id, user_id=user_id, **values)
        UserPreference.objects.filter(pk__in=old).update(superseded_by=new)
        return new

    return _alone(user_id, write)


def active_for(owner: Owner) -> tuple[PreferenceText, ...]:
    """What is active for the owner, best first: the assistant's own before `all`, newest first.

    Where both have a key, the assistant's own counts.
    """
    rows = (
        _of(owner.tenant_id, owner.user_id)
        .filter(_not_expired(), scope__in={ALL, owner.scope}, is_current=True)
        .order_by("-id")[:RECALLED]
    )
    ranked = sorted(rows, key=lambda row: row.scope == ALL)
    by_key: dict[str, UserPreference] = {}
    for row in ranked:
        by_key.setdefault(row.key_digest, row)
    return tuple(
        PreferenceText(row.pk, row.key, row.text, row.scope, row.origin) for row in by_key.values()
    )


def listed(
    tenant_id: int,
    user_id: int,
    *,
    source_session: uuid.UUID | None = None,
    statuses: Collection[str] = (Status.ACTIVE, Status.DISABLED),
) -> QuerySet[UserPreference]:
    """The user's preferences, newest first; with `source_session` those that came from it."""
    rows = _of(tenant_id, user_id).filter(status__in=statuses).order_by("-id")
    return rows if source_session is None else rows.filter(source_session_id=source_session)


def edit(
    tenant_id: int, user_id: int, preference_id: int, text: str, *, origin: str = "user"
) -> UserPreference:
    """Change the text; the row is then what `origin` wrote."""
    values = {"text": _text(text), "origin": _origin(origin)}
    return _change(tenant_id, user_id, preference_id, values)


def disable(tenant_id: int, user_id: int, preference_id: int) -> UserPreference:
    """Keep the row and recall it no more."""
    values = {"status": Status.DISABLED, "is_current": None}
    return _change(tenant_id, user_id, preference_id, values)


def enable(tenant_id: int, user_id: int, preference_id: int) -> UserPreference:
    """Make the row active; another active row of its key is superseded in the same step."""
    mine = _of(tenant_id, user_id)

    def write() -> UserPreference:
        row = mine.get(pk=preference_id)
        others = _active(mine, row.scope, row.key).exclude(pk=row.pk)
        mine.filter(pk__in=_supersede(others)).update(superseded_by=row)
        values = {"status": Status.ACTIVE, "is_current": True, "superseded_by": None}
        return _change(tenant_id, user_id, preference_id, values)

    return _alone(user_id, write)


def delete(tenant_id: int, user_id: int, preference_id: int) -> int:
    """Delete the row and what it superseded, which nobody could find any more; how many went."""
    mine = _of(tenant_id, user_id)
    with transaction.atomic():
        row = mine.select_for_update().get(pk=preference_id)
        older = Q(scope=row.scope, key_digest=row.key_digest, status=Status.SUPERSEDED)
        return mine.filter(Q(pk=row.pk) | older).delete()[0]


def _of(tenant_id: int, user_id: int) -> QuerySet[UserPreference]:
    return UserPreference.objects.filter(tenant_id=tenant_id, user_id=user_id)


def _active(mine: QuerySet[UserPreference], scope: str, key: str) -> QuerySet[UserPreference]:
    return mine.filter(scope=scope, key_digest=key_digest(key), is_current=True)


def _not_expired() -> Q:
    return Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())


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
    mine = _of(tenant_id, user_id)
    mine.filter(pk=preference_id).update(updated_at=timezone.now(), **values)
    return mine.get(pk=preference_id)


def _alone(user_id: int, write: Callable[[], UserPreference]) -> UserPreference:
    """Run `write` in a transaction, one at a time for a user.

    A writer that does not wait (somebody who saves a row by hand) can still make the key active
    in between; the unique rule then refuses ours, and it is tried again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with transaction.atomic():
                _lock(user_id)
                return write()
        except IntegrityError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _lock(user_id: int) -> None:
    """Hold the user's row to the end of the transaction; foreign keys to it stay possible."""
    no_key = connection.features.has_select_for_no_key_update
    get_user_model()._default_manager.select_for_update(no_key=no_key).filter(pk=user_id).first()


def _key(key: str) -> str:
    found = normal_key(key)
    if not found:
        raise InvalidPreference("key", "is empty; give it a name, as in `language: English`")
    for form in (found, folded_key(found)):
        if len(form) > KEY_LENGTH:
            raise InvalidPreference(
                "key", f"has {len(form)} characters; at most {KEY_LENGTH} are allowed"
            )
    return found


def _text(text: str) -> str:
    found = clean(text).strip()
    if not found:
        raise InvalidPreference("text", "is empty; say what is to be remembered")
    if len(found) > PREFERENCE_TEXT_LENGTH:
        raise InvalidPreference(
            "text", f"has {len(found)} characters; at most {PREFERENCE_TEXT_LENGTH} are allowed"
        )
    return found


def _scope(scope: str) -> str:
    found = clean(scope).strip()
    if not 0 < len(found) <= SCOPE_LENGTH:
        raise InvalidPreference(
            "scope", f'is {found[:SCOPE_LENGTH]!r}; use "{ALL}" or the slug of an assistant'
        )
    return found


def _origin(origin: str) -> str:
    if origin not in UserPreference.Origin.values:
        raise InvalidPreference(
            "origin", f"is {origin!r}; use one of {', '.join(UserPreference.Origin.values)}"
        )
    return origin
