"""How often one person may ask."""

from __future__ import annotations

from django.conf import settings
from rest_framework.throttling import UserRateThrottle


class RequestThrottle(UserRateThrottle):
    """Every request of the API."""

    scope = "requests"

    def get_rate(self) -> str:
        return f"{settings.CHAT_REQUESTS_PER_MINUTE}/minute"
