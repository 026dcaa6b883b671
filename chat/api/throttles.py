"""How often one person may ask."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from chat.limits import CACHE_AWAY

logger = logging.getLogger(__name__)


class RequestThrottle(UserRateThrottle):
    """Every request of the API; while the cache is away nobody is held up."""

    scope = "requests"

    def get_rate(self) -> str:
        return f"{settings.CHAT_REQUESTS_PER_MINUTE}/minute"

    def allow_request(self, request: Request, view: Any) -> bool:
        try:
            return bool(super().allow_request(request, view))
        except CACHE_AWAY as error:
            logger.warning("Requests are not counted, the cache is away: %s", error)
            return True
