"""Turns: what each run of the model did, how long it took and what it cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, id_link, short, status_badge
from chat.admin.lists import by_id
from chat.admin.sessions import session_link, transcript_link
from chat.models import ChatTurn, ContextRecord


@admin.register(ChatTurn)
class ChatTurnAdmin(RecordedReads, ReadOnly, ChatAdmin):
    object_type = "turn"
    list_display = [
        "id_column",
        "session_column",
        "status_column",
        "model_name",
        "tokens_column",
        "duration_column",
        "started_at",
    ]
    list_filter = ["status"]
    ordering = ["-chat_session__last_active_at", "-chat_session_id", "-number"]
    allowed_lookups = ["chat_session__id__exact", "input__id__exact"]
    search_help_text = "An exact id of a turn, a session or an input message."
    content_fields = ["error_detail"]  # a provider may quote what it was sent
    fieldsets = [
        (None, {"fields": ["status_column", ("session_column", "number"), "place_column"]}),
        ("What was sent", {"fields": ["records_column"]}),
        (
            "Outcome",
            {
                "fields": [
                    "finish_reason",
                    "schema_column",
                    "stop_column",
                    "error_code",
                    "error_detail",
                ]
            },
        ),
        (
            "Model",
            {
                "fields": [
                    ("endpoint_name", "model_name"),
                    ("input_tokens", "cached_input_tokens", "output_tokens"),
                    "cost",
                ]
            },
        ),
        (
            "Time",
            {
                "fields": [
                    ("started_at", "first_token_at", "finished_at"),
                    ("first_token_column", "duration_column"),
                ]
            },
        ),
        ("Inside", {"classes": ["collapse"], "fields": ["id", "client_id", "input"]}),
    ]
    readonly_fields = [
        "status_column",
        "session_column",
        "place_column",
        "records_column",
        "stop_column",
        "schema_column",
        "duration_column",
        "first_token_column",
    ]

    def get_ordering(self, request: HttpRequest) -> Any:
        """Those of one status as they began: an index gives them so, whoever asks."""
        if "status__exact" in request.GET and "chat_session__id__exact" not in request.GET:
            return ["-started_at", "-pk"]
        return self.ordering

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ChatTurn, term, "chat_session", "input")

    @admin.display(description="turn")
    def id_column(self, turn: ChatTurn) -> str:
        return f"{turn.number} · {short(turn.pk)}"

    @admin.display(description="session")
    def session_column(self, turn: ChatTurn) -> SafeString:
        return session_link(turn.chat_session_id)

    @admin.display(description="status")
    def status_column(self, turn: ChatTurn) -> SafeString:
        return status_badge(turn)

    @admin.display(description="in the transcript")
    def place_column(self, turn: ChatTurn) -> SafeString:
        return transcript_link(turn.chat_session_id, turn.input.seq, f"message {turn.input.seq}")

    @admin.display(description="tokens in / out")
    def tokens_column(self, turn: ChatTurn) -> str:
        return f"{_number(turn.input_tokens)} / {_number(turn.output_tokens)}"

    @admin.display(description="duration")
    def duration_column(self, turn: ChatTurn) -> str:
        return _seconds(turn.started_at, turn.finished_at)

    @admin.display(description="first token after")
    def first_token_column(self, turn: ChatTurn) -> str:
        return _seconds(turn.started_at, turn.first_token_at)

    @admin.display(description="stop")
    def stop_column(self, turn: ChatTurn) -> str:
        if not turn.stop_requested:
            return "not asked for"
        return f"asked for after {_number(turn.stop_seen)} characters"

    @admin.display(description="output schema")
    def schema_column(self, turn: ChatTurn) -> SafeString | str:
        if turn.follows_schema is None:
            return "not asked for, or the answer is unfinished"
        if turn.follows_schema:
            return badge("followed", "good")
        return format_html("{} {}", badge("not followed", "bad"), turn.schema_error)

    @admin.display(description="requests")
    def records_column(self, turn: ChatTurn) -> SafeString:
        records = ContextRecord.objects.filter(turn=turn).order_by("attempt")
        links = [
            (id_link("chat_contextrecord", pk),) for pk in records.values_list("pk", flat=True)
        ]
        return format_html_join(mark_safe(", "), "{}", links) or mark_safe("none")


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:,}"


def _seconds(start: datetime | None, end: datetime | None) -> str:
    return f"{(end - start).total_seconds():.2f} s" if start and end else "–"
