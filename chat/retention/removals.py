"""What a deletion must still remove from another store, until it is done."""

from __future__ import annotations

import logging

from django.core.cache import cache

from chat.limits import CACHE_AWAY
from chat.models import PendingRemoval

logger = logging.getLogger(__name__)


def carry_out(pending: PendingRemoval) -> bool:
    """Remove one thing; what cannot be reached now stays listed for `retry`."""
    try:
        cache.delete(pending.name)
    except CACHE_AWAY as error:
        logger.warning("Cache key %s is still to be removed: %s", pending.name, error)
        pending.attempts += 1
        pending.last_error = str(error)[:500]
        pending.save(update_fields=["attempts", "last_error"])
        return False
    pending.delete()
    return True


def retry() -> tuple[int, int]:
    """Try everything that is still to be removed: how many went, how many stay."""
    done = [carry_out(pending) for pending in PendingRemoval.objects.order_by("pk")]
    return done.count(True), done.count(False)
