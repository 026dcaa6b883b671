"""The overview of the admin site: what was used and how it went, out of the daily roll-up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone

from chat.access import staff_tenants
from chat.admin.recurring import recurring, who_looks
from chat.models import DailyUsage
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
    cells: Sequence[str]
    """What the table says of it; the first is what the bar is as high as."""
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Picture:
    title: str
    columns: Sequence[str]
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


@dataclass(frozen=True)
class Lines:
    """The first rows of a table, and how many more there are."""

    shown: Sequence[Line]
    more: int


def dashboard(request: HttpRequest) -> dict[str, Any]:
    """Everything that the page shows; a fixed number of queries, whatever there is."""
    chosen = chosen_range(request)
    days = list(days_before(day_of(timezone.now()), chosen))
    tenants = staff_tenants(request.user)
    rows = DailyUsage.objects.filter(tenant__in=tenants, day__gte=days[0])
    by_day = {each["day"]: each for each in totals(rows, "day")}
    outcomes = read_outcomes(rows)
    is_whole = bool(request.user.is_superuser)  # what runs by itself serves every tenant
    return {
        "days": chosen,
        "ranges": RANGES,
        "tiles": tiles(by_day.values(), outcomes.together),
        "pictures": pictures(days, by_day, outcomes.by_day),
        "columns": LINE_COLUMNS,
        "models": lines(totals(rows, "endpoint_name", "model_name"), outcomes.by_model),
        "tenants": lines(totals(rows, "tenant__name", "tenant"), outcomes.by_tenant),
        "errors": error_lines(outcomes.together.errors),
        "works": recurring() if is_whole else [],
        "who_looks": who_looks(),
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
    return sorted(summed, key=tokens, reverse=True)


def tokens(sums: Mapping[str, Any]) -> int:
    return int(sums["input_tokens"] + sums["output_tokens"])


# --- How turns went -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcomes:
    errors: Counter[str] = field(default_factory=Counter)
    latencies: Counter[int] = field(default_factory=Counter)

    def add(self, failed: Mapping[str, int], took: Mapping[str, int]) -> None:
        self.errors.update(failed)
        self.latencies.update({int(end): count for end, count in took.items()})

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    def within(self, part: float) -> str:
        """The time that `part` of all turns took at most."""
        return seconds(percentile(self.latencies, part))


def _each() -> defaultdict[Any, Outcomes]:
    return defaultdict(Outcomes)


@dataclass(frozen=True)
class Grouped:
    """How turns went: all of them, by day, by endpoint with model, and by tenant."""

    together: Outcomes = field(default_factory=Outcomes)
    by_day: defaultdict[Any, Outcomes] = field(default_factory=_each)
    by_model: defaultdict[Any, Outcomes] = field(default_factory=_each)
    by_tenant: defaultdict[Any, Outcomes] = field(default_factory=_each)


def read_outcomes(rows: QuerySet[DailyUsage]) -> Grouped:
    found = Grouped()
    names = ("day", "endpoint_name", "model_name", "tenant", "tenant__name")
    for day, endpoint, model, tenant, name, failed, took in (
        rows.order_by().values_list(*names, "errors", "latencies").iterator(1000)
    ):
        for each in (
            found.together,
            found.by_day[day],
            found.by_model[endpoint, model],
            found.by_tenant[name, tenant],
        ):
            each.add(failed, took)
    return found


def tiles(by_day: Iterable[dict[str, Any]], outcomes: Outcomes) -> list[dict[str, str]]:
    days = list(by_day)
    sums = {name: sum((day[name] for day in days), Decimal(0)) for name in SUMMED}
    failed = outcomes.failed
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
            outcomes.within(0.5),
            f"95 % within {outcomes.within(0.95)}",
        ),
        tile("Liked", share(int(sums["good"]), rated), f"{rated:,} answers were rated"),
    ]


def tile(name: str, value: str, note: str) -> dict[str, str]:
    return {"name": name, "value": value, "note": note}


# --- Pictures and tables --------------------------------------------------------------------------


def pictures(
    days: Sequence[date],
    by_day: Mapping[date, Mapping[str, Any]],
    outcomes: Mapping[date, Outcomes],
) -> list[Picture]:
    """One picture a figure, and in the table behind it what belongs to the figure."""
    nothing = dict.fromkeys(SUMMED, 0)
    sums = [by_day.get(day, nothing) for day in days]
    went = [outcomes.get(day, Outcomes()) for day in days]
    medians = [percentile(each.latencies, 0.5) or 0 for each in went]

    def picture(title: str, values: Sequence[Any], columns: Mapping[str, Sequence[str]]) -> Picture:
        cells = list(zip(*columns.values(), strict=True))
        return Picture(title, list(columns), bars(days, values, cells))

    def numbers(name: str) -> list[str]:
        return [f"{int(each[name]):,}" for each in sums]

    def counts(name: str) -> list[str]:
        return [compact(int(each[name])) for each in sums]

    failed = [each.failed for each in went]
    return [
        picture(
            "Turns by day",
            [each["turns"] for each in sums],
            {"Turns": numbers("turns"), "Sessions": numbers("sessions")},
        ),
        picture(
            "Tokens by day",
            [tokens(each) for each in sums],
            {
                "Tokens": [compact(tokens(each)) for each in sums],
                "In": counts("input_tokens"),
                "Cached": counts("cached_input_tokens"),
                "Out": counts("output_tokens"),
            },
        ),
        picture(
            "Cost by day",
            [each["cost"] for each in sums],
            {"Cost": [money(each["cost"]) for each in sums], "Other calls": numbers("calls")},
        ),
        picture(
            "Failed turns by day",
            failed,
            {
                "Failed": [f"{each:,}" for each in failed],
                "Codes": [
                    ", ".join(f"{code}: {count:,}" for code, count in each.errors.most_common())
                    for each in went
                ],
            },
        ),
        picture(
            "Median time by day",
            medians,
            {
                "Median": [each.within(0.5) for each in went],
                "95 %": [each.within(0.95) for each in went],
            },
        ),
        picture(
            "Ratings by day",
            [each["good"] + each["bad"] for each in sums],
            {
                "Rated": [f"{int(each['good'] + each['bad']):,}" for each in sums],
                "Good": numbers("good"),
                "Bad": numbers("bad"),
            },
        ),
    ]


def bars(days: Sequence[date], values: Sequence[Any], cells: Sequence[Sequence[str]]) -> list[Bar]:
    most = max([*values, 0]) or 1
    width = WIDTH / len(values)
    return [
        Bar(
            label=day.isoformat(),
            cells=shown,
            x=round(number * width + GAP / 2, 2),
            y=round(HEIGHT - float(value / most) * HEIGHT, 2),
            width=round(width - GAP, 2),
            height=round(float(value / most) * HEIGHT, 2),
        )
        for number, (day, value, shown) in enumerate(zip(days, values, cells, strict=True))
    ]


LINE_COLUMNS = (
    "Sessions by day",
    "Turns",
    "In",
    "Out",
    "Cost",
    "Failed",
    "Median",
    "95 %",
    "Liked",
)


def lines(sums: Sequence[dict[str, Any]], outcomes: Mapping[Any, Outcomes]) -> Lines:
    """Shares are of everything, of what is not shown too."""
    whole = sum(tokens(each) for each in sums) or 1
    made = []
    for each in sums[:MOST_ROWS]:
        key = tuple(value for name, value in each.items() if name not in SUMMED)
        went = outcomes.get(key, Outcomes())
        made.append(
            Line(
                name=" · ".join(value for value in key if value and isinstance(value, str)),
                share=round(100 * tokens(each) / whole),
                cells=[
                    f"{each['sessions']:,}",
                    f"{each['turns']:,}",
                    compact(each["input_tokens"]),
                    compact(each["output_tokens"]),
                    money(each["cost"]),
                    share(went.failed, each["turns"]),
                    went.within(0.5),
                    went.within(0.95),
                    share(each["good"], each["good"] + each["bad"]),
                ],
            )
        )
    return Lines(made, more=len(sums) - len(made))


def error_lines(errors: Counter[str]) -> list[Line]:
    whole = sum(errors.values()) or 1
    return [
        Line(code, round(100 * count / whole), [f"{count:,}"])
        for code, count in errors.most_common(MOST_ROWS)
    ]


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
