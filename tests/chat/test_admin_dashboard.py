"""The overview of the admin site: out of the roll-up, for those who may see it."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.admin.dashboard import compact, money, seconds
from chat.admin.recurring import COMMANDS
from chat.management import runs
from chat.models import CleanupRun, DailyUsage, ExportJob, FollowUp, ModelCall, Tenant
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


def works(person: Any) -> dict[str, Any]:
    client = signed_in(person)
    return {each.name: each for each in client.get(reverse("admin:index")).context["works"]}


def ran(command: str, began: datetime, **fields: Any) -> CleanupRun:
    return CleanupRun.objects.create(
        command=command, started_at=began, **{"finished_at": began, **fields}
    )


def test_every_model_day_and_tenant_has_its_own_failures_times_and_ratings() -> None:
    one, two = builders.tenant("one"), builders.tenant("two")
    used(one, model="slow", latencies={"8000": 4}, errors={"http_500": 3, "timeout": 2})
    used(two, days_ago=1, model="quick", latencies={"500": 4}, errors={}, good=0, bad=2)
    context = signed_in(builders.superuser()).get(reverse("admin:index")).context
    columns = ["Sessions by day", "Turns", "Failed", "Median", "95 %", "Liked"]
    places = [context["columns"].index(name) for name in columns]
    for lines, names in (
        (context["models"], ("main · slow", "main · quick")),
        (context["tenants"], ("One", "Two")),
    ):
        shown = {line.name: [line.cells[place] for place in places] for line in lines.shown}
        assert shown == {
            names[0]: ["4", "10", "50.0 %", "8.0 s", "8.0 s", "75.0 %"],
            names[1]: ["4", "10", "0.0 %", "500 ms", "500 ms", "0.0 %"],
        }
    last = {each.title: (each.columns, each.bars[-1].cells) for each in context["pictures"]}
    assert last == {
        "Turns by day": (["Turns", "Sessions"], ("10", "4")),
        "Tokens by day": (["Tokens", "In", "Cached", "Out"], ("35.0 k", "30.0 k", "0", "5,000")),
        "Cost by day": (["Cost", "Other calls"], ("1.50", "0")),
        "Failed turns by day": (["Failed", "Codes"], ("5", "http_500: 3, timeout: 2")),
        "Median time by day": (["Median", "95 %"], ("8.0 s", "8.0 s")),
        "Ratings by day": (["Rated", "Good", "Bad"], ("4", "3", "1")),
    }


def test_nothing_used_is_shown_as_nothing() -> None:
    context = signed_in(builders.superuser()).get(reverse("admin:index")).context
    for picture in context["pictures"]:
        assert {bar.height for bar in picture.bars} == {0}
        assert len(picture.bars) == 30
    assert context["models"].shown == context["tenants"].shown == context["errors"] == []


def test_of_a_thousand_models_the_largest_are_shown_and_shares_are_of_all() -> None:
    tenant = builders.tenant("one")
    used(tenant, model="largest", input_tokens=300, output_tokens=0)
    for number in range(700):
        used(tenant, model=f"small {number}", input_tokens=1, output_tokens=0)
    page = signed_in(builders.superuser()).get(reverse("admin:index"))
    models = page.context["models"]
    assert (models.shown[0].name, models.shown[0].share) == ("main · largest", 30)
    assert (len(models.shown), models.more) == (12, 689)
    assert "689 more with fewer tokens" in page.content.decode()


def test_each_cleanup_says_when_it_ran_and_when_it_runs_next(settings: Any) -> None:
    settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS = 90
    now = timezone.now()
    ran("cleanup_chats", now - timedelta(hours=30), error="disk full")
    last = ran("cleanup_chats", now - timedelta(hours=6))
    ran("cleanup_chats", now - timedelta(hours=1), is_preview=True)
    ran("reap_turns", now - timedelta(minutes=65))
    ran("reap_turns", now - timedelta(minutes=60), error="OperationalError")
    found = works(builders.superuser())
    cleanup, reaping = (found[name] for name in COMMANDS.values())
    assert (cleanup.last, cleanup.problem, cleanup.is_late) == (last.started_at, "", False)
    assert cleanup.next == now + timedelta(hours=18)
    assert (reaping.problem, reaping.is_late) == ("failed", True)
    assert reaping.next == now - timedelta(minutes=55)


def test_every_run_of_a_command_is_recorded_and_only_the_newest_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "KEPT", 2)
    for _ in range(4):
        call_command("reap_turns")
    with pytest.raises(ZeroDivisionError), runs.recorded("reap_turns"):
        raise ZeroDivisionError
    kept = CleanupRun.objects.order_by("pk")
    assert [(run.command, run.error, bool(run.finished_at)) for run in kept] == [
        ("reap_turns", "", True),
        ("reap_turns", "ZeroDivisionError", True),
    ]


def test_a_cleanup_that_never_ran_or_does_nothing_says_so(settings: Any) -> None:
    settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS = 0
    cleanup, reaping = (works(builders.superuser())[name] for name in COMMANDS.values())
    assert cleanup.note == "deletes nothing: no number of days is set"
    assert reaping.note == "never ran: have your scheduler start it"
    tenant = builders.tenant("default")
    Tenant.objects.filter(pk=tenant.pk).update(retention_days=30)
    ran("cleanup_chats", timezone.now(), finished_at=None)
    cleanup = works(builders.superuser("other"))[COMMANDS["cleanup_chats"]]
    assert (cleanup.problem, cleanup.note) == ("not finished", "not known after one run")


def test_what_follows_turns_says_when_it_was_done_and_is_due(settings: Any) -> None:
    now = timezone.now()
    person = builders.superuser()
    FollowUp.objects.create(kind="title", subject="x", due_at=now, attempts=2)
    FollowUp.objects.create(kind="title", subject="y", due_at=now + timedelta(hours=1))
    made = ModelCall.objects.create(
        kind="summary", tenant=builders.tenant("default"), started_at=now
    )
    row = used(builders.tenant("default"))
    export = ExportJob.objects.create(
        owner=person, kind="sessions", format="csv", status="done", expires_at=now
    )
    found = works(person)
    title = found["Title"]
    assert (title.next, title.note, title.failing) == (now, "2 waiting", 1)
    assert (found["Summary"].last, found["Summary"].note) == (made.finished_at, "nothing waits")
    assert found["Daily usage"].last == row.updated_at
    assert found["Files of exports"].next == export.expires_at
    assert "The web processes look every 10 seconds" in page(builders.superuser("b"))
    settings.CHAT_FOLLOW_UPS_IN_WEB = False
    assert "manage.py run_due --loop looks" in page(builders.superuser("c"))


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
