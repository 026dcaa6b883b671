"""What the fields of a preference may hold: each is cleaned and checked at the door."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from memory.models import PREFERENCE_TEXT_LENGTH, UserPreference
from memory.text import clean, folded_key, is_blank, normal_key

ALL = "all"
KEY_LENGTH = 100
SCOPE_LENGTH = 60
QUOTE_LENGTH = 2_000


class InvalidPreference(ValueError):
    """A key, text, scope or other field that cannot be stored; `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} {problem}")


def checked_key(key: str) -> str:
    found = normal_key(key)
    if is_blank(found):
        raise InvalidPreference("key", "is empty; give it a name, as in `language: English`")
    for form in (found, folded_key(found)):
        if len(form) > KEY_LENGTH:
            raise InvalidPreference(
                "key", f"has {len(form)} characters; at most {KEY_LENGTH} are allowed"
            )
    return found


def checked_text(text: str) -> str:
    found = clean(text).strip()
    if is_blank(found):
        raise InvalidPreference("text", "is empty; say what is to be remembered")
    return _short_enough("text", found, PREFERENCE_TEXT_LENGTH)


def checked_quote(quote: str) -> str:
    return _short_enough("quote", clean(quote).strip(), QUOTE_LENGTH)


def _short_enough(field: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise InvalidPreference(field, f"has {len(text)} characters; at most {limit} are allowed")
    return text


def checked_scope(scope: str) -> str:
    found = clean(scope).strip()
    if not 0 < len(found) <= SCOPE_LENGTH:
        raise InvalidPreference(
            "scope", f'is {found[:SCOPE_LENGTH]!r}; use "{ALL}" or the slug of an assistant'
        )
    return found


def checked_origin(origin: str) -> str:
    if origin not in UserPreference.Origin.values:
        raise InvalidPreference(
            "origin", f"is {origin!r}; use one of {', '.join(UserPreference.Origin.values)}"
        )
    return origin


def checked_status(status: str) -> str:
    """What a new row may be: somebody must have switched it off, or another replaced it, later."""
    if status not in (UserPreference.Status.ACTIVE, UserPreference.Status.PROPOSED):
        raise InvalidPreference("status", f"is {status!r}; use active or proposed")
    return status


def checked_confidence(confidence: float | None) -> float | None:
    if confidence is not None and not 0 <= confidence <= 1:
        raise InvalidPreference("confidence", f"is {confidence}; use a number from 0 to 1")
    return confidence


def checked_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is None:
        return None
    if timezone.is_naive(expires_at):
        raise InvalidPreference("expires_at", f"is {expires_at}, without a time zone; add one")
    if expires_at <= timezone.now():
        raise InvalidPreference("expires_at", f"is {expires_at}, which is past; give a later time")
    return expires_at
