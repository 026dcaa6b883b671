"""The rows of preferences: whose they are, which count, and changing them one writer at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.models import UserPreference
from memory.text import key_digest

T = TypeVar("T")

_ATTEMPTS = 3


def of(tenant_id: int, user_id: int) -> QuerySet[UserPreference]:
    return UserPreference.objects.filter(tenant_id=tenant_id, user_id=user_id)


def active(mine: QuerySet[UserPreference], scope: str, key: str) -> QuerySet[UserPreference]:
    return mine.filter(scope=scope, key_digest=key_digest(key), is_current=True)


def not_expired() -> Q:
    return Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())


def alone(user_id: int, write: Callable[[], T]) -> T:
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
