"""The pages of people: the chat page, signing in and out."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from chat import access
from chat.attachments import MOST_PER_MESSAGE
from chat.models import Assistant, ChatSession


@require_safe
@never_cache
@login_required
def newest_chat(request: HttpRequest) -> HttpResponse:
    """The session with the newest activity, or an empty page to start one; nothing is created."""
    try:
        tenant = access.tenant_of(request.user, request.session)
    except access.NotFound:
        raise PermissionDenied(_("Your account belongs to no active tenant.")) from None
    sessions = access.chat_sessions_of(request.user, tenant).filter(is_archived=False)
    newest = sessions.select_related("assistant__endpoint").order_by("-last_active_at", "-pk")
    return _page(request, newest.first())


@require_safe
@never_cache
@login_required
def chat(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """One session; somebody else's and an unknown one are the same 404."""
    try:
        chat_session = access.chat_session_for(request.user, session_id, request.session)
    except access.NotFound:
        raise Http404(_("There is no such conversation.")) from None
    return _page(request, chat_session)


def _page(request: HttpRequest, chat_session: ChatSession | None) -> HttpResponse:
    tenant = access.tenant_of(request.user, request.session)
    assistants = list(access.assistants_for(tenant))
    chosen = chat_session.assistant if chat_session is not None else next(iter(assistants), None)
    demo = {each.slug for each in assistants if _is_demo(each)}
    if chosen is not None and _is_demo(chosen):
        demo.add(chosen.slug)
    context = {
        "chat_session": chat_session,
        "assistant": chosen,
        "demo_model": chosen is not None and _is_demo(chosen),
        "page_data": _page_data(request, chat_session, assistants, demo),
    }
    return render(request, "chat/chat.html", context)


def _page_data(
    request: HttpRequest,
    chat_session: ChatSession | None,
    assistants: list[Assistant],
    demo: set[str],
) -> dict[str, Any]:
    """What the page's script must know before it has asked for anything."""
    return {
        "session": str(chat_session.pk) if chat_session is not None else None,
        "user": str(request.user.pk),
        "username": request.user.get_username(),
        "assistants": [{"slug": each.slug, "name": each.name} for each in assistants],
        "demo_assistants": sorted(demo),
        "max_message_chars": settings.CHAT_MAX_MESSAGE_CHARS,
        "max_attachments": MOST_PER_MESSAGE,
        "max_attachment_bytes": settings.CHAT_MAX_ATTACHMENT_BYTES,
        "memory_available": settings.CHAT_MEMORY_ENABLED,
        "temporary_hours": settings.CHAT_TEMPORARY_HOURS,
    }


def _is_demo(assistant: Assistant) -> bool:
    """An endpoint without an address is this server's own scripted model."""
    return not assistant.endpoint.base_url
