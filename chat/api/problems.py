"""Errors of the API: RFC 9457 problem documents with a stable `code`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions, status

from chat import access, hops, leases
from chat.temporary import TextsUnavailable
from chat.turns import Refused
from memory.preferences import InvalidPreference
from memory.text import clean

CONTENT_TYPE = "application/problem+json"
SHOWN_VALUE = 80  # characters of a refused value that are repeated to the sender
RETRY_SECONDS = {429: 60, 503: 1}  # by status: when to come back

REFUSED_STATUS = {  # turns.Refused; every other code is a conflict with what the session is now
    "broken_image": 422,
    "empty_file": 422,
    "empty_message": 400,
    "file_too_large": 413,
    "input_too_long": 422,
    "no_such_attachment": 404,
    "no_such_message": 404,
    "no_such_turn": 404,
    "overloaded": 503,
    "prompt_too_long": 422,
    "rate_limited": 429,
    "session_deleted": 404,
    "temporary_unavailable": 503,
    "too_many_pixels": 422,
    "unsupported_type": 415,
}


@dataclass(frozen=True)
class Problem:
    """One problem document: `status`, `code` and `detail`, and what else helps."""

    status: int
    code: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> HttpResponse:
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        # ASCII escapes: a repeated value may hold what UTF-8 cannot.
        return HttpResponse(
            json.dumps(body), content_type=CONTENT_TYPE, status=self.status, headers=self.headers
        )


# --- Errors of our own ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field: its name, its value as far as it is shown, what to do."""

    field: str
    value: str | None
    message: str
    code: str = "invalid"


class Invalid(exceptions.APIException):
    """The request says something that cannot be done; every field that is wrong is named."""

    status_code = status.HTTP_400_BAD_REQUEST
    default_code = "invalid"

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        lines = [f"{each.field}: {each.message}" for each in self.errors]
        super().__init__(" ".join(lines))


class TooLarge(exceptions.APIException):
    """A body that is longer than the server reads."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"


class Conflict(exceptions.APIException):
    """The request is fine, and what it is about is not in a state for it."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


class CsrfFailed(exceptions.PermissionDenied):
    """A request that changes something came without its CSRF token."""

    default_code = "csrf_failed"


def shown(value: Any) -> str | None:
    """A refused value as it is repeated to its sender: short, and clean enough for any encoding."""
    if value is None:
        return None
    text = clean(value if isinstance(value, str) else json.dumps(value, default=str))
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"


# --- From exceptions to problems ------------------------------------------------------------------


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """DRF's hook; None lets an error that nobody foresaw be raised, logged and answered as 500."""
    problem = problem_of(exc)
    return problem.response() if problem is not None else None


def problem_of(exc: Exception) -> Problem | None:
    if isinstance(exc, exceptions.APIException):
        return of_api_exception(exc)
    if isinstance(exc, Refused):
        return of_refused(exc)
    if isinstance(exc, leases.Busy):
        return Problem(409, "turn_in_progress", str(exc), {"turn": str(exc.turn)})
    if isinstance(exc, leases.Gone):
        return of_not_found(access.NotFound("session"))
    if isinstance(exc, access.NotFound):
        return of_not_found(exc)
    if isinstance(exc, InvalidPreference):
        return of_api_exception(Invalid([FieldError(exc.field, None, str(exc))]))
    if isinstance(exc, hops.Overloaded):
        return of_refused(Refused("overloaded", str(exc)))
    if isinstance(exc, TextsUnavailable):
        return of_refused(Refused("temporary_unavailable", str(exc)))
    return of_django_exception(exc)


def of_refused(exc: Refused) -> Problem:
    status_code = REFUSED_STATUS.get(exc.code, 409)
    wait = RETRY_SECONDS.get(status_code)
    headers = {"Retry-After": str(wait)} if wait is not None else {}
    return Problem(status_code, exc.code, exc.detail, exc.more, headers)


def of_not_found(exc: access.NotFound) -> Problem:
    return Problem(404, "not_found", str(exc))


def of_django_exception(exc: Exception) -> Problem | None:
    if isinstance(exc, Http404):
        return Problem(404, "not_found", "There is nothing at this address.")
    if isinstance(exc, PermissionDenied):
        return Problem(403, "permission_denied", "You may not do this.")
    if isinstance(exc, RequestDataTooBig):
        return Problem(413, "too_large", f"The body is too large: {exc}")
    if isinstance(exc, SuspiciousOperation):
        return Problem(400, "bad_request", f"The request cannot be read: {exc}")
    return None


def of_api_exception(exc: exceptions.APIException) -> Problem:
    headers = {}
    if header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = header
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(round(wait))
    if isinstance(exc, Invalid):
        errors = [
            {"field": e.field, "value": e.value, "message": e.message, "code": e.code}
            for e in exc.errors
        ]
        return Problem(exc.status_code, "invalid", str(exc.detail), {"errors": errors}, headers)
    code = exc.get_codes()
    if not isinstance(code, str):  # a detail of several parts, as DRF's own ValidationError has
        code = exc.default_code
    return Problem(exc.status_code, code, detail_text(exc.detail), {}, headers)


def detail_text(detail: Any) -> str:
    if isinstance(detail, dict):
        return " ".join(f"{name}: {detail_text(value)}" for name, value in detail.items())
    if isinstance(detail, list):
        return " ".join(detail_text(each) for each in detail)
    return clean(str(detail))


def nothing_here(request: HttpRequest, path: str = "") -> HttpResponse:
    """Every address below the API that is none."""
    return Problem(
        404, "not_found", "There is nothing at this address; the API is described at /api/docs/."
    ).response()
