"""Which rows an export holds: exactly those of a list, as its filters and its search leave them.

The list itself is asked, with the address that the page had, so that an export can never hold more
than its owner would see. A job asks again when it is written, as its owner and for the tenants that
it was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, ORDER_VAR, PAGE_VAR, SEARCH_VAR
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, QueryDict

from chat.access import is_allowed, may_export_metadata, may_export_text, staff_tenants
from chat.models import ChatMessage, ChatSession, ChatTurn, ExportJob, Feedback
from chat.transfer import export_jobs
from chat.transfer.export_kinds import KINDS
from chat.transfer.export_pages import Selection

OF_A_PAGE = (PAGE_VAR, ALL_VAR, ORDER_VAR, ERROR_FLAG)
GONE = "Whoever asked for this export may not have it any more."


@dataclass(frozen=True)
class Source:
    """A list that can be exported: its own rows, or what belongs to its sessions."""

    model: type[Model]
    kinds: Sequence[str]
    tenant: str
    """Path to the tenant of a row."""


SOURCES: Mapping[str, Source] = {
    "chatsession": Source(
        ChatSession, ("sessions", "messages", "turns", "feedback", "usage"), "tenant"
    ),
    "chatmessage": Source(ChatMessage, ("messages",), "chat_session__tenant"),
    "chatturn": Source(ChatTurn, ("turns",), "chat_session__tenant"),
    "feedback": Source(Feedback, ("feedback",), "turn__chat_session__tenant"),
}


def source_of(name: str) -> Source:
    source = SOURCES.get(name)
    if source is None or source.model not in admin.site._registry:
        raise Http404("There is no such list to export.")
    return source


def page_of(name: str) -> admin.ModelAdmin:
    """The admin's page of the list."""
    return admin.site._registry[source_of(name).model]


def offered(request: HttpRequest, name: str) -> dict[str, Selection]:
    """By kind: what the list at this address can be exported as, without text."""
    source = source_of(name)
    rows = listed(request, source)
    return {
        kind: _selection(kind, rows, of_sessions=source.model is ChatSession, with_text=False)
        for kind in source.kinds
        if _may_view(request.user, KINDS[kind].model)
    }


def listed(request: Any, source: Source) -> QuerySet[Any]:
    """The rows of the list, of all its pages; `PermissionDenied` for who may not open it."""
    page = admin.site._registry[source.model]
    if not page.has_view_permission(request):
        raise PermissionDenied
    asked = request.GET
    request.GET = asked.copy()
    for each in OF_A_PAGE:
        request.GET.pop(each, None)
    try:
        return page.get_changelist_instance(request).queryset
    finally:
        request.GET = asked


def filter_of(request: HttpRequest, name: str) -> dict[str, str]:
    """What a job keeps to find the rows again."""
    asked = request.GET.copy()
    for each in OF_A_PAGE:
        asked.pop(each, None)
    return {"list": name, "query": asked.urlencode()}


def for_audit(request: HttpRequest, name: str) -> dict[str, Any]:
    """What was asked of the list, without what was searched for, which may be text."""
    asked = {key: value for key, value in request.GET.items() if key != SEARCH_VAR}
    return {"list": name, "asked": asked, "searched": bool(request.GET.get(SEARCH_VAR))}


def may_have(user: Any, job: ExportJob) -> bool:
    """Whether `user`, its owner, may have what the job holds; permissions change."""
    if not may_export_metadata(user) or (job.with_text and not may_export_text(user)):
        return False
    if user.is_superuser:
        return True
    tenants = set(job.tenants.values_list("pk", flat=True))  # none: asked for by a superuser
    return bool(tenants) and tenants <= set(staff_tenants(user).values_list("pk", flat=True))


def selection_of(job: ExportJob) -> Selection:
    """The rows of a job as its owner would see them now; `export_jobs.NotAllowed`."""
    if not may_have(job.owner, job):
        raise export_jobs.NotAllowed(GONE)
    request: Any = HttpRequest()
    request.method, request.user = "GET", job.owner
    request.GET = QueryDict(job.filter["query"])
    source = source_of(job.filter["list"])
    try:
        rows = listed(request, source)
    except PermissionDenied:
        raise export_jobs.NotAllowed(GONE) from None
    except (IncorrectLookupParameters, SuspiciousOperation):
        raise export_jobs.NotAllowed("The list has no such filter any more.") from None
    if tenants := list(job.tenants.values_list("pk", flat=True)):
        rows = rows.filter(**{f"{source.tenant}__in": tenants})
    is_sessions = source.model is ChatSession
    return _selection(job.kind, rows, of_sessions=is_sessions, with_text=job.with_text)


def _selection(name: str, rows: QuerySet[Any], *, of_sessions: bool, with_text: bool) -> Selection:
    kind = KINDS[name]
    if of_sessions and name != "sessions":
        return Selection(kind, with_text, sessions=rows)
    return Selection(kind, with_text, rows=rows)


def _may_view(user: Any, model: type[Model]) -> bool:
    return is_allowed(user, f"{model._meta.app_label}.view_{model._meta.model_name}")


export_jobs.select_with(selection_of)
