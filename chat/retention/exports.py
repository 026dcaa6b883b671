"""Files of exports that hold what is being deleted go; those being written begin anew."""

from __future__ import annotations

import mmap
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from chat.models import ExportJob, PendingRemoval
from chat.retention.receipts import Gone, gone

Status = ExportJob.Status


def drop_holding(tenant_id: int, session_id: uuid.UUID) -> Gone:
    """Exports with text that have rows of this session: each row names its session."""
    jobs = _of_tenants([tenant_id]).filter(with_text=True)
    return _drop(jobs, lambda job: names(job, str(session_id)))


def drop_all(tenant_ids: Collection[int]) -> Gone:
    """Every export of these tenants, whose rows name people even without text."""
    return _drop(_of_tenants(tenant_ids), lambda job: True)


def _of_tenants(tenant_ids: Collection[int]) -> QuerySet[ExportJob]:
    """Exports of these tenants among others, and of all tenants."""
    found = ExportJob.objects.filter(Q(tenants__in=list(tenant_ids)) | Q(tenants=None))
    return ExportJob.objects.filter(pk__in=list(found.values_list("pk", flat=True)))


def _drop(jobs: QuerySet[ExportJob], holds: Callable[[ExportJob], bool]) -> Gone:
    jobs.filter(status=Status.RUNNING).update(
        status=Status.QUEUED, claimed_by="", claimed_until=None
    )
    pending = []
    for job in jobs.filter(status=Status.DONE):
        if not holds(job):
            continue
        pending.append(PendingRemoval.objects.create(kind=PendingRemoval.Kind.FILE, name=job.file))
        ExportJob.objects.filter(pk=job.pk).update(status=Status.EXPIRED, file="", expires_at=Now())
    return gone(exports=len(pending)) + Gone(pending=tuple(pending))


def names(job: ExportJob, text: str) -> bool:
    """Whether a finished file has `text` in it; one that is gone or empty has nothing."""
    path = Path(settings.MEDIA_ROOT) / job.file
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text.encode()) >= 0
