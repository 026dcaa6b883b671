"""What a deletion must still remove from another store, until it is done."""

from __future__ import annotations

import logging

from django.core.cache import cache
from django.core.files.storage import default_storage

from chat.limits import CACHE_AWAY
from chat.models import PendingRemoval

logger = logging.getLogger(__name__)


def carry_out(pending: PendingRemoval) -> bool:
    """Remove one thing; what cannot be reached now stays listed for `retry`."""
    try:
        remove(pending)
    except CACHE_AWAY as error:  # OSError among them: what a disk says
        kind = pending.get_kind_display()
        logger.warning("%s %s is still to be removed: %s", kind, pending.name, error)
        pending.attempts += 1
        pending.last_error = str(error)[:500]
        pending.save(update_fields=["attempts", "last_error"])
        return False
    pending.delete()
    return True


def remove(pending: PendingRemoval) -> None:
    """Remove it; what is not there is gone already."""
    if pending.kind == PendingRemoval.Kind.FILE:
        default_storage.delete(pending.name)
    elif pending.kind == PendingRemoval.Kind.CACHE:
        cache.delete(pending.name)
    else:
        raise ValueError(f"Removal {pending.pk} is of the kind {pending.kind!r}, unknown here.")


def retry() -> tuple[int, int]:
    """Try everything that is still to be removed: how many went, how many stay."""
    done = [carry_out(pending) for pending in PendingRemoval.objects.order_by("pk")]
    return done.count(True), done.count(False)
