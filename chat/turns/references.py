"""Passages for the input of a turn, found before its transaction begins: a source may take time."""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string

from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns import going_on
from chat.turns.inputs import NO_ID, WITH_TEXT
from chat.turns.orders import Order
from memory.references import Question, References, gather
from memory.text import clean


def look_up(order: Order) -> References:
    """What CHAT_REFERENCE_SOURCES give for an order; nothing when it names no session or turn."""
    if not settings.CHAT_REFERENCE_SOURCES:
        return References()
    chat_session = (
        ChatSession.objects.filter(pk=order.session_id)
        .select_related("assistant")
        .only("tenant_id", "user_id", "assistant__slug")
        .first()
    )
    text = _text(order)
    if chat_session is None or text is None:
        return References()
    return for_text(chat_session, text)


def for_input(chat_session: ChatSession, message: ChatMessage) -> References:
    return for_text(chat_session, going_on.question_of(message))


def for_text(chat_session: ChatSession, text: str) -> References:
    question = Question(
        text=text,
        assistant=chat_session.assistant.slug,
        tenant_id=chat_session.tenant_id,
        user_id=chat_session.user_id,
    )
    sources = {path: import_string(path) for path in settings.CHAT_REFERENCE_SOURCES}
    return gather(sources, question, settings.CHAT_REFERENCE_PASSAGES)


def _text(order: Order) -> str | None:
    if order.kind in WITH_TEXT:
        return clean(order.text)
    turn = (
        ChatTurn.objects.filter(chat_session=order.session_id, pk=order.turn or NO_ID)
        .select_related("input")
        .first()
    )
    if turn is None:
        return None
    return going_on.question_of(turn.input)
