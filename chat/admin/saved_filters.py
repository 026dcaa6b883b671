"""Filters of a list that a member of staff keeps under a name, above the list.

What is kept is a query string of names that the list allows. Opening it is a request like any
other: what its owner may see by then, and what the list allows by then, is decided anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IS_POPUP_VAR, IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from chat.models import SavedFilter
from memory.text import clean, is_blank, one_line

NAME_LENGTH = 60
QUERY_LENGTH = 2000
MOST = 30  # of one person in one list


@dataclass(frozen=True)
class Saved:
    """One filter as the page shows it."""

    name: str
    query: str
    is_current: bool
    removal: str
    """The address that removes it."""


@dataclass(frozen=True)
class SavedRow:
    """What stands above a list: one's filters, and what can be saved now."""

    filters: tuple[Saved, ...]
    query: str
    """What the page asks for; empty for the whole list."""
    saving: str
    """The address that saves it."""


class SavedFilters(admin.ModelAdmin):
    """Every reader of the list keeps filters of their own."""

    def get_urls(self) -> list[URLPattern]:
        def page(route: str, view: Any, name: str) -> URLPattern:
            checked = self.admin_site.admin_view(require_POST(view))
            return path(f"saved-filters/{route}", checked, name=f"{self.list_name}_{name}")

        return [
            page("save/", self.save_filter_view, "save_filter"),
            page("<int:filter_id>/remove/", self.remove_filter_view, "remove_filter"),
            *super().get_urls(),
        ]

    @property
    def list_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and IS_POPUP_VAR not in request.GET:
            context["saved_filters"] = self.saved_row(request)
        return response

    def saved_row(self, request: HttpRequest) -> SavedRow:
        query = self.kept_query(request, request.GET)
        filters = tuple(
            Saved(
                name=row.name,
                query=row.query,
                is_current=row.query == query,
                removal=reverse(f"admin:{self.list_name}_remove_filter", args=[row.pk]),
            )
            for row in self.own_filters(request)[:MOST]
        )
        return SavedRow(filters, query, reverse(f"admin:{self.list_name}_save_filter"))

    def own_filters(self, request: HttpRequest) -> QuerySet[SavedFilter]:
        """Of this list; somebody else's are as unknown as those that do not exist."""
        return SavedFilter.objects.filter(owner=request.user.pk, list=self.list_name)

    # --- Saving and removing ----------------------------------------------------------------------

    def save_filter_view(self, request: HttpRequest) -> HttpResponse:
        query = self.sent_query(request)
        name = one_line(request.POST.get("name", ""))
        if refusal := self.why_not_saved(request, name, query):
            self.message_user(request, refusal, messages.ERROR)
        else:
            owner: Any = request.user
            SavedFilter.objects.update_or_create(
                owner=owner, list=self.list_name, name=name, defaults={"query": query}
            )
            self.message_user(request, f"Saved this filter as “{name}”.", messages.SUCCESS)
        return self.back(query)

    def why_not_saved(self, request: HttpRequest, name: str, query: str) -> str:
        """What is wrong and what to do; nothing for what can be saved."""
        if is_blank(name):
            return "The filter was not saved: give it a name."
        if len(name) > NAME_LENGTH:
            return f"The name has {len(name):,} characters; it may have {NAME_LENGTH}."
        if not query:
            return "There was no filter to save: filter or search the list first."
        if len(query) > QUERY_LENGTH:
            return (
                f"The filter has {len(query):,} characters in the address; it may have"
                f" {QUERY_LENGTH:,}. Search for less."
            )
        if self.own_filters(request).exclude(name=name).count() >= MOST:
            return f"{MOST} filters of this list are saved, which is the most: remove one first."
        if not self.is_understood(request, query):
            return "The list does not understand this filter: set it in the list, then save it."
        return ""

    def remove_filter_view(self, request: HttpRequest, filter_id: int) -> HttpResponse:
        query = self.sent_query(request)
        row = self.own_filters(request).filter(pk=filter_id).first()
        if row is None:
            raise Http404("There is no such filter.")
        row.delete()
        self.message_user(request, f"Removed the saved filter “{row.name}”.", messages.SUCCESS)
        return self.back(query)

    def back(self, query: str) -> HttpResponse:
        address = reverse(f"admin:{self.list_name}_changelist")
        return HttpResponseRedirect(f"{address}?{query}" if query else address)

    # --- What may be kept -------------------------------------------------------------------------

    def sent_query(self, request: HttpRequest) -> str:
        """What the form says the list shows, as far as it may be kept; only for its readers."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return self.kept_query(request, QueryDict(request.POST.get("query", "")))

    def kept_query(self, request: HttpRequest, asked: QueryDict) -> str:
        """Search and filters that the list allows, in one order; no page, order or popup."""
        with asking(request, asked):
            kept = [
                (name, value)
                for name, values in asked.lists()
                for value in (clean(each).strip() for each in values)
                if value and (name == SEARCH_VAR or self.lookup_allowed(name, value, request))
            ]
        return urlencode(sorted(kept))

    def is_understood(self, request: HttpRequest, query: str) -> bool:
        """Whether the list opens with it."""
        with asking(request, QueryDict(query)):
            try:
                self.get_changelist_instance(request)
            except (IncorrectLookupParameters, DisallowedModelAdminLookup):
                return False
        return True


@contextmanager
def asking(request: HttpRequest, query: QueryDict) -> Iterator[None]:
    """As if the address asked for `query`: what a list allows may depend on it."""
    before = request.GET
    request.GET = query  # type: ignore[assignment]
    try:
        yield
    finally:
        request.GET = before
