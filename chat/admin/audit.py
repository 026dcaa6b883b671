"""The audit trail: who did and read what. Append-only, and never any text of a message."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from chat.access import address_of, may_read_content
from chat.admin import reasons
from chat.admin.base import ReadOnly, badge
from chat.admin.content import GuardedContent
from chat.admin.filters import DateRangeFilter, TextFilter
from chat.admin.lists import NOTHING, LargeList
from chat.admin.scope import Scoped, user_ids
from chat.models import AuditEvent
from memory.text import clean, clean_data

OBJECT_TYPES = (
    "session",
    "attachment",
    "message",
    "turn",
    "context",
    "part",
    "snapshot",
    "summary",
    "digest",
    "follow_up",
    "preference",
    "feedback",
    "document",
    "user",
    "export",
    "tag",
    "assistant",
    "endpoint",
    "tenant",
    "membership",
    "group",
    "accessattempt",
    "accessfailurelog",
    "accesslog",
)


def note(
    request: Any,
    action: str,
    object_type: str,
    object_id: Any = "",
    *,
    count: int = 1,
    filter: Mapping[str, Any] | None = None,  # noqa: A002  the column's name
    reason: str = "",
) -> AuditEvent:
    """Record once that the person behind `request` did or read something."""
    return AuditEvent.objects.create(
        actor=request.user,
        action=action,
        object_type=object_type,
        object_id=str(object_id),
        count=count,
        filter=clean_data(dict(filter or {})),
        reason=clean(reason)[:500],
        ip=address_of(request),
    )


class RecordedReads(admin.ModelAdmin):
    """Opening a row's page is recorded; so is a list whose columns hold text."""

    object_type = ""
    list_shows_text = False

    def session_of(self, obj: Any) -> Any:
        """The id of the session that a row belongs to; None: to none."""
        return getattr(obj, "chat_session_id", None)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if settings.CHAT_READ_REASON_REQUIRED:
            found = self.get_object(request, object_id)
            session_id = self.session_of(found) if found is not None else None
            if reasons.is_missing(request.user, session_id):
                return reasons.ask(request, session_id)
        response = super().change_view(request, object_id, form_url, extra_context)
        if request.method == "GET" and response.status_code == HTTPStatus.OK:
            text = {"text": may_read_content(request.user)}
            note(request, f"{self.object_type}.read", self.object_type, object_id, filter=text)
        return response

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        rows = getattr(response, "context_data", {}).get("cl")
        if rows is not None and self.list_shows_text and may_read_content(request.user):
            action = f"{self.object_type}.list"
            asked = {name: value for name, value in rows.params.items() if name != SEARCH_VAR}
            asked |= {"searched": bool(rows.query), "page": rows.page_num}  # for what may be text
            note(request, action, self.object_type, count=len(rows.result_list), filter=asked)
        return response


class RecordedWrites(admin.ModelAdmin):
    """Adding, changing and deleting a row is recorded: what was changed of it, not to what."""

    object_type = ""
    """What the audit trail calls such a row; "" is the name of its model."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self.note_write(request, "add", obj)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self.note_write(request, "change", obj, changed=_changed(message))
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for obj in queryset:
            self.note_write(request, "delete", obj)
        return super().log_deletions(request, queryset)

    def note_write(self, request: HttpRequest, verb: str, obj: Any, **about: Any) -> None:
        kind = self.object_type or str(self.opts.model_name)
        note(request, f"{kind}.{verb}", kind, obj.pk, filter=about)


def _changed(message: Any) -> list[str]:
    """Names of fields, and of rows beside the row, out of the message for the admin's own log."""
    names: list[str] = []
    for part in message if isinstance(message, list) else ():
        for verb, what in part.items():
            beside = what.get("name", "")  # of a row of another model, on the same page
            names += [f"{beside} {verb}"] if beside else what.get("fields", [])
    return names


class ActionFilter(TextFilter):
    title = "action"
    parameter_name = "action"

    def suggestions(self, request: HttpRequest) -> list[str]:
        return ["transcript.read", "context.read", "message.read", "review.state", "session.delete"]

    def matches(self, value: str) -> Q:
        return Q(action=value)


class ActorFilter(TextFilter):
    title = "actor"
    parameter_name = "actor"

    def matches(self, value: str) -> Q:
        return Q(actor__in=user_ids(value))


class TimeFilter(DateRangeFilter):
    title = "time"
    field_name = "at"


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnly, GuardedContent, Scoped, LargeList):
    list_display = ["id", "at", "actor", "action_badge", "object_column", "count", "ip"]
    list_filter = [TimeFilter, ActionFilter, ActorFilter]
    list_select_related = ["actor"]
    ordering = ["-id"]
    search_help_text = "An exact id of an event, or of the object that it is about."
    fields = [
        ("at", "actor", "ip"),
        "action",
        ("object_type", "object_id", "count"),
        "filter",
        "reason",
    ]

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        """Events name objects of every tenant: superusers see all, others what they did."""
        return rows if user.is_superuser else rows.filter(actor=user)

    def search(self, request: HttpRequest, term: str) -> Q:
        about = Q(object_type__in=OBJECT_TYPES, object_id=term[:64])
        return about | (Q(pk=int(term)) if _is_event_id(term) else NOTHING)

    @admin.display(description="action")
    def action_badge(self, event: AuditEvent) -> SafeString:
        is_reading = event.action.endswith((".read", ".list"))
        return badge(event.action, "quiet" if is_reading else "warning")

    @admin.display(description="object")
    def object_column(self, event: AuditEvent) -> str:
        return f"{event.object_type} {event.object_id[:8]}".strip()


def _is_event_id(term: str) -> bool:
    return term.isascii() and term.isdigit() and len(term) <= 18
