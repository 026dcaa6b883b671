"""Messages: read-only; each opening of a text is recorded."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce, Substr
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from chat import rendering
from chat.access import may_read_content
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, excerpt, id_link, short
from chat.admin.lists import by_id
from chat.admin.redaction import RedactPage, may_redact
from chat.admin.requests import pretty
from chat.admin.sessions import session_link, transcript_link
from chat.models import ChatMessage

EXCERPT = 240
ONE_SESSION = "chat_session__id__exact"
TEXTS = ("content", "parts", "tool_calls")
ROLE_BADGES = {"assistant": "good", "tool": "warning"}


@admin.register(ChatMessage)
class ChatMessageAdmin(RedactPage, RecordedReads, ReadOnly, ChatAdmin):
    object_type = "message"
    list_shows_text = True
    list_display = [
        "id_column",
        "session_column",
        "seq",
        "role_column",
        "excerpt_column",
        "token_count",
        "created_at",
    ]
    ordering = ["-chat_session__last_active_at", "-chat_session_id", "seq"]
    allowed_lookups = [ONE_SESSION, "turn__id__exact"]
    search_help_text = "An exact id of a message, a session or a turn."
    content_fields = ["excerpt_column", "rendered", "source", "calls", *TEXTS]
    fieldsets = [
        (None, {"fields": ["role_column", "rendered", "source", "calls"]}),
        (
            "Where it stands",
            {"fields": [("session_column", "seq_column"), ("turn", "parent"), "is_on_path"]},
        ),
        (
            "Facts",
            {
                "fields": [
                    ("token_count", "token_encoding"),
                    ("created_at", "redacted_at"),
                    "is_partial",
                    ("name", "tool_call_id"),
                    "id",
                ]
            },
        ),
    ]
    readonly_fields = [
        "role_column",
        "rendered",
        "source",
        "calls",
        "session_column",
        "seq_column",
        "redaction",
    ]

    class Media:
        css = {"all": ["admin_chat/conversation.css", "chat/highlight.css"]}

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The way to redact it stands last, for those who may."""
        fieldsets = super().get_fieldsets(request, obj)
        if not may_redact(request):
            return fieldsets
        return [*fieldsets, ("Redaction", {"fields": ["redaction"]})]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatMessage]:
        """Lists read the beginning of a text only; the page of one message reads it whole."""
        rows = super().get_queryset(request)
        if not may_read_content(request.user):
            return rows.defer(*TEXTS)
        beginning = Substr(Coalesce("content", Value("")), 1, EXCERPT)
        return rows.defer(*TEXTS).annotate(beginning=beginning)

    def get_list_display(self, request: HttpRequest) -> Any:
        """A list holds texts of many sessions; where a reason is asked for, it is for one."""
        names = super().get_list_display(request)
        asks = settings.CHAT_READ_REASON_REQUIRED
        return [name for name in names if not (asks and name == "excerpt_column")]

    def get_list_filter(self, request: HttpRequest) -> Any:
        """Within one session; over all of them nothing but a full scan would find the rows."""
        return ["role", "is_partial"] if ONE_SESSION in request.GET else []

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ChatMessage, term, "chat_session", "turn")

    # --- Columns and fields -----------------------------------------------------------------------

    @admin.display(description="message")
    def id_column(self, message: ChatMessage) -> str:
        return short(message.pk)

    @admin.display(description="session")
    def session_column(self, message: ChatMessage) -> SafeString:
        return session_link(message.chat_session_id)

    @admin.display(description="place")
    def seq_column(self, message: ChatMessage) -> SafeString:
        where = f"message {message.seq} of the transcript"
        return transcript_link(message.chat_session_id, message.seq, where)

    @admin.display(description="role")
    def role_column(self, message: ChatMessage) -> SafeString:
        parts = [badge(message.role, ROLE_BADGES.get(message.role, "quiet"))]
        if message.is_partial:
            parts.append(badge("partial", "warning"))
        if not message.is_on_path:
            parts.append(badge("other branch"))
        if message.redacted_at:
            parts.append(badge("redacted", "bad"))
        return mark_safe(" ".join(parts))

    @admin.display(description="text")
    def excerpt_column(self, message: ChatMessage) -> SafeString:
        return excerpt(message.beginning)  # type: ignore[attr-defined]  # annotated above

    @admin.display(description="text")
    def rendered(self, message: ChatMessage) -> SafeString:
        text = message.content or ""
        is_answer = message.role == ChatMessage.Role.ASSISTANT
        html = rendering.render(text) if is_answer else rendering.render_plain(text)
        return format_html('<div class="message-text">{}</div>', mark_safe(html))

    @admin.display(description="source")
    def source(self, message: ChatMessage) -> SafeString:
        return source_block(message.content or "")

    @admin.display(description="tool calls")
    def calls(self, message: ChatMessage) -> SafeString:
        return source_block(pretty(message.tool_calls)) if message.tool_calls else mark_safe("–")


def source_block(text: str, label: str = "Source text") -> SafeString:
    """A text as it is stored, scrolled within its own frame."""
    return format_html(
        '<pre class="source" dir="auto" tabindex="0" role="region" aria-label="{}">{}</pre>',
        label,
        text,
    )


def message_link(message_id: Any) -> SafeString:
    return id_link("chat_chatmessage", message_id)
