"""Exporting a list: what, in which form, with or without text; at once, or in the background.

The page "Exports" shows the reader's own jobs. Somebody else's and an unknown one end alike.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from chat.access import may_export_metadata, staff_tenants
from chat.admin import audit, export_selections
from chat.admin.base import ReadOnly, badge, link, moment
from chat.admin.content import GuardedContent
from chat.admin.export_form import ExportForm, download, shown, streamed
from chat.admin.lists import LargeList, by_id, count_of, unknown_filter
from chat.admin.scope import Scoped
from chat.models import ExportJob
from chat.transfer import export_files, export_jobs
from chat.transfer.export_kinds import KINDS
from chat.transfer.export_pages import Selection

STATUS_BADGES = {
    "queued": "quiet",
    "running": "accent",
    "done": "good",
    "failed": "bad",
    "expired": "quiet",
}


@admin.register(ExportJob)
class ExportJobAdmin(ReadOnly, GuardedContent, Scoped, LargeList):
    list_display = [
        "what_column",
        "status_column",
        "progress_column",
        "size_column",
        "created_column",
        "expires_column",
        "file_column",
    ]
    list_filter = ["status"]
    ordering = ["-created_at"]
    search_help_text = "An exact id of an export."
    actions = ["delete_exports"]
    change_form_template = "admin/chat/export_job.html"
    fields = [
        "what_column",
        "status_column",
        "error",
        "progress_column",
        "size_column",
        "asked_column",
        ("created_at", "finished_at", "expires_at"),
        "id",
    ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_export_metadata(request.user)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may_export_metadata(request.user)

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows.filter(owner=user)

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ExportJob, term)

    def get_urls(self) -> list[URLPattern]:
        def page(route: str, view: Any, name: str) -> URLPattern:
            return path(route, self.admin_site.admin_view(view), name=f"chat_exportjob_{name}")

        return [
            page("new/<str:source>/", self.new_view, "new"),
            page("<uuid:job_id>/file/", self.file_view, "file"),
            page("<uuid:job_id>/remove/", require_POST(self.remove_view), "remove"),
            *super().get_urls(),
        ]

    # --- Asking for one ---------------------------------------------------------------------------

    def new_view(self, request: HttpRequest, source: str) -> HttpResponse | StreamingHttpResponse:
        """Counts what the list at this address holds, then exports it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            offered = export_selections.offered(request, source)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(reverse(f"admin:chat_{source}_changelist"))
        except DisallowedModelAdminLookup:
            return unknown_filter(export_selections.page_of(source), request)
        if not offered:
            raise PermissionDenied
        limit = settings.CHAT_EXPORT_ROWS_INLINE + 1
        counts = {name: selection.count(limit) for name, selection in offered.items()}
        given = request.POST if request.method == "POST" else None
        form = ExportForm(given, counts=counts, user=request.user)
        if form.is_valid():
            chosen = form.cleaned_data
            selection = replace(
                offered[chosen["kind"]], with_text=bool(chosen.get("with_text", False))
            )
            return self.start(request, source, selection, chosen, counts[chosen["kind"]])
        return self.ask(request, source, form)

    def ask(self, request: HttpRequest, source: str, form: ExportForm) -> HttpResponse:
        model = export_selections.source_of(source).model
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Export {model._meta.verbose_name_plural}",
            "form": form,
            "list_name": model._meta.verbose_name_plural,
            "list_url": f"{reverse(f'admin:chat_{source}_changelist')}?{request.GET.urlencode()}",
            "is_filtered": bool(export_selections.filter_of(request, source)["query"]),
            "rows_inline": settings.CHAT_EXPORT_ROWS_INLINE,
            "hours": settings.CHAT_EXPORT_HOURS,
        }
        request.current_app = self.admin_site.name
        status = HTTPStatus.BAD_REQUEST if form.errors else HTTPStatus.OK
        return TemplateResponse(request, "admin/chat/export_new.html", context, status=status)

    def start(
        self,
        request: HttpRequest,
        source: str,
        selection: Selection,
        chosen: Mapping[str, Any],
        count: int,
    ) -> HttpResponse | StreamingHttpResponse:
        about = {
            "kind": selection.kind.name,
            "format": chosen["format"],
            "text": selection.with_text,
            **export_selections.for_audit(request, source),
        }
        with transaction.atomic():
            is_large = count > settings.CHAT_EXPORT_ROWS_INLINE
            job = self.queue(request, source, selection, chosen["format"]) if is_large else None
            audit.note(
                request,
                "export.queue" if job else "export.download",
                "export",
                job.pk if job else "",
                count=count,
                filter=about,
                reason=chosen["reason"],
            )
        if job is None:
            return download(selection, chosen["format"])
        text = (
            f"{shown(count)} rows will be written in the background; they can be downloaded here."
        )
        self.message_user(request, text)
        return HttpResponseRedirect(reverse("admin:chat_exportjob_changelist"))

    def queue(
        self, request: HttpRequest, source: str, selection: Selection, form: str
    ) -> ExportJob:
        owner: Any = request.user
        job = ExportJob.objects.create(
            owner=owner,
            kind=selection.kind.name,
            format=form,
            with_text=selection.with_text,
            filter=export_selections.filter_of(request, source),
        )
        if not owner.is_superuser:
            job.tenants.set(staff_tenants(owner))
        return job

    # --- A job ------------------------------------------------------------------------------------

    def own(self, request: HttpRequest, job_id: uuid.UUID) -> ExportJob:
        """A job of the reader's; somebody else's is as unknown as one that does not exist."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        job = self.get_queryset(request).filter(pk=job_id).first()
        if job is None:
            raise Http404("There is no such export.")
        return job

    def file_view(self, request: HttpRequest, job_id: uuid.UUID) -> StreamingHttpResponse:
        job = self.own(request, job_id)
        if not self.is_there(request, job):
            raise Http404("There is no such file.")
        audit.note(
            request,
            "export.file",
            "export",
            job.pk,
            count=job.rows,
            filter={"kind": job.kind, "format": job.format, "text": job.with_text},
        )
        response = streamed(export_files.stream(job.file), job.kind, job.format)
        response["Content-Length"] = str(job.size)
        return response

    def is_there(self, request: HttpRequest, job: ExportJob) -> bool:
        return (
            job.status == ExportJob.Status.DONE
            and job.expires_at is not None
            and job.expires_at > timezone.now()
            and export_selections.may_have(request.user, job)
            and export_files.path_of(job.file).is_file()
        )

    def remove_view(self, request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
        self.remove(request, [self.own(request, job_id)])
        return HttpResponseRedirect(reverse("admin:chat_exportjob_changelist"))

    @admin.action(description="Delete", permissions=["view"])
    def delete_exports(self, request: HttpRequest, rows: QuerySet[ExportJob]) -> None:
        self.remove(request, list(rows))

    def remove(self, request: HttpRequest, jobs: list[ExportJob]) -> None:
        for job in jobs:
            audit.note(request, "export.delete", "export", job.pk)
            export_jobs.delete(job)
        self.message_user(
            request, f"Deleted {count_of(len(jobs), 'export', 'exports')}.", messages.SUCCESS
        )

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        context["can_download"] = self.is_there(request, context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [
            name for each in self.fields for name in (each if isinstance(each, tuple) else [each])
        ]

    # --- Columns ----------------------------------------------------------------------------------

    @admin.display(description="export")
    def what_column(self, job: ExportJob) -> str:
        kind = KINDS[job.kind].label if job.kind in KINDS else job.kind
        return f"{kind}, {job.format.upper()}{', with text' if job.with_text else ''}"

    @admin.display(description="status")
    def status_column(self, job: ExportJob) -> SafeString:
        return badge(job.get_status_display(), STATUS_BADGES.get(job.status, "quiet"))

    @admin.display(description="rows")
    def progress_column(self, job: ExportJob) -> SafeString | str:
        if job.status != ExportJob.Status.RUNNING or not job.total:
            return f"{job.rows:,}"
        return format_html(
            '<progress max="{}" value="{}" aria-label="Rows written"></progress> {} of {}',
            job.total,
            min(job.rows, job.total),
            f"{job.rows:,}",
            f"{job.total:,}",
        )

    @admin.display(description="size")
    def size_column(self, job: ExportJob) -> str:
        return filesizeformat(job.size)

    @admin.display(description="asked for")
    def created_column(self, job: ExportJob) -> str:
        return moment(job.created_at)

    @admin.display(description="kept until")
    def expires_column(self, job: ExportJob) -> str:
        return moment(job.expires_at)

    @admin.display(description="list")
    def asked_column(self, job: ExportJob) -> str:
        return f"{job.filter.get('list', '')} {job.filter.get('query', '')}".strip()

    @admin.display(description="file")
    def file_column(self, job: ExportJob) -> SafeString | str:
        if job.status != ExportJob.Status.DONE:
            return "–"
        return link(reverse("admin:chat_exportjob_file", args=[job.pk]), "Download")
