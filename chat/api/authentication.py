"""Signing in to the API: the site's session cookie, with a CSRF token for every change."""

from __future__ import annotations

from typing import Any

from drf_spectacular.authentication import SessionScheme
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from chat.api.problems import CsrfFailed


class SessionAuthentication(authentication.SessionAuthentication):
    """Answers 401, not 403, to who is not signed in, and names a missing CSRF token as such."""

    def authenticate_header(self, request: Request) -> str:
        return 'Session realm="api"'

    def enforce_csrf(self, request: Any) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as denied:
            why = str(denied.detail).rstrip(".")
            raise CsrfFailed(
                f"{why}. Send the value of the csrftoken cookie as X-CSRFToken."
            ) from None


class SessionAuthenticationScheme(SessionScheme):
    target_class = "chat.api.authentication.SessionAuthentication"
