"""What runs by itself: when each kind of work was last done, and when it is done next.

Commands are started by the installation's own scheduler, which nothing here knows: their next run
is expected as long after the last one as that came after the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from chat.models import CleanupRun, DailyUsage, ExportJob, FollowUp, ModelCall, Tenant

COMMANDS: Mapping[str, str] = {
    "cleanup_chats": "Sessions that nobody uses",
    "reap_turns": "Turns whose process died",
}
NEWEST_CALLS = 1_000  # that are looked at for the last title, summary, …
SLACK = timedelta(minutes=1)  # that a run may be late before it is called so
Kind = FollowUp.Kind


@dataclass(frozen=True)
class Work:
    name: str
    command: str = ""
    """How it is started by hand; "" for what the server does."""
    last: datetime | None = None
    problem: str = ""
    """What was wrong with the last run, in two words."""
    next: datetime | None = None
    is_late: bool = False
    note: str = ""
    """What is to be known of the next run, or instead of it."""
    failing: int = 0
    """How many wait that failed before."""


def recurring() -> list[Work]:
    """A fixed number of queries."""
    now = timezone.now()
    return [
        *(_of_command(name, title, now) for name, title in COMMANDS.items()),
        _exports(),
        *_follow_ups(),
    ]


def who_looks() -> str:
    """Which process does what is due without being started for it."""
    if settings.CHAT_FOLLOW_UPS_IN_WEB:
        return "The web processes look every 10 seconds for what is due."
    return "manage.py run_due --loop looks every 10 seconds for what is due, where it runs."


def _of_command(name: str, title: str, now: datetime) -> Work:
    runs = list(CleanupRun.objects.filter(command=name, is_preview=False).order_by("-id")[:2])
    note = _why_not(name)
    if not runs:
        return Work(title, name, note=note or "never ran: have your scheduler start it")
    last = runs[0]
    problem = "failed" if last.error else "" if last.finished_at else "not finished"
    if note or len(runs) < 2:
        return Work(title, name, last.started_at, problem, note=note or "not known after one run")
    interval = last.started_at - runs[1].started_at
    due = last.started_at + interval
    is_late = due + max(interval, SLACK) < now
    return Work(title, name, last.started_at, problem, due, is_late, note="as often as before")


def _why_not(command: str) -> str:
    if command != "cleanup_chats" or settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS:
        return ""
    if Tenant.objects.exclude(retention_days=None).exists():
        return ""
    return "deletes nothing: no number of days is set"


def _exports() -> Work:
    """Files of exports go when their time is over."""
    status = ExportJob.Status
    found = ExportJob.objects.aggregate(
        last=Max("expires_at", filter=Q(status=status.EXPIRED)),
        next=Min("expires_at", filter=Q(status=status.DONE)),
    )
    note = "" if found["next"] else "no file is kept"
    return Work("Files of exports", last=found["last"], next=found["next"], note=note)


def _follow_ups() -> list[Work]:
    rows = FollowUp.objects.order_by().values("kind")
    counts = rows.annotate(
        count=Count("id"), failing=Count("id", filter=Q(attempts__gt=0)), next=Min("due_at")
    )
    due: dict[str, Any] = {each["kind"]: each for each in counts}
    last: dict[str, datetime | None] = {}
    calls = ModelCall.objects.order_by("-id").values_list("kind", "finished_at")
    for kind, when in calls[:NEWEST_CALLS]:
        last.setdefault(kind, when)
    last[Kind.USAGE] = DailyUsage.objects.aggregate(last=Max("updated_at"))["last"]
    return [
        Work(
            str(kind.label),
            last=last.get(kind),
            next=due[kind]["next"] if kind in due else None,
            note=f"{due[kind]['count']:,} waiting" if kind in due else "nothing waits",
            failing=due[kind]["failing"] if kind in due else 0,
        )
        for kind in Kind
    ]
