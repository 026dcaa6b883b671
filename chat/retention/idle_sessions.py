"""Removing sessions that nobody has used for a while."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError
from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from chat import leases
from chat.models import AuditEvent, ChatSession, DeletionReceipt, Tenant
from chat.retention.deletion import forget_session
from chat.retention.places import Removed

logger = logging.getLogger(__name__)

BATCH = 500
KEPT = Q(is_held=True) | Q(is_pinned=True)
LONGEST_DAYS = 36500


@dataclass(frozen=True)
class TenantCleanup:
    """One tenant's share: what went (or would go), and what was kept although it was idle."""

    tenant: str
    days: int
    sessions: int
    messages: int
    held: int
    pinned: int


@dataclass(frozen=True)
class CleanupReport:
    is_dry_run: bool
    tenants: tuple[TenantCleanup, ...]
    removed: Removed = field(default_factory=Removed)
    failed: tuple[uuid.UUID, ...] = ()

    @property
    def sessions(self) -> int:
        return sum(each.sessions for each in self.tenants)


def cleanup(
    days: int = 0, *, dry_run: bool = False, now: datetime | None = None, actor: Any = None
) -> CleanupReport:
    """Delete sessions idle for more than `days` days (0: never), or than their tenant's own limit.

    The shorter of the two counts. Held and pinned sessions are kept. Each session leaves in a
    transaction of its own, so a run that was cut short is finished by the next one; one that
    cannot be deleted is logged and named in the report, and the others go all the same.
    """
    if not 0 <= days <= LONGEST_DAYS:
        raise ValueError(f"days is {days}: give a number from 0 (never) to {LONGEST_DAYS}")
    now = now or timezone.now()
    tenants: list[TenantCleanup] = []
    removed, failed = Removed(), []
    for tenant, limit in limits(days):
        idle_before = now - timedelta(days=limit)
        found = survey(tenant, limit, idle_before)
        if not dry_run:
            gone, stuck = delete_idle(tenant, limit, idle_before)
            removed += gone
            failed += stuck
            found = replace_counts(found, gone)
        tenants.append(found)
    report = CleanupReport(dry_run, tuple(tenants), removed, tuple(failed))
    record(report, days, actor)
    return report


def limits(days: int) -> Iterator[tuple[Tenant, int]]:
    """Each tenant that has a limit, with the shorter of its own and the general one."""
    for tenant in Tenant.objects.order_by("slug"):
        given = [limit for limit in (days, tenant.retention_days) if limit]
        if given:
            yield tenant, min(given)


def idle(tenant: Tenant, idle_before: datetime) -> QuerySet[ChatSession]:
    return ChatSession.objects.filter(tenant=tenant, last_active_at__lt=idle_before)


def survey(tenant: Tenant, limit: int, idle_before: datetime) -> TenantCleanup:
    counts = idle(tenant, idle_before).aggregate(
        sessions=Count("pk", filter=~KEPT),
        messages=Sum("message_count", filter=~KEPT, default=0),
        held=Count("pk", filter=Q(is_held=True)),
        pinned=Count("pk", filter=Q(is_pinned=True, is_held=False)),
    )
    return TenantCleanup(tenant=tenant.slug, days=limit, **counts)


def replace_counts(found: TenantCleanup, gone: Removed) -> TenantCleanup:
    """What really went, which may be less than was found: people come back."""
    return TenantCleanup(
        tenant=found.tenant,
        days=found.days,
        sessions=gone.rows.get("sessions", 0),
        messages=gone.rows.get("messages", 0),
        held=found.held,
        pinned=found.pinned,
    )


def delete_idle(
    tenant: Tenant, limit: int, idle_before: datetime
) -> tuple[Removed, list[uuid.UUID]]:
    removed, failed = Removed(), []
    still_idle = ~KEPT & Q(last_active_at__lt=idle_before)
    reason = f"Idle for more than {limit} days"
    for session_id in idle_ids(tenant, idle_before):
        try:
            receipt = forget_session(
                session_id, reason=reason, by=DeletionReceipt.By.POLICY, only_if=still_idle
            )
            removed += Removed(receipt.counts)
        except leases.Gone:
            logger.info("Session %s was used or deleted meanwhile; left alone.", session_id)
        except (DatabaseError, OSError):  # a busy table, or an export that cannot be read
            logger.exception("Session %s could not be deleted; going on.", session_id)
            failed.append(session_id)
    return removed, failed


def idle_ids(tenant: Tenant, idle_before: datetime) -> Iterator[uuid.UUID]:
    """Ids in keyset batches, so that no cursor stays open while rows leave."""
    waiting = idle(tenant, idle_before).exclude(KEPT).order_by("pk")
    last: uuid.UUID | None = None
    while True:
        rest = waiting if last is None else waiting.filter(pk__gt=last)
        batch = list(rest.values_list("pk", flat=True)[:BATCH])
        if not batch:
            return
        yield from batch
        last = batch[-1]


def record(report: CleanupReport, days: int, actor: Any) -> None:
    """One event for the run; each session that left has its own."""
    if report.is_dry_run or not (report.sessions or report.failed):
        return
    AuditEvent.objects.create(
        actor=actor,
        action="sessions.cleanup",
        object_type="session",
        count=report.sessions,
        filter={"days": days, "tenants": {each.tenant: each.days for each in report.tenants}},
    )
