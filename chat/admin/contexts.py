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

from chat import records
from chat.access import may_read_content, may_view_context
from chat.admin import audit, differences, reasons, requests
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, id_link, short
from chat.admin.content import why_hidden
from chat.admin.doctor import DoctorPages
from chat.admin.inspection_pages import links_of
from chat.admin.lists import by_id
from chat.admin.messages import source_block
from chat.admin.sessions import session_link
from chat.admin.what_if import WhatIfPages
from chat.admin.why_not import WhyNotPages
from chat.inspection import differences as compared
from chat.inspection import reasons as left_out
from chat.inspection import why_not
from chat.models import ChatMessage, ChatTurn, ContextPart, ContextRecord

HEAVY = ("manifest", "layout", "parameters")


@admin.register(ContextRecord)
class ContextRecordAdmin(WhyNotPages, WhatIfPages, DoctorPages, ReadOnly, ChatAdmin):
    """The page of a record shows the request itself; `sent/` is the same as a fragment, and
    `request.json` all of it as a file."""

    session_pages = {"why-not": "why_not_view", "what-if": "what_if_view", "doctor": "doctor_view"}

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
        pieces = [
            path(
                f"<uuid:record_id>/{address}",
                self.admin_site.admin_view(view),
                name=f"chat_contextrecord_{name}",
            )
            for name, address, view in (
                ("sent", "sent/", self.sent_view),
                ("request", "request.json", self.request_view),
            )
        ]
        return [*pieces, *super().get_urls()]

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
        turn = turn_of(record)
        rebuilt = records.rebuild(record)
        context = {
            **self.admin_site.each_context(request),
            **self.sent_context(request, record, rebuilt),
            **self.parts_context(request, record, turn),
            **self.difference_context(request, record, turn, rebuilt),
            "opts": self.opts,
            "title": f"What turn {turn.number} sent",
            "original": record,
            "turn": turn,
            "answer": self.answer(request, turn),
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
        context = self.sent_context(request, record, records.rebuild(record))
        return TemplateResponse(request, "admin/chat/contextrecord/sent.html", context)

    def request_view(self, request: HttpRequest, record_id: uuid.UUID) -> HttpResponse:
        """The whole request as a file: for those alone who may read text."""
        record = self.opened(request, str(record_id))
        if record is None:
            raise Http404("There is no such context record.")
        if not may_read_content(request.user):
            raise PermissionDenied(why_hidden(request.user))
        if reasons.is_missing(request.user, record.chat_session_id):
            return reasons.ask(request, record.chat_session_id)
        audit.note(request, "context.read", "context", record.pk, filter={"text": True})
        text = requests.as_json(records.rebuild(record))
        name = f"request-{record.pk}.json"
        return HttpResponse(
            text,
            content_type="application/json; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    def opened(self, request: HttpRequest, record_id: str) -> ContextRecord | None:
        if not self.has_view_permission(request) or not may_view_context(request.user):
            raise PermissionDenied
        return self.get_object(request, record_id)

    def sent_context(
        self, request: HttpRequest, record: ContextRecord, rebuilt: records.Rebuilt
    ) -> dict[str, Any]:
        with_text = may_read_content(request.user)
        audit.note(request, "context.read", "context", record.pk, filter={"text": with_text})
        return {
            "shown": requests.show(record, with_text=with_text, rebuilt=rebuilt),
            "reads_text": with_text,
            "text_is_hidden": why_hidden(request.user),
        }

    # --- Sections ---------------------------------------------------------------------------------

    def parts_context(
        self, request: HttpRequest, record: ContextRecord, turn: ChatTurn
    ) -> dict[str, Any]:
        """What each part cost, what was left out, and which settings decide that."""
        manifest = why_not.manifest_of(record)
        links = links_of(request, turn.chat_session)
        opening = [
            (name, left_out.OF_OPENING["budget"])
            for name in ("summary", "digest")
            if manifest.get(f"{name}_left_out")
        ]
        return {
            "shares": requests.shares_of(manifest, turn.input, links),
            "left_out": requests.ranges_of(manifest, links),
            "opening_left_out": opening,
            "attempts": list(
                self.get_queryset(request).filter(turn=record.turn_id).order_by("attempt")
            ),
            "runs": list(why_not.runs_of(turn)),
        }

    def difference_context(
        self,
        request: HttpRequest,
        record: ContextRecord,
        turn: ChatTurn,
        rebuilt: records.Rebuilt,
    ) -> dict[str, Any]:
        """This request beside the one before it."""
        earlier = why_not.before(record, turn)
        if earlier is None:
            return {"earlier": None}
        with_text = may_read_content(request.user)
        was = compared.of_record(earlier, records.rebuild(earlier), with_text=with_text)
        now = compared.of_record(record, rebuilt, with_text=with_text)
        return {"earlier": earlier, "difference": differences.shown(compared.between(was, now))}

    def answer(self, request: HttpRequest, turn: ChatTurn) -> list[requests.Answered]:
        """The messages that the turn made, in order."""
        rows = ChatMessage.objects.filter(turn=turn).order_by("seq")
        with_text = may_read_content(request.user)
        shown = rows if with_text else rows.defer("content", "tool_calls")
        return [requests.answered(each, with_text=with_text) for each in shown]


def turn_of(record: ContextRecord) -> ChatTurn:
    """The turn of a record, with its input, and its session with everything that decides."""
    return ChatTurn.objects.select_related("input", "chat_session__assistant__endpoint").get(
        pk=record.turn_id
    )


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
