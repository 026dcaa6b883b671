"""Rows as the API shows them. Messages and turns look as they do on the websocket (chat.events)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from chat.models import Assistant, ChatSession, DeletionReceipt
from memory.models import UserDigest, UserPreference


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
    session, seq = preference.source_session_id, preference.source_seq
    return {
        "id": preference.pk,
        "key": preference.key,
        "text": preference.text,
        "scope": preference.scope,
        "status": preference.status,
        "origin": preference.origin,
        "quote": preference.quote,
        "source": {"session": str(session), "seq": seq} if session is not None else None,
        "confidence": preference.confidence,
        "expires_at": moment(preference.expires_at),
        "last_used_at": moment(preference.last_used_at),
        "superseded_by": preference.superseded_by_id,
        "created_at": preference.created_at.isoformat(),
        "updated_at": preference.updated_at.isoformat(),
    }


def digest_payload(digest: UserDigest) -> dict[str, Any]:
    return {
        "id": digest.pk,
        "text": digest.text,
        "is_enabled": digest.is_enabled,
        "origin": digest.origin,
        "sources": len(digest.sources),
        "updated_at": digest.updated_at.isoformat(),
    }


def receipt_payload(receipt: DeletionReceipt) -> dict[str, Any]:
    pending = len(receipt.pending_removals.all())  # a list may have fetched them
    return {
        "id": str(receipt.pk),
        "kind": receipt.kind,
        "by": receipt.by,
        "counts": receipt.counts,
        "is_complete": not pending,
        "pending": pending,
        "verification": receipt.verification,
        "created_at": receipt.created_at.isoformat(),
    }


def moment(when: datetime | None) -> str | None:
    return when.isoformat() if when is not None else None
