"""Context records: exactly what one model request held, with its proof."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from chat.access import may_read_content, may_view_context
from chat.admin import audit, reasons, requests
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, id_link, short
from chat.admin.content import why_hidden
from chat.admin.lists import by_id
from chat.admin.messages import source_block
from chat.admin.sessions import session_link
from chat.models import ContextPart, ContextRecord

HEAVY = ("manifest", "layout", "parameters")


@admin.register(ContextRecord)
class ContextRecordAdmin(ReadOnly, ChatAdmin):
    """The page of a record shows the request itself; `sent/` is the same as a fragment."""

    list_display = [
        "id_column",
        "session_column",
        "turn_column",
        "attempt",
        "token_count",
        "input_tokens",
        "created_at",
    ]
    ordering = [
        "-chat_session__last_active_at",
        "-chat_session_id",
        "-turn__number",
        "-attempt",
    ]
    allowed_lookups = ["chat_session__id__exact", "turn__id__exact"]
    search_help_text = "An exact id of a record, a turn or a session."

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContextRecord]:
        return super().get_queryset(request).defer(*HEAVY)

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ContextRecord, term, "turn", "chat_session")

    @admin.display(description="record")
    def id_column(self, record: ContextRecord) -> str:
        return short(record.pk)

    @admin.display(description="session")
    def session_column(self, record: ContextRecord) -> SafeString:
        return session_link(record.chat_session_id)

    @admin.display(description="turn")
    def turn_column(self, record: ContextRecord) -> SafeString:
        return id_link("chat_chatturn", record.turn_id)

    # --- Pages ------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        fragment = path(
            "<uuid:record_id>/sent/",
            self.admin_site.admin_view(self.sent_view),
            name="chat_contextrecord_sent",
        )
        return [fragment, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The request of one record; unknown and foreign records end alike."""
        record = self.opened(request, object_id)
        if record is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
        if reasons.is_missing(request.user, record.chat_session_id):
            return reasons.ask(request, record.chat_session_id)
        context = {
            **self.admin_site.each_context(request),
            **self.sent_context(request, record),
            "opts": self.opts,
            "title": f"What turn {record.turn.number} sent",
            "original": record,
            "attempts": self.attempts(request, record),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/chat/contextrecord/page.html", context)

    def sent_view(self, request: HttpRequest, record_id: uuid.UUID) -> HttpResponse:
        """What was sent, as a piece for the transcript to unfold."""
        record = self.opened(request, str(record_id))
        if record is None:
            raise Http404("There is no such context record.")
        if reasons.is_missing(request.user, record.chat_session_id):
            raise PermissionDenied("A reason is asked for first: open this as a page.")
        context = self.sent_context(request, record)
        return TemplateResponse(request, "admin/chat/contextrecord/sent.html", context)

    def opened(self, request: HttpRequest, record_id: str) -> ContextRecord | None:
        if not self.has_view_permission(request) or not may_view_context(request.user):
            raise PermissionDenied
        return self.get_object(request, record_id)

    def sent_context(self, request: HttpRequest, record: ContextRecord) -> dict[str, Any]:
        with_text = may_read_content(request.user)
        audit.note(request, "context.read", "context", record.pk, filter={"text": with_text})
        return {
            "shown": requests.show(record, with_text=with_text),
            "text_is_hidden": why_hidden(request.user),
        }

    def attempts(self, request: HttpRequest, record: ContextRecord) -> list[ContextRecord]:
        rows = self.get_queryset(request).filter(turn=record.turn_id)
        return list(rows.order_by("attempt"))


@admin.register(ContextPart)
class ContextPartAdmin(RecordedReads, ReadOnly, ChatAdmin):
    """Texts that were sent and are no stored message: prompts, marked answers, blocks."""

    object_type = "part"

    list_display = ["id_column", "owner_column", "session_column"]
    ordering = ["pk"]
    allowed_lookups = ["chat_session__id__exact"]
    search_help_text = "An exact id of a part or a session."
    content_fields = ["text", "source"]
    fields = ["id", "owner_column", "session_column", "digest", "source"]
    readonly_fields = ["owner_column", "session_column", "source"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContextPart]:
        return super().get_queryset(request).defer("text")

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ContextPart, term, "chat_session")

    @admin.display(description="part")
    def id_column(self, part: ContextPart) -> str:
        return short(part.pk)

    @admin.display(description="text of")
    def owner_column(self, part: ContextPart) -> SafeString:
        return badge("the session", "accent") if part.chat_session_id else badge("the operator")

    @admin.display(description="session")
    def session_column(self, part: ContextPart) -> SafeString | str:
        return session_link(part.chat_session_id) if part.chat_session_id else "shared"

    @admin.display(description="text")
    def source(self, part: ContextPart) -> SafeString:
        return source_block(part.text)
