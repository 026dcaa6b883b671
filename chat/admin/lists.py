"""Lists over millions of rows: counted only so far, and always the same number of queries."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import Count, Model, Q, QuerySet, Value
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.translation import ngettext

from memory.text import NUL, clean

COUNTED = 10_000
LONGEST_TERM = 1_000  # characters that are looked for; no name or title has as many
NOTHING = Q(pk__in=[])


class CappedPaginator(Paginator):
    """Exact up to COUNTED rows; beyond, only those are paged through and "more than" is said."""

    @cached_property
    def counted(self) -> int:
        rows = self.object_list
        if not isinstance(rows, QuerySet):
            return len(rows)
        return counted(rows)

    @cached_property
    def count(self) -> int:
        return min(self.counted, COUNTED)

    @property
    def is_capped(self) -> bool:
        return self.counted > COUNTED

    @property
    def total_text(self) -> str:
        return f"more than {COUNTED:,}" if self.is_capped else f"{self.count:,}"


class IndexedChangeList(ChangeList):
    """Rows come in the order that an index gives; `?o=` is ignored where nothing is sortable."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        if self.sortable_by is not None and not self.sortable_by:
            self.params.pop(ORDER_VAR, None)
            self.filter_params.pop(ORDER_VAR, None)
        return super().get_ordering(request, queryset)

    def get_results(self, request: HttpRequest) -> None:
        """Filtered and sorted as bare ids; rows and what is joined to them are read of a page."""
        super().get_results(request)
        ids = list(self.result_list.values_list("pk", flat=True))
        rows = self.root_queryset.filter(pk__in=ids)
        rows = rows.order_by(*self.get_ordering(request, rows))
        self.result_list = rows if rows.query.select_related else self.apply_select_related(rows)


class LargeList(admin.ModelAdmin):
    """Searched by exact id; no totals, no facets, no sorting by columns without an index."""

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 50
    sortable_by: ClassVar[list[str] | tuple[str, ...] | None] = ()
    actions_selection_counter = True
    search_fields = ("pk",)
    search_help_text = "An exact id."

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return IndexedChangeList

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().changelist_view(request, extra_context)
        except DisallowedModelAdminLookup:
            return unknown_filter(self, request)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """PostgreSQL takes no NUL: the address is cleaned before anything is asked with it."""
        request.GET = without_nul(request.GET)  # type: ignore[assignment]
        return super().get_changelist_instance(request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if term := looked_for(search_term):
            queryset = queryset.filter(self.search(request, term))
        return queryset, False

    def search(self, request: HttpRequest, term: str) -> Q:
        """What `term` finds; overridden where more than an id may be asked for."""
        return by_id(self.model, term)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Only the rows that were ticked: an action never reaches across pages."""
        ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
        kind = _kind_of_key(self.model._meta.pk)
        known = [each for each in ticked if _as_key(each, kind) is not None]
        form = request.POST.copy()
        form.setlist(ACTION_CHECKBOX_NAME, known)
        request.POST = form  # type: ignore[assignment]
        queryset = queryset.filter(pk__in=known)
        if ticked and not queryset.exists():
            gone = f"None of the {self.opts.verbose_name_plural} that were chosen is in this list."
            self.message_user(request, gone, messages.WARNING)
            return None
        return super().response_action(request, queryset, *args, **kwargs)


def looked_for(search_term: str) -> str:
    """What is typed into a search as every engine takes it: SQLite compares no longer patterns."""
    return clean(search_term).strip()[:LONGEST_TERM]


def by_id(model: type[Model], term: str, *relations: str) -> Q:
    """Rows whose id, or whose relation's id, is exactly `term`."""
    found = NOTHING
    for name in ("pk", *relations):
        field = model._meta.pk if name == "pk" else model._meta.get_field(name)
        value = _as_key(term, _kind_of_key(field))
        if value is not None:
            found |= Q(**{name: value})
    return found


def _kind_of_key(field: Any) -> str:
    """What a key of this field is; of a relation, what the key of the other row is."""
    return str((field.related_model._meta.pk if field.is_relation else field).get_internal_type())


def _as_key(term: str, kind: str) -> uuid.UUID | int | None:
    if kind == "UUIDField":
        try:
            return uuid.UUID(term)
        except ValueError:
            return None
    is_number = term.isascii() and term.isdigit() and len(term) <= 18
    return int(term) if is_number and kind.endswith("AutoField") else None


def count_of(number: int, singular: str, plural: str) -> str:
    """ "3 sessions", "more than 10,000 messages" when the count was cut off there."""
    text = f"more than {COUNTED:,}" if number > COUNTED else f"{number:,}"
    return f"{text} {ngettext(singular, plural, number)}"


def read_apart(rows: QuerySet[Any], page: QuerySet[Any]) -> QuerySet[Any]:
    """`page`, a slice of `rows`: sorted as bare ids; what is joined to rows is read of it alone."""
    return rows.filter(pk__in=list(page.values_list("pk", flat=True)))


def counted(rows: QuerySet[Any]) -> int:
    """How many rows there are, counted to COUNTED + 1 at most; an index alone may answer."""
    ones = rows.order_by().annotate(one=Value(1)).values("one")[: COUNTED + 1]
    return int(ones.aggregate(count=Count("one"))["count"])


def without_nul(query: QueryDict) -> QueryDict:
    """What an address asks, as every engine can be asked it."""
    if not any(NUL in value for _, values in query.lists() for value in values):
        return query
    cleaned = QueryDict(mutable=True)
    for name, values in query.lists():
        cleaned.setlist(clean(name), [clean(value) for value in values])
    return cleaned


def unknown_filter(page: admin.ModelAdmin, request: HttpRequest) -> HttpResponse:
    """A page for an address that asks of a list what it does not answer."""
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "title": "There is no such filter",
    }
    request.current_app = page.admin_site.name
    status = HTTPStatus.BAD_REQUEST
    return TemplateResponse(request, "admin/unknown_filter.html", context, status=status)
