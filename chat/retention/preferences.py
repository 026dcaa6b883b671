"""Deleting and refusing preferences, with every copy of their words in what was sent to a model."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from chat.models import DeletionReceipt
from chat.retention import copies, receipts
from chat.retention.notes import Actor
from chat.retention.receipts import By, Gone, Kind, Subject, gone
from memory import preferences
from memory.models import UserPreference


def forget_preference(
    tenant_id: int,
    user_id: int,
    preference_id: int,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
    by: str = "",
    offer_older: bool = False,
) -> DeletionReceipt:
    """Delete a preference with what it superseded; without an actor its person is the one who acts.

    UserPreference.DoesNotExist for one that is unknown or somebody else's.
    """
    acts = Actor(actor, reason, ip, by or ("" if actor is not None else By.OWNER))
    with transaction.atomic():
        taken = drop_preference(tenant_id, user_id, preference_id, offer_older=offer_older)
        subject = Subject(Kind.PREFERENCE, preference_id, user_id, tenant_id)
        return receipts.write(subject, taken, acts)


def answer_preference(
    tenant_id: int, user_id: int, preference_id: int, keep: bool
) -> UserPreference | None:
    """Keep a proposal, or forget it: with what was sent of it, where it was active once.

    What was answered already stays as it is and is returned. UserPreference.DoesNotExist as above.
    """
    with transaction.atomic():
        ids = preferences.with_superseded(tenant_id, user_id, preference_id)
        source = copies.from_preferences(ids)
        copies.claim(copies.holders(source))
        kept = preferences.answer(tenant_id, user_id, preference_id, keep)
        if kept is None:
            receipts.follow(copies.drop(source).pending)
            copies.drop_keys(tenant_id, user_id, ids)
    return kept


def drop_preference(
    tenant_id: int, user_id: int, preference_id: int, *, offer_older: bool = False
) -> Gone:
    """As `forget_preference`, in the caller's transaction and without a receipt."""
    ids = preferences.with_superseded(tenant_id, user_id, preference_id)
    if offer_older:
        ids = [preference_id]
    source = copies.from_preferences(ids)
    copies.claim(copies.holders(source))
    count = preferences.delete(tenant_id, user_id, preference_id, offer_older=offer_older)
    taken = gone(preferences=count) + copies.drop(source)
    return taken + gone(manifests=copies.drop_keys(tenant_id, user_id, ids))
