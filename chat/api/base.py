"""What every address of the API has in common."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.settings import APISettings
from rest_framework.views import APIView

from chat import access
from chat.models import ChatSession, Tenant


class ByAccept(DefaultContentNegotiation):
    """The Accept header says what the answer is made of; a `format` in the address is ignored."""

    no_override: Any = {"URL_FORMAT_OVERRIDE": None}
    settings: Any = APISettings(no_override)


class Endpoint(APIView):
    """An address of the API; everything with an owner is reached through `access`."""

    content_negotiation_class = ByAccept

    @property
    def person(self) -> Any:
        """Who asks; nobody comes this far without being signed in."""
        return self.request.user

    def finalize_response(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing that one person asked for stays in a cache on the way or in the browser."""
        response = super().finalize_response(*args, **kwargs)
        response.setdefault("Cache-Control", "no-store")
        return response

    def tenant(self) -> Tenant:
        return access.tenant_of(self.person, self.request.session)

    def chat_session(self, session_id: uuid.UUID) -> ChatSession:
        """The asker's own session, or `access.NotFound`."""
        return access.chat_session_for(self.person, session_id, self.request.session)

    def actor(self) -> dict[str, Any]:
        """Who acts, and from where, as `retention` records it."""
        return {"actor": self.person, "ip": access.address_of(self.request)}
