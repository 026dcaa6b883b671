"""What was deleted, and what must still go from another store."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest

from chat.admin.base import ReadOnly
from chat.admin.content import GuardedContent
from chat.admin.lists import LargeList, by_id
from chat.admin.scope import SuperusersOnly
from chat.models import PendingRemoval, SessionTombstone


@admin.register(PendingRemoval)
class PendingRemovalAdmin(ReadOnly, GuardedContent, SuperusersOnly, LargeList):
    list_display = ["id", "kind", "name", "attempts", "last_error", "created_at"]
    list_filter = ["kind"]
    ordering = ["-id"]


@admin.register(SessionTombstone)
class SessionTombstoneAdmin(ReadOnly, GuardedContent, SuperusersOnly, LargeList):
    list_display = ["chat_session_id", "deleted_at"]
    ordering = ["pk"]
    search_help_text = "The exact id of a deleted session."

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(SessionTombstone, term)
