"""The overview of the admin site: what was used and how it went, out of the daily roll-up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone

from chat.access import staff_tenants
from chat.models import CleanupRun, DailyUsage, FollowUp
from chat.usage import day_of, days_before, percentile

RANGES = (7, 30, 90)  # days
USUAL_RANGE = 30
MOST_ROWS = 12  # of a table beside a picture
WIDTH, HEIGHT, GAP = 640, 120, 2  # of a picture, in its own units

SUMMED = (
    "sessions",
    "turns",
    "calls",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "cost",
    "good",
    "bad",
)


@dataclass(frozen=True)
class Bar:
    """One bar of a picture, and the row of the table behind it."""

    label: str
    value: Any
    shown: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Picture:
    title: str
    bars: Sequence[Bar]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def first(self) -> str:
        return self.bars[0].label

    @property
    def last(self) -> str:
        return self.bars[-1].label


@dataclass(frozen=True)
class Line:
    """A row of a table: a name, how much of the whole it is, and figures."""

    name: str
    share: int
    cells: Sequence[str]


def dashboard(request: HttpRequest) -> dict[str, Any]:
    """Everything that the page shows; a fixed number of queries, whatever there is."""
    chosen = chosen_range(request)
    days = list(days_before(day_of(timezone.now()), chosen))
    tenants = staff_tenants(request.user)
    rows = DailyUsage.objects.filter(tenant__in=tenants, day__gte=days[0])
    by_day = {each["day"]: each for each in totals(rows, "day")}
    outcomes = read_outcomes(rows)
    return {
        "days": chosen,
        "ranges": RANGES,
        "tiles": tiles(by_day.values(), outcomes),
        "pictures": pictures(days, by_day),
        "models": lines(totals(rows, "endpoint_name", "model_name")),
        "tenants": lines(totals(rows, "tenant__name")),
        "errors": error_lines(outcomes.errors),
        "cleanups": cleanups(),
        "due": follow_ups(),
        "updated_at": rows.order_by("-updated_at").values_list("updated_at", flat=True).first(),
    }


def chosen_range(request: HttpRequest) -> int:
    try:
        asked = int(request.GET.get("days", ""))
    except ValueError:
        return USUAL_RANGE
    return asked if asked in RANGES else USUAL_RANGE


def totals(rows: QuerySet[DailyUsage], *names: str) -> list[dict[str, Any]]:
    """Sums by some columns; days in order, everything else by its tokens."""
    summed = rows.order_by().values(*names).annotate(**{each: Sum(each) for each in SUMMED})
    if names == ("day",):
        return list(summed.order_by("day"))
    return sorted(summed, key=tokens, reverse=True)[:MOST_ROWS]


def tokens(sums: dict[str, Any]) -> int:
    return int(sums["input_tokens"] + sums["output_tokens"])


# --- How turns went -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcomes:
    errors: Counter[str]
    latencies: Counter[int]


def read_outcomes(rows: QuerySet[DailyUsage]) -> Outcomes:
    errors: Counter[str] = Counter()
    latencies: Counter[int] = Counter()
    for failed, took in rows.order_by().values_list("errors", "latencies").iterator(1000):
        errors.update(failed)
        latencies.update({int(end): count for end, count in took.items()})
    return Outcomes(errors, latencies)


def tiles(by_day: Iterable[dict[str, Any]], outcomes: Outcomes) -> list[dict[str, str]]:
    days = list(by_day)
    sums = {name: sum((day[name] for day in days), Decimal(0)) for name in SUMMED}
    failed = sum(outcomes.errors.values())
    turns = int(sums["turns"])
    rated = int(sums["good"] + sums["bad"])
    return [
        tile("Turns", f"{turns:,}", f"in {int(sums['sessions']):,} sessions, counted by day"),
        tile(
            "Tokens",
            compact(int(sums["input_tokens"] + sums["output_tokens"])),
            f"{compact(int(sums['input_tokens']))} in,"
            f" {compact(int(sums['cached_input_tokens']))} of them cached;"
            f" {compact(int(sums['output_tokens']))} out",
        ),
        tile("Cost", money(sums["cost"]), f"with {int(sums['calls']):,} calls beside turns"),
        tile("Failed", share(failed, turns), f"{failed:,} turns"),
        tile(
            "Median time",
            seconds(percentile(outcomes.latencies, 0.5)),
            f"95 % within {seconds(percentile(outcomes.latencies, 0.95))}",
        ),
        tile("Liked", share(int(sums["good"]), rated), f"{rated:,} answers were rated"),
    ]


def tile(name: str, value: str, note: str) -> dict[str, str]:
    return {"name": name, "value": value, "note": note}


# --- Pictures and tables --------------------------------------------------------------------------


def pictures(days: Sequence[date], by_day: dict[date, dict[str, Any]]) -> list[Picture]:
    def picture(title: str, value: Callable[[dict[str, Any]], Any], shown: Any) -> Picture:
        values = [value(by_day[day]) if day in by_day else 0 for day in days]
        return Picture(title, bars(days, values, shown))

    return [
        picture("Turns by day", lambda sums: sums["turns"], lambda value: f"{value:,}"),
        picture("Tokens by day", tokens, compact),
        picture("Cost by day", lambda sums: sums["cost"], money),
    ]


def bars(days: Sequence[date], values: Sequence[Any], shown: Callable[[Any], str]) -> list[Bar]:
    most = max([*values, 0]) or 1
    width = WIDTH / len(values)
    return [
        Bar(
            label=day.isoformat(),
            value=value,
            shown=shown(value),
            x=round(number * width + GAP / 2, 2),
            y=round(HEIGHT - float(value / most) * HEIGHT, 2),
            width=round(width - GAP, 2),
            height=round(float(value / most) * HEIGHT, 2),
        )
        for number, (day, value) in enumerate(zip(days, values, strict=True))
    ]


def lines(sums: Sequence[dict[str, Any]]) -> list[Line]:
    whole = sum(tokens(each) for each in sums) or 1
    return [
        Line(
            name=" · ".join(str(each[name]) for name in each if name not in SUMMED),
            share=round(100 * tokens(each) / whole),
            cells=[
                f"{each['turns']:,}",
                compact(each["input_tokens"]),
                compact(each["output_tokens"]),
                money(each["cost"]),
            ],
        )
        for each in sums
    ]


def error_lines(errors: Counter[str]) -> list[Line]:
    whole = sum(errors.values()) or 1
    return [
        Line(code, round(100 * count / whole), [f"{count:,}"])
        for code, count in errors.most_common(MOST_ROWS)
    ]


# --- What runs by itself --------------------------------------------------------------------------


def cleanups() -> list[CleanupRun]:
    """The newest run of every cleanup."""
    newest = CleanupRun.objects.order_by().values("command").annotate(last=Max("id"))
    return list(CleanupRun.objects.filter(pk__in=newest.values("last")).order_by("command"))


def follow_ups() -> list[dict[str, Any]]:
    """What is due, by kind: how many wait, since when, and how many of them failed before."""
    rows = FollowUp.objects.order_by().values("kind")
    found = rows.annotate(
        count=Count("id"), failing=Count("id", filter=Q(attempts__gt=0)), next=Min("due_at")
    )
    names = dict(FollowUp.Kind.choices)
    return [{**each, "name": names.get(each["kind"], each["kind"])} for each in found]


# --- Figures in words -----------------------------------------------------------------------------


def compact(number: int) -> str:
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= limit:
            return f"{number / (1000 if unit == 'k' else limit):,.1f} {unit}"
    return f"{number:,}"


def money(amount: Any) -> str:
    return f"{amount:,.2f}" if not amount or amount >= 1 else f"{amount:,.4f}"


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def seconds(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "–"
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 1000 else f"{milliseconds} ms"
