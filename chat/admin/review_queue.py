"""The queue of reviews: what waits, what one has claimed, what others are at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http import HttpResponseNotAllowed as NotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from chat.access import may_read_content, staff_tenants
from chat.admin import audit, remarks, reviews
from chat.admin.base import short
from chat.admin.content import why_hidden
from chat.admin.lists import COUNTED, count_of, counted, read_apart
from chat.admin.remark_form import CleanField
from chat.admin.transcript_page import FEW, next_in_queue
from chat.models import ChatSession, ReviewTag
from memory.text import one_line

SHOWN = 50


@dataclass(frozen=True)
class Waiting:
    """One session of the queue's page."""

    chat_session: ChatSession
    name: str
    good: int
    bad: int
    can_be_claimed: bool


class TagForm(forms.Form):
    tag = CleanField(max_length=100)

    def clean_tag(self) -> str:
        name = one_line(self.cleaned_data["tag"])
        if not remarks.slug_of(name):
            raise forms.ValidationError("A tag has at least one letter or digit.")
        return name


class ReviewQueue(admin.ModelAdmin):
    """Adds the queue's page, and the bulk actions of the list of sessions."""

    actions: list[Any] = ["queue_for_review", "tag_sessions"]

    def get_urls(self) -> list[URLPattern]:
        site = self.admin_site
        added = [
            path("queue/", site.admin_view(self.queue_view), name="chat_chatsession_queue"),
            path("queue/next/", site.admin_view(self.next_view), name="chat_chatsession_next"),
        ]
        return [*added, *super().get_urls()]

    def has_review_permission(self, request: HttpRequest) -> bool:
        return reviews.may_review(request.user)

    def has_tag_permission(self, request: HttpRequest) -> bool:
        return remarks.may_tag(request.user)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list of sessions leads to the queue."""
        context = {"may_review": reviews.may_review(request.user), **(extra_context or {})}
        return super().changelist_view(request, context)

    # --- Pages ------------------------------------------------------------------------------------

    def queue_view(self, request: HttpRequest) -> HttpResponse:
        rows = self.reviewable(request)
        at_it = reviews.with_staleness(rows).filter(review_state=reviews.State.IN_REVIEW)
        mine = at_it.filter(review_claimed_by=request.user.pk)
        others = at_it.exclude(review_claimed_by=request.user.pk)
        waiting = reviews.oldest_first(rows)
        number = counted(waiting)
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Review queue",
            "text_is_hidden": why_hidden(request.user),
            "mine": self.listed(request, mine.order_by("review_claimed_at", "pk")),
            "waiting": self.listed(request, waiting),
            "others": self.listed(request, others.order_by("review_claimed_at", "pk")),
            "number": f"more than {COUNTED:,}" if number > COUNTED else f"{number:,}",
            "is_cut": number > SHOWN,
            "shown": SHOWN,
        }
        if may_read_content(request.user):
            titles = sum(len(context[name]) for name in ("mine", "waiting", "others"))
            audit.note(request, "session.list", "session", count=titles, filter={"queue": True})
        return TemplateResponse(request, "admin/chat/chatsession/queue.html", context)

    def next_view(self, request: HttpRequest) -> HttpResponse:
        rows = self.reviewable(request)
        return next_in_queue(request, rows) if request.method == "POST" else NotAllowed(["POST"])

    def reviewable(self, request: HttpRequest) -> QuerySet[ChatSession]:
        if not (self.has_view_permission(request) and reviews.may_review(request.user)):
            raise PermissionDenied
        return self.get_queryset(request)

    def listed(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> list[Waiting]:
        shown = read_apart(rows, rows[:SHOWN])
        found = shown.select_related("user", "assistant", "review_claimed_by")
        with_text = may_read_content(request.user)
        return [
            Waiting(
                chat_session=each,
                name=(each.title or "Untitled") if with_text else short(each.pk),
                good=each.good_votes,
                bad=each.bad_votes,
                can_be_claimed=each.review_state == reviews.State.QUEUED
                or bool(getattr(each, "is_stale", False))
                or each.review_claimed_by_id is None,
            )
            for each in found
        ]

    # --- Actions ----------------------------------------------------------------------------------

    @admin.action(description="Queue for review", permissions=["review"])
    def queue_for_review(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> None:
        done = reviews.queue_all(request, rows)
        self.message_user(request, f"Queued {count_of(done, 'session', 'sessions')}.")

    @admin.action(description="Tag…", permissions=["tag"])
    def tag_sessions(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> Any:
        """Ask for the tag on a page of its own; when it was given, file all of them under it."""
        form = TagForm(request.POST if "tag" in request.POST else None)
        if form.is_valid():
            name = form.cleaned_data["tag"]
            done = remarks.tag_all(request, rows, name)
            messages.success(request, f"Tagged {count_of(done, 'session', 'sessions')}: {name}")
            return None
        offered = ReviewTag.objects.filter(tenant__in=staff_tenants(request.user))
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Tag sessions",
            "list_url": request.get_full_path(),
            "chosen": list(rows.values_list("pk", flat=True)),
            "form": form,
            "tag_names": sorted(set(offered.values_list("name", flat=True)[:FEW])),
            "checkbox_name": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/chat/chatsession/tag.html", context)
