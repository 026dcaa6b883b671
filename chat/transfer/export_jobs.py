"""Exports that are too large to wait for: done by whatever process calls `run_due_exports`.

A job is claimed by conditional UPDATE, and the claim is renewed with the progress after every
piece. A process that died loses its claim, and the next one begins the job again with a new file;
one that was only slow finds at its next piece that it has lost the job, and removes its file.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from chat.models import AuditEvent, ExportJob, PendingRemoval
from chat.retention import removals
from chat.transfer import export_files, export_streams
from chat.transfer.export_formats import FORMATS
from chat.transfer.export_pages import Selection

LEASE_SECONDS = 120.0
KEPT_DAYS = 30.0  # that a job stays listed after its file has gone
ERROR_LENGTH = 500
Status = ExportJob.Status
Select = Callable[[ExportJob], Selection]

logger = logging.getLogger(__name__)


class NotAllowed(Exception):
    """Whoever asked for the export may not have it any more."""


class Lost(Exception):
    """Another process does the job now, or its owner has deleted it."""


@dataclass(frozen=True)
class Claim:
    job: ExportJob
    token: str

    @property
    def row(self) -> Any:
        """The job's row as long as it is this claim's."""
        return ExportJob.objects.filter(
            pk=self.job.pk, claimed_by=self.token, status=Status.RUNNING
        )


_select: list[Select] = []


def select_with(select: Select) -> None:
    """Say how the rows of a job are found: the lists of the admin site know, which stand above."""
    _select[:] = [select]


def run_due_exports(stopped: threading.Event | None = None) -> int:
    """Do the jobs that are due, one after the other; how many were done. Old files go first.

    Once `stopped` is set, the job that is being done is given back and no other is begun.
    """
    stopped = stopped or threading.Event()
    remove_expired()
    done = 0
    while not stopped.is_set() and (claim := claim_next()) is not None:
        done += run(claim, stopped)
    return done


def claim_next() -> Claim | None:
    """The oldest job that waits, or whose process has died, with a new file's name in it."""
    open_jobs = Q(status=Status.QUEUED) | Q(status=Status.RUNNING, claimed_until__lt=Now())
    for job in list(ExportJob.objects.filter(open_jobs).order_by("created_at")[:10]):
        token, name = uuid.uuid4().hex, export_files.new_name()
        taken = ExportJob.objects.filter(open_jobs, pk=job.pk, file=job.file).update(
            status=Status.RUNNING,
            claimed_by=token,
            claimed_until=_later(LEASE_SECONDS),
            file=name,
            rows=0,
            size=0,
            error="",
        )
        if taken:
            export_files.remove(job.file)  # of a process that did not finish it
            job.refresh_from_db()
            return Claim(job, token)
    return None


def run(claim: Claim, stopped: threading.Event | None = None) -> bool:
    """Do one job; whether it was done. Nothing of it stays when it was not."""
    try:
        _write(claim, stopped or threading.Event())
    except Lost:
        export_files.remove(claim.job.file)
        return False
    except Exception as error:
        export_files.remove(claim.job.file)
        _fail(claim, error)
        return False
    return True


def _write(claim: Claim, stopped: threading.Event) -> None:
    job = claim.job
    if not _select:
        raise RuntimeError("Nothing says which rows an export holds: chat.admin is not loaded.")
    selection = _select[0](job)
    _update(claim, total=selection.count())
    rows = size = 0
    with export_files.create(job.file) as file:
        for count, data in export_streams.pieces(selection, FORMATS[job.format]):
            file.write(data)
            rows, size = rows + count, size + len(data)
            _update(claim, rows=rows, size=size, claimed_until=_later(LEASE_SECONDS))
            if stopped.is_set():
                _update(claim, status=Status.QUEUED, claimed_by="", claimed_until=None)
                raise Lost(f"Export {job.pk} waits for another process: this one ends.")
    with transaction.atomic():
        _update(
            claim,
            status=Status.DONE,
            total=rows,
            claimed_by="",
            claimed_until=None,
            finished_at=Now(),
            expires_at=_later(settings.CHAT_EXPORT_HOURS * 3_600.0),
        )
        _note("export.done", job, rows)


def _update(claim: Claim, **changes: Any) -> None:
    if not claim.row.update(**changes):
        raise Lost(f"Export {claim.job.pk} is no longer this process's.")


def _fail(claim: Claim, error: Exception) -> None:
    """Say so in the job: what is ours in words, what is not by its kind alone."""
    if isinstance(error, NotAllowed):
        text = str(error)
    else:
        logger.exception("Export %s failed", claim.job.pk, exc_info=error)
        text = f"It could not be written ({type(error).__name__}); the server's log says more."
    claim.row.update(
        status=Status.FAILED,
        error=text[:ERROR_LENGTH],
        file="",
        claimed_by="",
        claimed_until=None,
        finished_at=Now(),
    )


def _note(action: str, job: ExportJob, count: int) -> None:
    AuditEvent.objects.create(
        actor=job.owner,
        action=action,
        object_type="export",
        object_id=str(job.pk),
        count=count,
        filter={"kind": job.kind, "format": job.format, "text": job.with_text},
    )


# --- What goes ------------------------------------------------------------------------------------


def remove_expired() -> int:
    """Remove the files whose time is over, rows that are long done, and files without a row."""
    expired = ExportJob.objects.filter(status=Status.DONE, expires_at__lt=Now())
    removed = sum(_expire(job) for job in list(expired))
    closed = ExportJob.objects.filter(status__in=[Status.EXPIRED, Status.FAILED])
    closed.filter(finished_at__lt=_later(-KEPT_DAYS * 86_400.0)).delete()
    known = set(ExportJob.objects.exclude(file="").values_list("file", flat=True))
    return removed + export_files.remove_orphans(known)


def _expire(job: ExportJob) -> bool:
    with transaction.atomic():
        rows = ExportJob.objects.filter(pk=job.pk, status=Status.DONE)
        if not rows.update(status=Status.EXPIRED, file="", expires_at=Now()):
            return False
        pending = _pending(job)
    removals.carry_out(pending)
    return True


def delete(job: ExportJob) -> None:
    """Remove a job with its file, whatever state it is in; a process that writes it stops."""
    with transaction.atomic():
        pending = _pending(job) if job.file else None
        job.delete()
    if pending is not None:
        removals.carry_out(pending)


def _pending(job: ExportJob) -> PendingRemoval:
    return PendingRemoval.objects.create(kind=PendingRemoval.Kind.FILE, name=job.file)


def _later(seconds: float) -> Combinable:
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=DateTimeField())
