"""Is there a preference that says it, and was it in the request: active, expired, forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone

from chat.inspection import reasons
from chat.inspection.finding import holds_words
from chat.models import ChatSession, ChatTurn
from memory import preferences
from memory.models import UserPreference
from memory.preferences import ALL

LOOKED_AT = 500  # preferences of one person, the newest ones
FEW = 10
LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)
Status = UserPreference.Status


@dataclass(frozen=True)
class Remembered:
    """A preference, and what became of it in a request."""

    row: UserPreference
    was_sent: bool
    why: str
    """Why it was not sent; "" when it was."""
    settings: tuple[str, ...] = ()


def that_say(
    chat_session: ChatSession, text: str, manifest: Mapping[str, Any], turn: ChatTurn
) -> list[Remembered]:
    """The person's preferences that hold `text` or most of its words, whatever their state."""
    mine = UserPreference.objects.filter(tenant=chat_session.tenant_id, user=chat_session.user_id)
    rows = mine.order_by("-id")[:LOOKED_AT]
    found = [
        row for row in rows if any(holds_words(f"{row.key} {part}", text) for part in _texts(row))
    ]
    return [_state(chat_session, row, manifest, turn) for row in found[:FEW]]


def _texts(row: UserPreference) -> tuple[str, ...]:
    return (row.text, row.quote) if row.quote else (row.text,)


def taken_from(
    chat_session: ChatSession, seq: int, manifest: Mapping[str, Any], turn: ChatTurn
) -> list[Remembered]:
    """The preferences that were taken from one message."""
    rows = UserPreference.objects.filter(
        tenant=chat_session.tenant_id,
        user=chat_session.user_id,
        source_session=chat_session,
        source_seq=seq,
    )
    return [_state(chat_session, row, manifest, turn) for row in rows.order_by("-id")[:FEW]]


def was_forgotten(chat_session: ChatSession, text: str, seq: int | None) -> bool:
    """Whether the person deleted a preference with this key, text or quote, or from this message.

    Only hashes are kept of those, so nothing but the exact words is found.
    """
    return preferences.is_forgotten(
        chat_session.tenant_id,
        chat_session.user_id,
        key=text,
        text=text,
        quote=text,
        source_session=chat_session.pk if seq is not None else None,
        source_seq=seq,
        said_at=LONG_AGO,
    )


def _state(
    chat_session: ChatSession, row: UserPreference, manifest: Mapping[str, Any], turn: ChatTurn
) -> Remembered:
    if row.pk in {each.get("id") for each in manifest.get("preferences") or ()}:
        return Remembered(row, was_sent=True, why="")
    for each in manifest.get("preferences_left_out") or ():
        if each.get("id") == row.pk:
            reason = reasons.of_preference(each.get("reason", ""))
            return Remembered(row, False, f"{reason.short}: {reason.why}", reason.settings)
    why, settings = _why_not(chat_session, row, manifest, turn)
    return Remembered(row, False, why, settings)


def _why_not(
    chat_session: ChatSession, row: UserPreference, manifest: Mapping[str, Any], turn: ChatTurn
) -> tuple[str, tuple[str, ...]]:
    policy = manifest.get("policy") or {}
    slug = chat_session.assistant.slug
    if row.status == Status.PROPOSED:
        return "It is only proposed: the person has not said yes to it.", ()
    if row.status == Status.DISABLED:
        return "It is disabled.", ()
    if row.status == Status.SUPERSEDED:
        return f"A newer one took its place{_by(row)}.", ()
    if row.expires_at is not None and row.expires_at <= timezone.now():
        return f"It expired on {row.expires_at:%Y-%m-%d}.", ()
    if row.scope not in (ALL, slug):
        return f"It is for the assistant {row.scope} alone, and this one is {slug}.", ()
    if policy.get("enabled") is False:
        return "Memory was off.", ("enabled",)
    if policy.get("use_preferences") is False:
        return "Preferences were off.", ("use_preferences",)
    if row.updated_at > turn.started_at:
        return "It was stored, or changed, after this turn.", ()
    if _is_hidden_by_own(row, slug):
        return f"The assistant {slug} has one of its own with the same key, and that counts.", ()
    return (
        f"Of the newest {preferences.LOOKED_AT} the {preferences.RECALLED} that fit the input best"
        " are taken, and this was not among them.",
        (),
    )


def _by(row: UserPreference) -> str:
    return f" (preference {row.superseded_by_id})" if row.superseded_by_id else ""


def _is_hidden_by_own(row: UserPreference, slug: str) -> bool:
    own = Q(tenant=row.tenant_id, user=row.user_id, scope=slug, key_digest=row.key_digest)
    return row.scope == ALL and UserPreference.objects.filter(own, is_current=True).exists()
