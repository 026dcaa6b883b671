"""What users thought of answers, over all sessions; the list can be exported."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, ReadOnly, badge, excerpt
from chat.admin.filters import DateRangeFilter
from chat.admin.lists import by_id
from chat.admin.scope import user_ids
from chat.admin.session_filters import PersonFilter, TenantFilter
from chat.admin.sessions import session_link, transcript_link
from chat.models import Feedback


class GivenFilter(DateRangeFilter):
    title = "time"
    field_name = "created_at"


class OwnTenantFilter(TenantFilter):
    def matches(self, value: str) -> Q:
        return Q(turn__chat_session__tenant__slug=value)


class CommentFilter(admin.SimpleListFilter):
    title = "comment"
    parameter_name = "comment"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "With a comment"), ("no", "Without")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "yes":
            return queryset.exclude(comment="")
        return queryset.filter(comment="") if self.value() == "no" else queryset


@admin.register(Feedback)
class FeedbackAdmin(RecordedReads, ReadOnly, ChatAdmin):
    object_type = "feedback"
    list_shows_text = True
    tenant_path = "turn__chat_session__tenant"
    list_display = [
        "id",
        "value_column",
        "comment_column",
        "user",
        "session_column",
        "model_column",
        "created_at",
    ]
    list_filter = ["value", CommentFilter, GivenFilter, PersonFilter, OwnTenantFilter]
    list_select_related = ["user", "turn__input"]
    ordering = ["-id"]
    search_help_text = "An exact id of a rating or of a turn, or a user name."
    content_fields = ["comment", "comment_column"]
    fields = ["value_column", "comment", "user", "session_column", "place_column", "created_at"]
    readonly_fields = ["value_column", "session_column", "place_column"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Feedback]:
        return super().get_queryset(request).defer("turn__input__content", "turn__error_detail")

    def get_list_display(self, request: HttpRequest) -> Any:
        """Comments are of many sessions; where a reason is asked for, it is for one."""
        names = super().get_list_display(request)
        asks = settings.CHAT_READ_REASON_REQUIRED
        return [name for name in names if not (asks and name == "comment_column")]

    def session_of(self, obj: Feedback) -> Any:
        return obj.turn.chat_session_id

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(Feedback, term, "turn") | Q(user__in=user_ids(term))

    @admin.display(description="rating")
    def value_column(self, feedback: Feedback) -> SafeString:
        is_good = feedback.value == Feedback.Value.GOOD
        return badge(feedback.get_value_display(), "good" if is_good else "bad")

    @admin.display(description="comment")
    def comment_column(self, feedback: Feedback) -> SafeString:
        return excerpt(feedback.comment)

    @admin.display(description="session")
    def session_column(self, feedback: Feedback) -> SafeString:
        return session_link(feedback.turn.chat_session_id)

    @admin.display(description="model")
    def model_column(self, feedback: Feedback) -> str:
        return feedback.turn.model_name

    @admin.display(description="about")
    def place_column(self, feedback: Feedback) -> SafeString:
        turn = feedback.turn
        where = f"turn {turn.number}, message {turn.input.seq} of the transcript"
        return transcript_link(turn.chat_session_id, turn.input.seq, where)
