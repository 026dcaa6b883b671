"""What the list of sessions may be asked for. The address holds it all and can be kept."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from chat.access import staff_tenants
from chat.admin.filters import DateRangeFilter, TextFilter
from chat.admin.remarks import slug_of
from chat.admin.scope import user_ids
from chat.models import Assistant, ChatSession, Feedback, ReviewTag

FEW = 100  # suggestions that a filter offers


class LastActiveFilter(DateRangeFilter):
    title = "last active"
    field_name = "last_active_at"


class PersonFilter(TextFilter):
    title = "user"
    parameter_name = "person"

    def matches(self, value: str) -> Q:
        return Q(user__in=user_ids(value))


class AssistantFilter(TextFilter):
    title = "assistant"
    parameter_name = "assistant"

    def suggestions(self, request: HttpRequest) -> list[str]:
        seen = Assistant.objects.all()
        if not request.user.is_superuser:
            seen = seen.filter(Q(tenant=None) | Q(tenant__in=staff_tenants(request.user)))
        return list(seen.order_by("slug").values_list("slug", flat=True)[:FEW])

    def matches(self, value: str) -> Q:
        return Q(assistant__in=list(Assistant.objects.filter(slug=value).values_list("pk")))


class TenantFilter(TextFilter):
    title = "tenant"
    parameter_name = "tenant"

    def suggestions(self, request: HttpRequest) -> list[str]:
        seen = staff_tenants(request.user).order_by("slug")
        return list(seen.values_list("slug", flat=True)[:FEW])

    def matches(self, value: str) -> Q:
        return Q(tenant__slug=value)


class TagFilter(TextFilter):
    title = "tag"
    parameter_name = "tag"

    def suggestions(self, request: HttpRequest) -> list[str]:
        seen = ReviewTag.objects.filter(tenant__in=staff_tenants(request.user))
        return sorted(set(seen.order_by("slug").values_list("name", flat=True)[:FEW]))

    def matches(self, value: str) -> Q:
        filed = ReviewTag.chat_sessions.through._default_manager
        return Q(pk__in=filed.filter(reviewtag__slug=slug_of(value)).values("chatsession"))


class ChoiceFilter(admin.SimpleListFilter):
    """A few named conditions on the session's own row or on small tables beside it."""

    def conditions(self, request: HttpRequest) -> dict[str, tuple[str, Q]]:
        """By value: the label, and what it asks for."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, label) for value, (label, _) in self.conditions(request).items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.conditions(request).get(self.value() or "")
        return queryset.filter(chosen[1]) if chosen else queryset


class StateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"

    def conditions(self, request: HttpRequest) -> dict[str, tuple[str, Q]]:
        return {
            "running": ("Running", ~Q(running_turn=None)),
            "held": ("Held", Q(is_held=True)),
            "archived": ("Archived", Q(is_archived=True)),
            "temporary": ("Temporary", Q(is_temporary=True)),
            "memory_off": ("Memory off", Q(memory_enabled=False)),
        }


class ReviewFilter(ChoiceFilter):
    title = "review"
    parameter_name = "review"

    def conditions(self, request: HttpRequest) -> dict[str, tuple[str, Q]]:
        states = ChatSession.ReviewState.choices
        found = {value: (str(label), Q(review_state=value)) for value, label in states}
        mine = Q(review_state=ChatSession.ReviewState.IN_REVIEW, review_claimed_by=request.user.pk)
        return {**found, "mine": ("Claimed by me", mine)}


class FeedbackFilter(ChoiceFilter):
    """Comments are asked from the feedback, of which there is little."""

    title = "feedback"
    parameter_name = "feedback"

    def conditions(self, request: HttpRequest) -> dict[str, tuple[str, Q]]:
        bad, said = Q(value=Feedback.Value.BAD), ~Q(comment="")
        return {
            "bad": ("Bad", Q(bad_votes__gt=0)),
            "good": ("Good", Q(good_votes__gt=0)),
            "comment": ("With a comment", _with_feedback(said)),
            "bad_comment": ("Bad, with a comment", _with_feedback(bad & said)),
        }


class ErrorFilter(ChoiceFilter):
    title = "error"
    parameter_name = "error"

    def conditions(self, request: HttpRequest) -> dict[str, tuple[str, Q]]:
        failed, interrupted = Q(failed_turns__gt=0), Q(interrupted_turns__gt=0)
        return {
            "any": ("Failed or interrupted", failed | interrupted),
            "failed": ("Failed", failed),
            "interrupted": ("Interrupted", interrupted),
            "stopped": ("Stopped by the user", Q(stopped_turns__gt=0)),
        }


def _with_feedback(condition: Q) -> Q:
    return Q(pk__in=Feedback.objects.filter(condition).values("turn__chat_session"))
