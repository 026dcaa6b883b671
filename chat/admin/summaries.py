"""Summaries: what stands for the older part of a session, version by version."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chat import follow_ups
from chat.access import may_read_content
from chat.admin import audit, reasons
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge
from chat.admin.lists import by_id, count_of
from chat.admin.messages import source_block
from chat.admin.sessions import session_link, transcript_link
from chat.follow_ups import summarising
from memory.models import ConversationSummary
from memory.summary_items import HEADINGS, Item, from_data


@admin.register(ConversationSummary)
class ConversationSummaryAdmin(RecordedReads, ReadOnly, ChatAdmin):
    object_type = "summary"
    list_display = [
        "__str__",
        "session_column",
        "user_column",
        "version",
        "covers_column",
        "tokens_column",
        "created_at",
    ]
    list_select_related = ["chat_session__user"]
    ordering = ["-id"]
    search_help_text = "An exact id of a summary or of a session."
    content_fields = ["text", "items", "text_column", "items_column"]
    actions = ["compare", "regenerate", "delete_versions"]
    fieldsets = [
        (None, {"fields": [("session_column", "version"), "covers_column", "text_column"]}),
        ("Items and the messages that say them", {"fields": ["items_column"]}),
        (
            "Facts",
            {
                "fields": [
                    "tokens_column",
                    ("endpoint_name", "model_name"),
                    ("memory_epoch", "last_message"),
                    "turns",
                    "created_at",
                ]
            },
        ),
    ]
    readonly_fields = [
        "session_column",
        "covers_column",
        "tokens_column",
        "text_column",
        "items_column",
    ]

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ConversationSummary, term, "chat_session")

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.manage_memory")

    def has_read_permission(self, request: HttpRequest) -> bool:
        return may_read_content(request.user)

    # --- Actions ----------------------------------------------------------------------------------

    @admin.action(description="Compare two versions", permissions=["read"])
    def compare(
        self, request: HttpRequest, rows: QuerySet[ConversationSummary]
    ) -> HttpResponse | None:
        chosen = list(rows.order_by("version"))
        if len(chosen) != 2 or chosen[0].chat_session_id != chosen[1].chat_session_id:
            self.message_user(
                request, "Choose exactly two versions of one session to compare.", messages.ERROR
            )
            return None
        older, newer = chosen
        if reasons.is_missing(request.user, older.chat_session_id):
            return reasons.ask(request, older.chat_session_id)
        for each in chosen:
            audit.note(request, "summary.read", "summary", each.pk, filter={"text": True})
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Versions {older.version} and {newer.version}",
            "older": older,
            "newer": newer,
            "session_link": session_link(older.chat_session_id),
            "groups": _compared(from_data(older.items), from_data(newer.items)),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/memory/summaries_compared.html", context)

    @admin.action(description="Make anew from the history", permissions=["manage"])
    def regenerate(self, request: HttpRequest, rows: QuerySet[ConversationSummary]) -> None:
        sessions = _sessions(rows)
        for session_id in sessions:
            summarising.regenerate(session_id)
            audit.note(request, "summary.regenerate", "session", session_id)
        follow_ups.ring()
        due = count_of(len(sessions), "session", "sessions")
        self.message_user(
            request, f"A new version is due in {due}; it appears here when it is made."
        )

    @admin.action(description="Delete every version of these sessions", permissions=["manage"])
    def delete_versions(
        self, request: HttpRequest, rows: QuerySet[ConversationSummary]
    ) -> HttpResponse | None:
        """On a second page, with a reason."""
        reason = reasons.given(request)
        if not reason:
            return self._ask_to_delete(request, rows)
        gone = 0
        for session_id in _sessions(rows):
            count = summarising.delete(session_id)
            audit.note(request, "summary.delete", "session", session_id, count=count, reason=reason)
            gone += count
        self.message_user(request, f"Deleted {count_of(gone, 'version', 'versions')}.")
        return None

    def _ask_to_delete(
        self, request: HttpRequest, rows: QuerySet[ConversationSummary]
    ) -> HttpResponse:
        sessions = _sessions(rows)
        of = ConversationSummary.objects.filter(chat_session__in=sessions)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Delete summaries",
            "list_url": request.get_full_path(),
            "chosen": list(rows.values_list("pk", flat=True)),
            "counts": [("sessions", len(sessions)), ("versions", of.count())],
            "was_empty": "reason" in request.POST,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/memory/summaries_delete.html", context)

    # --- Columns ----------------------------------------------------------------------------------

    @admin.display(description="session")
    def session_column(self, summary: ConversationSummary) -> SafeString:
        return session_link(summary.chat_session_id)

    @admin.display(description="user")
    def user_column(self, summary: ConversationSummary) -> str:
        return summary.chat_session.user.get_username()

    @admin.display(description="covers")
    def covers_column(self, summary: ConversationSummary) -> str:
        return f"messages {summary.covers_from} to {summary.covers_through}"

    @admin.display(description="tokens")
    def tokens_column(self, summary: ConversationSummary) -> str:
        return f"{summary.token_count:,} for {summary.source_tokens:,}"

    @admin.display(description="text")
    def text_column(self, summary: ConversationSummary) -> SafeString:
        return source_block(summary.text, "The summary as it is sent")

    @admin.display(description="items")
    def items_column(self, summary: ConversationSummary) -> SafeString:
        rows = [
            (
                HEADINGS.get(item.kind, item.kind),
                item.text,
                transcript_link(summary.chat_session_id, item.seq, f"message {item.seq}"),
            )
            for item in from_data(summary.items)
        ]
        shown = format_html_join("", "<li>{}: <bdi>{}</bdi> ({})</li>", rows)
        return format_html("<ul>{}</ul>", shown)


def _sessions(rows: QuerySet[ConversationSummary]) -> list[Any]:
    return sorted(set(rows.order_by().values_list("chat_session", flat=True)))


def _compared(older: list[Item], newer: list[Item]) -> list[dict[str, Any]]:
    """By kind: each item of either version, and whether it stayed, went or came."""
    groups = []
    for kind, heading in HEADINGS.items():
        before = {item.text: item for item in older if item.kind == kind}
        after = {item.text: item for item in newer if item.kind == kind}
        lines = [
            (badge("stayed") if text in after else badge("went", "bad"), item)
            for text, item in before.items()
        ]
        lines += [
            (badge("came", "good"), item) for text, item in after.items() if text not in before
        ]
        if lines:
            groups.append({"heading": heading, "lines": lines})
    return groups
