"""Deleting every session that a filtered list holds: counted, confirmed, and done in batches.

A request deletes for a few seconds and answers with a page that goes on by itself. What was
confirmed is deleted and nothing else: a session that was used after it was counted stays. A request
that is cut short, or a process that dies, has deleted whole sessions; the form that was sent, or
the list with its filter, deletes the rest.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from chat import leases, retention
from chat.access import address_of
from chat.admin import audit, export_selections, reasons
from chat.admin.lists import COUNTED, count_of, counted, unknown_filter
from chat.models import ChatSession

BATCH = 500  # sessions in one request, at most
SECONDS = 8.0  # of one request, before it answers and goes on with the next
NOT_HELD = Q(is_held=False)
NO_SEARCH = (
    "What a search finds depends on what else there is, and would change while it is deleted. Use"
    " the filters instead, or tick the sessions."
)
NO_FILTER = "Filter the list first: what the address asks for leaves out no session."


@dataclass(frozen=True)
class Going:
    """How far a deletion has come; it travels in the form."""

    until: datetime
    """When the sessions were counted: what was used later stays."""
    total: int
    done: int = 0
    after: uuid.UUID | None = None
    """The last session that was looked at; they go in the order of their ids."""

    @property
    def is_begin(self) -> bool:
        return self.after is None

    @property
    def confirmation(self) -> str:
        return str(self.total)


class DeleteMatching(admin.ModelAdmin):
    """Adds the page that deletes all sessions of a filtered list."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.delete_matching_view)
        page = path("delete-matching/", view, name="chat_chatsession_delete_matching")
        return [page, *super().get_urls()]

    def has_erase_permission(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A filtered list leads to the page, for those who may delete."""
        may = self.has_erase_permission(request) and not request.GET.get(SEARCH_VAR)
        offered = self.asked(request) if may else ""
        context = {"delete_matching": offered, **(extra_context or {})}
        return super().changelist_view(request, context)

    def asked(self, request: HttpRequest) -> str:
        """The filter of the list; "" for the whole of it."""
        return export_selections.filter_of(request, "chatsession")["query"]

    def is_narrowed(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> bool:
        """Whether the filter is one: a value that it does not know leaves the whole list."""
        whole = self.get_queryset(request)
        return len(rows.query.where.children) > len(whole.query.where.children)

    def delete_matching_view(self, request: HttpRequest) -> HttpResponse:
        if not (self.has_view_permission(request) and self.has_erase_permission(request)):
            raise PermissionDenied
        if request.GET.get(SEARCH_VAR):
            self.message_user(request, NO_SEARCH, messages.ERROR)
            return self.to_list(request)
        try:
            rows = export_selections.listed(request, export_selections.source_of("chatsession"))
        except DisallowedModelAdminLookup:
            return unknown_filter(self, request)
        except IncorrectLookupParameters:
            return self.to_list(request, with_filter=False)
        if not self.is_narrowed(request, rows):
            self.message_user(request, NO_FILTER, messages.ERROR)
            return self.to_list(request, with_filter=False)
        going = _sent(request)
        if going is None:
            return self.ask_for_all(request, rows)
        if request.POST.get("typed", "").strip() != going.confirmation:
            return self.ask_for_all(request, rows, wrong="The number was not typed as it is here.")
        if reasons.is_demanded() and not reasons.given(request):
            return self.ask_for_all(request, rows, wrong="Say why.")
        if going.is_begin and counted(_left(rows, going.until)) != going.total:
            return self.ask_for_all(request, rows, wrong="The list has changed meanwhile.")
        return self.go_on(request, rows, going)

    def ask_for_all(
        self, request: HttpRequest, rows: QuerySet[ChatSession], *, wrong: str = ""
    ) -> HttpResponse:
        until = timezone.now()
        left = _left(rows, until)
        total = counted(left)
        sums = left.order_by().aggregate(
            messages=Sum("message_count", default=0), turns=Sum("turn_count", default=0)
        )
        context = {
            "going": Going(until, total),
            "counts": [
                ("sessions", total),
                *sums.items(),
                ("held, and not deleted", counted(rows.filter(is_held=True))),
            ],
            "wrong": wrong,
            "needs_reason": reasons.is_demanded(),
            "is_too_much": total > COUNTED,
            "most": COUNTED,
        }
        return self.matching_page(request, context)

    def go_on(
        self, request: HttpRequest, rows: QuerySet[ChatSession], going: Going
    ) -> HttpResponse:
        """Delete some of what was confirmed; when nothing of it is left, back to the list."""
        reason = reasons.given(request)
        if going.is_begin:
            about = export_selections.for_audit(request, "chatsession")
            audit.note(
                request,
                "session.delete_matching",
                "session",
                count=going.total,
                filter=about,
                reason=reason,
            )
        moved = self.delete_some(request, rows, going, reason)
        if moved is not None:
            return self.matching_page(request, {"going": moved, "is_going": True, "reason": reason})
        return self.to_list(request)

    def delete_some(
        self, request: HttpRequest, rows: QuerySet[ChatSession], going: Going, reason: str
    ) -> Going | None:
        """Where it stands then; None when everything that was confirmed was looked at."""
        left = _left(rows, going.until).order_by("pk")
        if going.after is not None:
            left = left.filter(pk__gt=going.after)
        ids = list(left.values_list("pk", flat=True)[:BATCH])
        done, began = 0, time.monotonic()
        for number, session_id in enumerate(ids, 1):
            try:
                retention.forget_session(
                    session_id,
                    actor=request.user,
                    reason=reason,
                    ip=address_of(request),
                    only_if=NOT_HELD & Q(last_active_at__lte=going.until),
                )
            except (leases.Busy, leases.Gone) as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                done += 1
            if time.monotonic() - began > SECONDS and number < len(ids):
                return Going(going.until, going.total, going.done + done, session_id)
        if len(ids) == BATCH:
            return Going(going.until, going.total, going.done + done, ids[-1])
        all_done = count_of(going.done + done, "session", "sessions")
        self.message_user(request, f"Deleted {all_done}.", messages.SUCCESS)
        return None

    def matching_page(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        request.current_app = self.admin_site.name
        shown = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Delete all sessions of this list",
            "list_url": self.list_url(request),
            **context,
        }
        name = "admin/chat/chatsession/delete_matching.html"
        return TemplateResponse(request, name, shown)

    def list_url(self, request: HttpRequest) -> str:
        return f"{reverse('admin:chat_chatsession_changelist')}?{self.asked(request)}"

    def to_list(self, request: HttpRequest, *, with_filter: bool = True) -> HttpResponse:
        url = self.list_url(request) if with_filter else self.list_url(request).partition("?")[0]
        return HttpResponseRedirect(url)


def _left(rows: QuerySet[ChatSession], until: datetime) -> QuerySet[ChatSession]:
    return rows.filter(NOT_HELD, last_active_at__lte=until)


def _sent(request: HttpRequest) -> Going | None:
    """What the form says; None when nothing was sent, or not by the form."""
    given = request.POST
    try:
        until = parse_datetime(given.get("until", ""))
        after = uuid.UUID(given["after"]) if given.get("after") else None
    except ValueError:
        return None
    total, done = given.get("total", ""), given.get("done", "0")
    are_numbers = all(
        each.isascii() and each.isdigit() and len(each) < 10 for each in (total, done)
    )
    if until is None or timezone.is_naive(until) or not are_numbers or int(total) > COUNTED:
        return None
    return Going(until, int(total), int(done), after)
