"""What is due after turns, what failed and why; and a way to try it now."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from chat import dues, follow_ups
from chat.admin import audit
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, moment
from chat.admin.lists import by_id, count_of
from chat.admin.sessions import session_link
from chat.models import FollowUp


class FailedFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "failed"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Failed before"), ("no", "Not failed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "yes":
            return queryset.filter(attempts__gt=0)
        return queryset.filter(attempts=0) if self.value() == "no" else queryset


@admin.register(FollowUp)
class FollowUpAdmin(RecordedReads, ReadOnly, ChatAdmin):
    object_type = "follow_up"
    list_display = [
        "id",
        "kind",
        "session_column",
        "state_column",
        "attempts",
        "due_column",
        "error_column",
    ]
    list_filter = ["kind", FailedFilter]
    ordering = ["due_at", "id"]
    search_help_text = "An exact id of a follow-up or of a session."
    content_fields = ["last_error"]  # a provider may quote what it was sent
    actions = ["try_now"]
    fieldsets = [
        (None, {"fields": ["kind", "subject", "session_column", "state_column"]}),
        ("Attempts", {"fields": ["due_at", "attempts", "error_column", "last_error"]}),
        ("Claim", {"fields": [("claimed_by", "claimed_until"), ("version", "created_at")]}),
    ]
    readonly_fields = ["session_column", "state_column", "error_column"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) or self.has_manage_permission(request)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.manage_memory")

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(FollowUp, term, "chat_session")

    @admin.action(description="Try now", permissions=["manage"])
    def try_now(self, request: HttpRequest, rows: QuerySet[FollowUp]) -> None:
        ids = list(rows.values_list("pk", flat=True))
        for pk in ids:
            audit.note(request, "follow_up.try_now", "follow_up", pk)
        done = dues.try_now(ids)
        follow_ups.ring()
        self.message_user(request, f"{count_of(done, 'follow-up is', 'follow-ups are')} due now.")

    @admin.display(description="session")
    def session_column(self, follow_up: FollowUp) -> SafeString | str:
        session_id = follow_up.chat_session_id
        return session_link(session_id) if session_id is not None else follow_up.subject

    @admin.display(description="due")
    def due_column(self, follow_up: FollowUp) -> str:
        return moment(follow_up.due_at)

    @admin.display(description="error")
    def error_column(self, follow_up: FollowUp) -> SafeString | str:
        """The code of the last failure; what was said of it is on the page of the row."""
        code = follow_up.last_error.partition(":")[0]
        return badge(code, "bad") if code else "–"

    @admin.display(description="state")
    def state_column(self, follow_up: FollowUp) -> SafeString:
        until = follow_up.claimed_until
        if until is not None and until > timezone.now():
            return badge("being done", "accent")
        if follow_up.attempts:
            return badge("failed, waits", "warning")
        return badge("due" if follow_up.due_at <= timezone.now() else "waits")
