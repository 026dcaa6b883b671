"""Runs of commands that clean up, recorded for the overview of the admin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.utils import timezone

from chat.models import CleanupRun

KEPT = 1_000  # of one command: some that run every five minutes fill a table in a year


@contextmanager
def recorded(command: str, *, is_preview: bool = False) -> Iterator[CleanupRun]:
    """A row that says how it ended; one that was killed has no end. The caller sets `counts`, and
    `error` where it knows better words than those of the exception."""
    run = CleanupRun.objects.create(
        command=command, started_at=timezone.now(), is_preview=is_preview
    )
    try:
        yield run
    except BaseException as error:
        text = str(error) if isinstance(error, CommandError) else type(error).__name__
        run.error = (run.error or text)[:500]
        raise
    finally:
        run.finished_at = timezone.now()
        run.save()
        _prune(command)


def _prune(command: str) -> None:
    runs = CleanupRun.objects.filter(command=command).order_by("-id")
    oldest = runs.values_list("pk", flat=True)[KEPT : KEPT + 1]
    for pk in list(oldest):
        runs.filter(pk__lte=pk).delete()
