"""Rows as the API shows them. Messages and turns look as they do on the websocket (chat.events)."""

from __future__ import annotations

from typing import Any

from chat.models import Assistant, ChatSession
from memory.models import UserPreference


def assistant_payload(assistant: Assistant) -> dict[str, Any]:
    return {
        "slug": assistant.slug,
        "name": assistant.name,
        "is_default": assistant.is_default,
    }


def session_payload(chat_session: ChatSession) -> dict[str, Any]:
    assistant = chat_session.assistant
    running = chat_session.running_turn
    return {
        "id": str(chat_session.pk),
        "title": chat_session.title,
        "title_source": chat_session.title_source,
        "assistant": {"slug": assistant.slug, "name": assistant.name},
        "is_pinned": chat_session.is_pinned,
        "is_archived": chat_session.is_archived,
        "is_temporary": chat_session.is_temporary,
        "memory_enabled": chat_session.memory_enabled,
        "max_messages": chat_session.max_messages,
        "max_tokens": chat_session.max_tokens,
        "memory_starts_after": chat_session.memory_starts_after,
        "message_count": chat_session.message_count,
        "running": str(running) if running is not None else None,
        "created_at": chat_session.created_at.isoformat(),
        "last_active_at": chat_session.last_active_at.isoformat(),
    }


def preference_payload(preference: UserPreference) -> dict[str, Any]:
    source = preference.source_session_id
    return {
        "id": preference.pk,
        "key": preference.key,
        "text": preference.text,
        "scope": preference.scope,
        "status": preference.status,
        "origin": preference.origin,
        "source_session": str(source) if source is not None else None,
        "source_seq": preference.source_seq,
        "created_at": preference.created_at.isoformat(),
        "updated_at": preference.updated_at.isoformat(),
    }
