"""The daily roll-up: what was used, by day (UTC), tenant, endpoint and model.

A day is made anew from its rows, so that it may be made as often as wanted. What was used and paid
for stays counted when its conversation is deleted: no figure of a day gets smaller than it was, but
those of ratings, which people may take back. `mark` makes a day due; a follow-up does it
(`chat.follow_ups`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from chat import dues
from chat.models import ChatTurn, DailyUsage, Feedback, ModelCall

BUCKET = timedelta(minutes=5)  # the roll-up is at most so much behind, and done once in it
BATCH = 2_000
FASTEST_MS, STEP = 100, 1.25  # the first class of latencies, and each to the one before

USED = (
    "sessions",
    "turns",
    "calls",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "cost",
)

Key = tuple[int, str, str]  # tenant, endpoint, model


@dataclass
class _Sums:
    sessions: set[Any] = field(default_factory=set)
    turns: int = 0
    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)
    errors: Counter[str] = field(default_factory=Counter)
    latencies: Counter[str] = field(default_factory=Counter)
    good: int = 0
    bad: int = 0

    def spend(self, given: int | None, cached: int | None, made: int | None, cost: Any) -> None:
        self.input_tokens += given or 0
        self.cached_input_tokens += cached or 0
        self.output_tokens += made or 0
        self.cost += cost or 0

    def values(self, before: DailyUsage) -> dict[str, Any]:
        """The figures, none but those of ratings smaller than `before`."""
        found = {**vars(self), "sessions": len(self.sessions)}
        for name in USED:
            found[name] = max(found[name], getattr(before, name))
        for name in ("errors", "latencies"):
            found[name] = dict(found[name] | Counter(getattr(before, name)))
        return found


def mark(day: date) -> None:
    """Make the roll-up of a day due at the end of these five minutes, in the caller's transaction.

    Each five minutes have a row of their own: whatever happens after one was worked off makes the
    next, and nobody waits for anybody's row.
    """
    now = timezone.now()
    number = math.ceil(now.timestamp() / BUCKET.total_seconds())
    rest = number * BUCKET.total_seconds() - now.timestamp()
    dues.once(dues.Kind.USAGE, f"{day.isoformat()}/{number}", delay=rest)


def day_of(when: datetime) -> date:
    return when.astimezone(UTC).date()


def roll_up(day: date) -> int:
    """Make the rows of a day; how many there are then."""
    sums: dict[Key, _Sums] = {}
    for add in (_add_turns, _add_calls, _add_feedback):
        add(day, sums)
    with transaction.atomic():
        rows = DailyUsage.objects.select_for_update().filter(day=day)
        known = {(row.tenant_id, row.endpoint_name, row.model_name): row for row in rows}
        for key in sums.keys() | known.keys():
            row = known.get(key) or _new_row(day, key)
            for name, value in sums.get(key, _Sums()).values(row).items():
                setattr(row, name, value)
            row.save()
    return len(sums.keys() | known.keys())


def _new_row(day: date, key: Key) -> DailyUsage:
    """The row of a day that somebody else may be making too."""
    tenant, endpoint, model = key
    row, _ = DailyUsage.objects.get_or_create(
        day=day, tenant_id=tenant, endpoint_name=endpoint, model_name=model
    )
    return row


def _within(day: date, name: str) -> dict[str, datetime]:
    start = datetime.combine(day, time.min, UTC)
    return {f"{name}__gte": start, f"{name}__lt": start + timedelta(days=1)}


def _add_turns(day: date, sums: dict[Key, _Sums]) -> None:
    rows = ChatTurn.objects.filter(**_within(day, "started_at")).order_by()
    columns = (
        "chat_session__tenant",
        "endpoint_name",
        "model_name",
        "chat_session",
        "status",
        "error_code",
        "started_at",
        "finished_at",
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "cost",
    )
    for *key, session, status, error, began, ended, given, cached, made, cost in rows.values_list(
        *columns
    ).iterator(BATCH):
        each = sums.setdefault((key[0], key[1], key[2]), _Sums())
        each.sessions.add(session)
        each.turns += 1
        each.spend(given, cached, made, cost)
        if status in (ChatTurn.Status.FAILED, ChatTurn.Status.INTERRUPTED):
            each.errors[error or status] += 1
        elif ended is not None and status == ChatTurn.Status.COMPLETED:
            each.latencies[str(latency_class((ended - began) / timedelta(milliseconds=1)))] += 1


def _add_calls(day: date, sums: dict[Key, _Sums]) -> None:
    rows = ModelCall.objects.filter(**_within(day, "finished_at")).order_by()
    for tenant, endpoint, model, given, cached, made, cost in rows.values_list(
        "tenant",
        "endpoint_name",
        "model_name",
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "cost",
    ).iterator(BATCH):
        each = sums.setdefault((tenant, endpoint, model), _Sums())
        each.calls += 1
        each.spend(given, cached, made, cost)


def _add_feedback(day: date, sums: dict[Key, _Sums]) -> None:
    rows = Feedback.objects.filter(**_within(day, "created_at")).order_by()
    for tenant, endpoint, model, value in rows.values_list(
        "turn__chat_session__tenant", "turn__endpoint_name", "turn__model_name", "value"
    ).iterator(BATCH):
        each = sums.setdefault((tenant, endpoint, model), _Sums())
        if value > 0:
            each.good += 1
        else:
            each.bad += 1


# --- Latencies ------------------------------------------------------------------------------------


def latency_class(milliseconds: float) -> int:
    """The upper end, in ms, of the class that a time falls into; each is a quarter wider."""
    if milliseconds <= FASTEST_MS:
        return FASTEST_MS
    step = math.ceil(math.log(milliseconds / FASTEST_MS, STEP) - 1e-9)
    return round(FASTEST_MS * STEP**step)


def percentile(latencies: Counter[int], share: float) -> int | None:
    """The upper end, in ms, of the class that `share` of all times lie in or below; None: none."""
    rank = math.ceil(share * sum(latencies.values()))
    for end, count in sorted(latencies.items()):
        rank -= count
        if rank <= 0:
            return end
    return None


def days_before(last: date, count: int) -> Iterator[date]:
    """`count` days up to `last`, oldest first."""
    return (last - timedelta(days=number) for number in range(count - 1, -1, -1))
