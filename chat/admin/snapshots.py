"""Snapshots: the window that the last turn of a session left for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, short
from chat.admin.lists import by_id, count_of
from chat.admin.messages import source_block
from chat.admin.requests import REASONS, pretty
from chat.admin.sessions import session_link
from memory.models import MemorySnapshot

HEAVY = ("messages", "left_out")


@admin.register(MemorySnapshot)
class MemorySnapshotAdmin(RecordedReads, ReadOnly, ChatAdmin):
    object_type = "snapshot"
    list_display = [
        "id_column",
        "user_column",
        "state_column",
        "through_seq",
        "revision",
        "updated_at",
    ]
    list_select_related = ["chat_session__user"]
    ordering = ["-chat_session__last_active_at", "-pk"]
    search_help_text = "The exact id of a session."
    content_fields = ["messages", "messages_column"]
    fieldsets = [
        (None, {"fields": ["session_column", "state_column", "messages_column"]}),
        ("Left out of the window", {"fields": ["left_out_column"]}),
        (
            "Facts",
            {
                "fields": [
                    ("through_seq", "before_seq"),
                    ("memory_epoch", "revision", "format_version"),
                    "policy",
                    "updated_at",
                ]
            },
        ),
    ]
    readonly_fields = ["session_column", "state_column", "messages_column", "left_out_column"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemorySnapshot]:
        return super().get_queryset(request).defer(*HEAVY)

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(MemorySnapshot, term)

    @admin.display(description="session")
    def id_column(self, snapshot: MemorySnapshot) -> str:
        return short(snapshot.pk)

    @admin.display(description="session")
    def session_column(self, snapshot: MemorySnapshot) -> SafeString:
        return session_link(snapshot.pk)

    @admin.display(description="user")
    def user_column(self, snapshot: MemorySnapshot) -> str:
        return snapshot.chat_session.user.get_username()

    @admin.display(description="state")
    def state_column(self, snapshot: MemorySnapshot) -> SafeString:
        """What the next turn makes of it, as far as the session's row tells."""
        chat_session = snapshot.chat_session
        if snapshot.memory_epoch != chat_session.memory_epoch:
            return badge("of an earlier epoch: will be rebuilt", "warning")
        behind = chat_session.next_seq - 1 - snapshot.through_seq
        if behind > 0:
            return badge(f"{count_of(behind, 'message', 'messages')} behind")
        return badge("current", "good")

    @admin.display(description="messages")
    def messages_column(self, snapshot: MemorySnapshot) -> SafeString:
        rows = [_row(each) for each in snapshot.messages]
        return format_html('<ol class="snapshot">{}</ol>', format_html_join("", "{}", rows))

    @admin.display(description="ranges")
    def left_out_column(self, snapshot: MemorySnapshot) -> SafeString:
        rows = [
            (start, end, REASONS.get(reason, reason)) for start, end, reason in snapshot.left_out
        ]
        shown = format_html_join(mark_safe("<br>"), "messages {} to {}: {}", rows)
        return shown or mark_safe("none")


def _row(message: Any) -> tuple[SafeString]:
    """One stored message; what has an unknown form is shown as it is."""
    if not isinstance(message, Mapping):
        return (format_html("<li>{}</li>", source_block(pretty(message))),)
    text = message.get("content") or ""
    if message.get("tool_calls"):
        text += pretty(message["tool_calls"])
    head = f"{message.get('role', '')} · message {message.get('seq', '?')}"
    block = source_block(text if isinstance(text, str) else pretty(text), head)
    return (format_html('<li><span class="quiet">{}</span>{}</li>', head, block),)
