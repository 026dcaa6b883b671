"""Receipts of deletions: what went, what must still go, and what a later search found."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from chat.admin.base import ReadOnly, badge
from chat.admin.content import GuardedContent
from chat.admin.lists import LargeList, by_id
from chat.admin.scope import SuperusersOnly
from chat.models import DeletionReceipt


@admin.register(DeletionReceipt)
class DeletionReceiptAdmin(ReadOnly, GuardedContent, SuperusersOnly, LargeList):
    list_display = ["id", "kind", "by", "state_column", "rows_column", "created_at"]
    list_filter = ["kind", "by"]
    ordering = ["-created_at", "-id"]
    search_help_text = "The exact id of a receipt."
    fieldsets = [
        (None, {"fields": ["kind", "by", "state_column", "created_at"]}),
        ("What went", {"fields": ["counts_column"]}),
        ("What a later search found", {"fields": ["found_column", "verified_at"]}),
        ("Of what", {"fields": ["subject", "owner", "tenant"]}),
    ]
    readonly_fields = ["state_column", "counts_column", "found_column"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeletionReceipt]:
        return super().get_queryset(request).annotate(open_count=Count("pending_removals"))

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(DeletionReceipt, term)

    @admin.display(description="state")
    def state_column(self, receipt: DeletionReceipt) -> SafeString:
        if left := receipt.open_count:  # type: ignore[attr-defined]  # of get_queryset
            return badge(f"{left} still to be removed", "warning")
        return badge("complete", "good")

    @admin.display(description="rows")
    def rows_column(self, receipt: DeletionReceipt) -> int:
        return sum(receipt.counts.values())

    @admin.display(description="by place")
    def counts_column(self, receipt: DeletionReceipt) -> SafeString | str:
        return lines(receipt.counts)

    @admin.display(description="by place")
    def found_column(self, receipt: DeletionReceipt) -> SafeString | str:
        if receipt.verification is None:
            return "It was not searched for."
        return lines(receipt.verification["found"]) or "Nothing was found."


def lines(counts: dict[str, int]) -> SafeString:
    """Numbers by place, one a line."""
    return format_html_join("", "{}: {}<br>", sorted(counts.items()))
