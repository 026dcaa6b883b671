"""What every list of this admin site has in common."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.forms import Media
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from chat.admin.content import GuardedContent
from chat.admin.lists import LargeList
from chat.admin.saved_filters import SavedFilters
from chat.admin.scope import Scoped
from chat.models import ChatTurn


class NamedAutocomplete(AutocompleteSelect):
    """An empty choice that says what it wants, which also names it for screen readers."""

    def build_attrs(self, base_attrs: Any, extra_attrs: Any = None) -> dict[str, Any]:
        attrs = super().build_attrs(base_attrs, extra_attrs)
        name = self.field.verbose_name
        return {**attrs, "data-placeholder": f"Choose {name} …"}

    @property
    def media(self) -> Media:
        return super().media + Media(js=["admin_chat/names.js"])


class ChatAdmin(SavedFilters, GuardedContent, Scoped, LargeList):
    """Rows of sessions: scoped by tenant, guarded, fit for millions; with filters one can keep."""

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = NamedAutocomplete(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class ReadOnly(admin.ModelAdmin):
    """Rows that are a record: nobody adds, changes or deletes them here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def badge(text: Any, kind: str = "quiet") -> SafeString:
    """A word on a coloured ground; the colour never says more than the word does."""
    return format_html('<span class="badge badge-{}">{}</span>', kind, text)


REVIEW_BADGES = {
    "none": "quiet",
    "queued": "warning",
    "in_review": "accent",
    "reviewed": "good",
    "flagged": "bad",
    "resolved": "good",
}
TURN_BADGES = {
    "running": "accent",
    "completed": "good",
    "stopped": "warning",
    "interrupted": "warning",
    "failed": "bad",
}


def status_badge(turn: ChatTurn) -> SafeString:
    return badge(turn.get_status_display(), TURN_BADGES.get(turn.status, "quiet"))


def short(identifier: uuid.UUID | str | None) -> str:
    """The first eight characters of an id: enough to tell rows of one list apart."""
    return str(identifier)[:8] if identifier else ""


def moment(when: datetime | None) -> str:
    """A time in the current zone, narrow enough for a column."""
    return localtime(when).strftime("%Y-%m-%d %H:%M") if when else "–"


def link(url: str, text: Any, title: Any = "") -> SafeString:
    return format_html('<a href="{}" title="{}">{}</a>', url, title, text)


def change_url(app_model: str, pk: Any) -> str:
    """The address of a row's page: `change_url("chat_chatsession", pk)`."""
    return reverse(f"admin:{app_model}_change", args=[pk])


def id_link(app_model: str, pk: Any) -> SafeString:
    """A short id that leads to the row's page."""
    return link(change_url(app_model, pk), short(pk), pk)


def excerpt(text: str | None, length: int = 120) -> SafeString:
    """The beginning of a text, each in its own direction."""
    text = " ".join((text or "")[: length * 2].split())
    shown = text if len(text) <= length else f"{text[:length]}…"
    return format_html('<bdi class="excerpt">{}</bdi>', shown)
