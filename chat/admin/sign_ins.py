"""Sign-ins and failed attempts, as django-axes keeps them: names and addresses of whoever tried.

Its own lists read every row for their choices of days and paths, and end in an error when a row is
ticked that cannot exist.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from axes.admin import AccessAttemptAdmin, AccessFailureLogAdmin, AccessLogAdmin, IsLockedOutFilter
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest

from chat.admin.audit import RecordedWrites
from chat.admin.filters import DateRangeFilter
from chat.admin.lists import LargeList, by_id
from chat.admin.scope import SuperusersOnly


class TriedFilter(DateRangeFilter):
    title = "time"
    field_name = "attempt_time"


class SignIns(RecordedWrites, SuperusersOnly, LargeList):
    date_hierarchy = None
    ordering = ["-pk"]
    search_help_text = "An exact id or address, or a part of the name."

    def search(self, request: HttpRequest, term: str) -> Q:
        found = by_id(self.model, term) | Q(username__icontains=term)
        return found | Q(ip_address=term) if _is_address(term) else found

    def log_deletions(self, request: HttpRequest, queryset: Any) -> list[Any]:
        """In the audit trail, by number: the admin's own log would keep the names."""
        for obj in queryset:
            self.note_write(request, "delete", obj)
        return []


def _is_address(term: str) -> bool:
    """PostgreSQL compares addresses with nothing else."""
    try:
        ipaddress.ip_address(term)
    except ValueError:
        return False
    return "%" not in term  # a zone, which no engine stores


for model in (AccessAttempt, AccessFailureLog, AccessLog):
    admin.site.unregister(model)


@admin.register(AccessAttempt)
class AttemptAdmin(SignIns, AccessAttemptAdmin):
    list_filter = [TriedFilter, IsLockedOutFilter]


@admin.register(AccessFailureLog)
class FailureAdmin(SignIns, AccessFailureLogAdmin):
    list_filter = [TriedFilter, "locked_out"]


@admin.register(AccessLog)
class LogAdmin(SignIns, AccessLogAdmin):
    list_filter = [TriedFilter]
