"""The overview of the admin site: out of the roll-up, for those who may see it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.admin.dashboard import compact, money, seconds
from chat.models import CleanupRun, DailyUsage, FollowUp, Tenant
from chat.usage import day_of
from tests import builders
from tests.chat.admin_site import signed_in, text_of

pytestmark = pytest.mark.django_db


def used(tenant: Tenant, days_ago: int = 0, model: str = "m1", **fields: Any) -> DailyUsage:
    values: dict[str, Any] = {
        "turns": 10,
        "sessions": 4,
        "input_tokens": 30_000,
        "output_tokens": 5_000,
        "cost": Decimal("1.5"),
        "latencies": {"1000": 9, "8000": 1},
        "errors": {"http_500": 2},
        "good": 3,
        "bad": 1,
        **fields,
    }
    day = day_of(timezone.now()) - timedelta(days=days_ago)
    return DailyUsage.objects.create(
        day=day, tenant=tenant, endpoint_name="main", model_name=model, **values
    )


def page(person: Any, query: str = "") -> str:
    return text_of(signed_in(person).get(reverse("admin:index") + query))


def test_it_sums_the_days_and_says_what_each_figure_is() -> None:
    tenant = builders.tenant("default")
    used(tenant)
    used(tenant, days_ago=3, model="m2")
    used(tenant, days_ago=40, model="old")
    shown = page(builders.superuser())
    for wanted in ("The last 30 days", "20", "70.0 k", "3.00", "20.0 %", "1.0 s", "75.0 %"):
        assert wanted in shown
    assert "main · m2" in shown
    assert "main · old" not in shown
    assert "http_500" in shown
    assert "main · old" in page(builders.superuser("other"), "?days=90")


def test_staff_see_the_tenants_that_they_are_members_of() -> None:
    used(builders.tenant("mine"), model="my-model")
    used(builders.tenant("theirs"), model="their-model")
    person = builders.staff(tenants=[builders.tenant("mine")], permissions=["chat.view_dailyusage"])
    shown = page(person)
    assert "my-model" in shown
    assert "their-model" not in shown
    assert "What runs by itself" not in shown


def test_nobody_sees_it_without_the_permission() -> None:
    used(builders.tenant("mine"))
    shown = page(
        builders.staff(tenants=[builders.tenant("mine")], permissions=["chat.view_chatsession"])
    )
    assert "The last 30 days" not in shown


def test_cleanups_and_what_is_due_are_told_to_superusers() -> None:
    now = timezone.now()
    CleanupRun.objects.create(command="cleanup_chats", started_at=now, error="disk full")
    CleanupRun.objects.create(command="cleanup_chats", started_at=now, finished_at=now)
    FollowUp.objects.create(kind="title", subject="x", due_at=now, attempts=2)
    shown = page(builders.superuser())
    assert "cleanup_chats" in shown
    assert "disk full" not in shown  # the newest run counts
    assert "1 failed before" in shown


def test_the_number_of_queries_does_not_grow() -> None:
    counts = []
    person = builders.superuser()
    for days in (1, 20):
        for number in range(days):
            used(builders.tenant(f"t{days}-{number}"), days_ago=number)
        client = signed_in(person)
        client.get(reverse("admin:index"))
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get(reverse("admin:index"))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_figures_in_words() -> None:
    assert [compact(each) for each in (9_999, 10_000, 2_500_000, 3 * 10**9)] == [
        "9,999",
        "10.0 k",
        "2.5 M",
        "3.0 G",
    ]
    assert [money(each) for each in (Decimal(0), Decimal("0.0123"), Decimal("12.3"))] == [
        "0.00",
        "0.0123",
        "12.30",
    ]
    assert [seconds(each) for each in (None, 125, 1526)] == ["–", "125 ms", "1.5 s"]
