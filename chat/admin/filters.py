"""Filters that ask instead of listing thousands of choices, and that never count."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib.admin.filters import ListFilter
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from memory.text import clean


class AskingFilter(ListFilter):
    """A small form in the filter column; `parameters` are its fields in the address."""

    parameters: tuple[str, ...] = ()

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Model], model_admin: Any
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.asked: dict[str, str] = {}
        for name in self.parameters:
            if name in params:
                self.asked[name] = clean(params.pop(name)[-1]).strip()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.parameters = cls.names()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        raise NotImplementedError

    def expected_parameters(self) -> list[str | None]:
        return list(self.parameters)

    def has_output(self) -> bool:
        return True

    def rest(self, changelist: ChangeList) -> list[tuple[str, str]]:
        """What the address says beside this filter, kept when its form is sent."""
        return [
            (name, value)
            for name, values in changelist.filter_params.items()
            if name not in self.parameters
            for value in (values if isinstance(values, list) else [values])
        ]

    def without(self, changelist: ChangeList) -> str:
        return changelist.get_query_string(dict.fromkeys(self.parameters))


class TextFilter(AskingFilter):
    """One line of text, with suggestions where there are few."""

    template = "admin/filter_text.html"
    parameter_name = ""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (cls.parameter_name,)

    def suggestions(self, request: HttpRequest) -> list[str]:
        return []

    def matches(self, value: str) -> Q:
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.asked.get(self.parameter_name)
        return queryset.filter(self.matches(value)) if value else queryset

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        yield {
            "name": self.parameter_name,
            "value": self.asked.get(self.parameter_name, ""),
            "suggestions": self.suggestions(self.request),
            "rest": self.rest(changelist),
            "without": self.without(changelist),
        }


class DateRangeFilter(AskingFilter):
    """From one day through another, both whole, in the current time zone."""

    template = "admin/filter_dates.html"
    field_name = ""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (f"{cls.field_name}_from", f"{cls.field_name}_through")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        start, end = (_day(self.asked.get(name, "")) for name in self.parameters)
        if start:
            queryset = queryset.filter(**{f"{self.field_name}__gte": _midnight(start)})
        if end:
            after = _midnight(end + timedelta(days=1))
            queryset = queryset.filter(**{f"{self.field_name}__lt": after})
        return queryset

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        start, end = (self.asked.get(name, "") for name in self.parameters)
        yield {
            "from": {"name": self.parameters[0], "value": start},
            "through": {"name": self.parameters[1], "value": end},
            "rest": self.rest(changelist),
            "without": self.without(changelist),
        }


def _day(text: str) -> date | None:
    """A day that every engine can compare with; anything else asks for nothing."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if 1900 <= day.year <= 9998 else None


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
