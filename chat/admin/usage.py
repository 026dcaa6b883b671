"""The roll-up by day, calls that no turn made, and what cleanups did: read and never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chat.access import staff_tenants
from chat.admin.base import ChatAdmin, ReadOnly, badge, moment
from chat.admin.session_filters import TenantFilter
from chat.models import CleanupRun, DailyUsage, ModelCall


@admin.register(DailyUsage)
class DailyUsageAdmin(ReadOnly, ChatAdmin):
    list_display = ["day", "tenant", "model_name", "turns", "input_tokens", "output_tokens", "cost"]
    list_filter = [TenantFilter]
    list_select_related = ["tenant"]
    sortable_by = None
    ordering = ["-day", "tenant_id", "endpoint_name", "model_name"]
    search_help_text = "A part of the model's or the endpoint's name."

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows.filter(tenant__in=staff_tenants(user))

    def search(self, request: HttpRequest, term: str) -> Q:
        return Q(model_name__icontains=term) | Q(endpoint_name__icontains=term)


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnly, ChatAdmin):
    list_display = [
        "finished_column",
        "kind",
        "tenant",
        "model_name",
        "input_tokens",
        "output_tokens",
        "result_column",
    ]
    list_filter = ["kind", TenantFilter]
    list_select_related = ["tenant"]
    sortable_by = None
    ordering = ["-id"]
    search_help_text = "A part of the model's name, or an error code."

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows.filter(tenant__in=staff_tenants(user))

    def search(self, request: HttpRequest, term: str) -> Q:
        return Q(model_name__icontains=term) | Q(error_code=term)

    @admin.display(description="time")
    def finished_column(self, call: ModelCall) -> str:
        return moment(call.finished_at)

    @admin.display(description="result")
    def result_column(self, call: ModelCall) -> SafeString:
        return badge(call.error_code, "bad") if call.error_code else badge("done", "good")


@admin.register(CleanupRun)
class CleanupRunAdmin(ReadOnly, ChatAdmin):
    """Cleanups go through every tenant: superusers alone see what they did."""

    list_display = ["started_column", "command", "is_preview", "counts_column", "result_column"]
    list_filter = ["command", "is_preview"]
    sortable_by = None
    ordering = ["-id"]
    search_help_text = "The name of a command."

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows if user.is_superuser else rows.none()

    def search(self, request: HttpRequest, term: str) -> Q:
        return Q(command=term)

    @admin.display(description="began")
    def started_column(self, run: CleanupRun) -> str:
        return moment(run.started_at)

    @admin.display(description="what it did")
    def counts_column(self, run: CleanupRun) -> str:
        return ", ".join(f"{name}: {count:,}" for name, count in run.counts.items()) or "nothing"

    @admin.display(description="result")
    def result_column(self, run: CleanupRun) -> SafeString:
        if run.error:
            return badge(run.error, "bad")
        return badge("done", "good") if run.finished_at else badge("not finished", "warning")
