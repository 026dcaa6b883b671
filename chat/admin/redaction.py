"""Redacting one message: asked for on a page of its own, with a reason."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chat import leases, retention
from chat.access import address_of
from chat.admin import reasons
from chat.admin.lists import count_of
from chat.models import ChatMessage


def may_redact(request: HttpRequest) -> bool:
    return bool(request.user.is_staff and request.user.has_perm("chat.redact"))


def answers_to(message: ChatMessage) -> QuerySet[ChatMessage]:
    """What a person's message was answered with, calls of tools and their results included: all
    of it may repeat the words."""
    return ChatMessage.objects.filter(turn__input=message.pk, redacted_at=None)


class RedactPage(admin.ModelAdmin):
    """The address `<message>/redact/`, and the way to it on the message's own page."""

    def get_urls(self) -> list[Any]:
        page = path(
            "<path:object_id>/redact/",
            self.admin_site.admin_view(self.redact_view),
            name="chat_chatmessage_redact",
        )
        return [page, *super().get_urls()]

    def redact_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not may_redact(request):
            raise PermissionDenied("Redacting needs the permission chat.redact.")
        message = self.get_object(request, object_id)
        if message is None:
            raise Http404("There is no such message.")
        reason = reasons.given(request)
        if request.method == "POST" and reason:
            self.redact(request, message, reason, with_answers="answers" in request.POST)
            back = reverse("admin:chat_chatmessage_change", args=[message.pk])
            return HttpResponseRedirect(back)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Redact message {message.seq}",
            "message": message,
            "answers": answers_to(message).count(),
            "was_empty": request.method == "POST",
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/chat/chatmessage/redact.html", context)

    def redact(
        self, request: HttpRequest, message: ChatMessage, reason: str, *, with_answers: bool
    ) -> None:
        ids = [message.pk]
        if with_answers:
            ids += answers_to(message).values_list("pk", flat=True)
        try:
            count = retention.redact(
                message.chat_session_id,
                ids,
                actor=request.user,
                reason=reason,
                ip=address_of(request),
            )
        except (leases.Busy, leases.Gone) as error:
            self.message_user(request, str(error), messages.ERROR)
        else:
            self.message_user(request, f"Redacted: {count_of(count, 'message', 'messages')}.")

    @admin.display(description="redaction")
    def redaction(self, message: ChatMessage) -> SafeString | str:
        if message.redacted_at:
            return "The text was taken out, and so was every copy of it."
        url = reverse("admin:chat_chatmessage_redact", args=[message.pk])
        return format_html('<a href="{}">Redact this message…</a>', url)
