"""How often somebody may do something."""

from __future__ import annotations

import logging
import time

from django.core.cache import cache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

CACHE_AWAY = (RedisError, OSError)


class Bucket:
    """A token bucket: `per_minute` on average, all of them at once at most."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._level = float(per_minute)
        self._at = time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        refill = (now - self._at) * self.per_minute / 60
        self._level, self._at = min(self.per_minute, self._level + refill), now
        if self._level < 1:
            return False
        self._level -= 1
        return True


def count_in_minute(what: str, who: int | str) -> int:
    """How many times `who` did `what` in this minute, this time included; shared by the cache.

    While the cache is away nothing is counted and nobody is held up: 0.
    """
    key = f"limit:{what}:{who}:{int(time.time() // 60)}"
    try:
        cache.add(key, 0, timeout=120)
        return cache.incr(key)
    except CACHE_AWAY as error:
        logger.warning("%s of %s are not counted, the cache is away: %s", what, who, error)
        return 0
