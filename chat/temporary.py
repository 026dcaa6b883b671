"""The text of temporary sessions: in the shared cache alone, for a time, and never in a table.

Their rows of sessions, turns and messages exist (for order, leases and idempotency) with empty
content. Whoever writes holds the session's lease, so one entry per session is enough.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from django.conf import settings
from django.core.cache import cache

from chat.limits import CACHE_AWAY
from chat.models import ChatMessage, ChatSession

logger = logging.getLogger(__name__)

T = TypeVar("T")
EXPIRED = "This text was temporary and is gone."


class TextsUnavailable(Exception):
    """The cache that holds the text of temporary sessions cannot be reached."""


def key_of(session_id: uuid.UUID) -> str:
    return f"chat:temporary:{session_id}"


def is_temporary(session_id: uuid.UUID) -> bool:
    return ChatSession.objects.filter(pk=session_id, is_temporary=True).exists()


def texts_of(session_id: uuid.UUID) -> dict[str, str]:
    """Message id -> text; empty when it has expired. `TextsUnavailable`."""
    return _ask(lambda: cache.get(key_of(session_id))) or {}


def keep(session_id: uuid.UUID, message_id: uuid.UUID, text: str) -> None:
    """Store one text, and all of the session's for CHAT_TEMPORARY_HOURS more."""
    texts = {**texts_of(session_id), str(message_id): text}
    lifetime = settings.CHAT_TEMPORARY_HOURS * 3600
    _ask(lambda: cache.set(key_of(session_id), texts, lifetime))


def drop(session_id: uuid.UUID, message_ids: Collection[uuid.UUID]) -> None:
    """Take the texts of some messages out, and keep the others for CHAT_TEMPORARY_HOURS more."""
    texts = texts_of(session_id)
    gone = {str(each) for each in message_ids}
    kept = {each: text for each, text in texts.items() if each not in gone}
    lifetime = settings.CHAT_TEMPORARY_HOURS * 3600
    if len(kept) < len(texts):
        _ask(lambda: cache.set(key_of(session_id), kept, lifetime))


def fill(messages: Iterable[ChatMessage]) -> None:
    """Give messages of temporary sessions their text, or say that it has expired."""
    empty = [message for message in messages if message.content == ""]
    if not empty:
        return
    sessions = {message.chat_session_id for message in empty}
    temporary = ChatSession.objects.filter(pk__in=sessions, is_temporary=True)
    for session_id in temporary.values_list("pk", flat=True):
        texts = texts_of(session_id)
        for message in empty:
            if message.chat_session_id == session_id:
                message.content = texts.get(str(message.pk), EXPIRED)


def _ask(call: Callable[[], T]) -> T:
    try:
        return call()
    except CACHE_AWAY as error:
        logger.warning("The text of temporary sessions cannot be reached: %s", error)
        raise TextsUnavailable(
            "The store of temporary conversations cannot be reached; try again in a moment."
        ) from error
