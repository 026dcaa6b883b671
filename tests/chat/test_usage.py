"""The daily roll-up: made from the rows of a day, as often as wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db.models.functions import Now
from django.utils import timezone

from chat import dues, llm, retention, usage
from chat.models import ChatSession, ChatTurn, DailyUsage, Feedback, FollowUp, ModelCall
from chat.usage import latency_class, percentile
from tests import builders
from tests.fakes import FakeEndpoint
from tests.follow_ups import work_off
from tests.orders import say, session_at

DAY = date(2026, 3, 1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def chat_session(db: None) -> ChatSession:
    return builders.chat_session()


def turn(chat_session: ChatSession, seconds: float | None = 2.0, **fields: Any) -> ChatTurn:
    """A turn of the day with 100 tokens in, 40 of them cached, and 10 out."""
    began = fields.pop("began", NOON)
    made = builders.exchange(chat_session, "q", "a")
    values: dict[str, Any] = {
        "status": "completed",
        "started_at": began,
        "finished_at": began + timedelta(seconds=seconds) if seconds is not None else None,
        "endpoint_name": "main",
        "model_name": "m1",
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "output_tokens": 10,
        "cost": Decimal("0.5"),
        **fields,
    }
    ChatTurn.objects.filter(pk=made.pk).update(**values)
    return made


def row() -> DailyUsage:
    return DailyUsage.objects.get(day=DAY)


def test_turns_calls_and_feedback_of_a_day_are_summed(chat_session: ChatSession) -> None:
    first = turn(chat_session)
    turn(chat_session, seconds=9.0)
    turn(chat_session, status="failed", error_code="http_500", seconds=1.0)
    turn(chat_session, began=NOON + timedelta(days=1))  # another day's
    call = ModelCall.objects.create(
        tenant=chat_session.tenant,
        kind="title",
        endpoint_name="main",
        model_name="m1",
        input_tokens=7,
        output_tokens=3,
        cost=Decimal("0.25"),
        started_at=NOON,
    )
    ModelCall.objects.filter(pk=call.pk).update(finished_at=NOON)
    liked = Feedback.objects.create(turn=first, user=chat_session.user, value=1)
    Feedback.objects.filter(pk=liked.pk).update(created_at=NOON)
    assert usage.roll_up(DAY) == 1
    found = row()
    assert (found.sessions, found.turns, found.calls) == (1, 3, 1)
    assert (found.input_tokens, found.cached_input_tokens, found.output_tokens) == (307, 120, 33)
    assert found.cost == Decimal("1.75")
    assert found.errors == {"http_500": 1}
    assert found.latencies == {str(latency_class(2000)): 1, str(latency_class(9000)): 1}
    assert (found.good, found.bad) == (1, 0)


def test_a_day_may_be_made_again_and_counts_what_was_deleted_since(
    chat_session: ChatSession,
) -> None:
    other = builders.chat_session(tenant=chat_session.tenant)
    turn(chat_session)
    turn(other, status="failed", error_code="http_500", seconds=1.0)
    turn(other, model_name="m2")
    assert [usage.roll_up(DAY), usage.roll_up(DAY)] == [2, 2]
    figures = (*usage.USED, "errors", "latencies")
    before = list(DailyUsage.objects.order_by("model_name").values(*figures))
    assert [each["turns"] for each in before] == [2, 1]
    retention.forget_session(other.pk)
    assert usage.roll_up(DAY) == 2
    after = DailyUsage.objects.order_by("model_name").values(*figures)
    assert list(after) == before
    for _ in range(2):
        turn(chat_session)
    usage.roll_up(DAY)
    assert DailyUsage.objects.get(model_name="m1").turns == 3


def test_a_rating_that_is_taken_back_is_not_counted(chat_session: ChatSession) -> None:
    liked = Feedback.objects.create(turn=turn(chat_session), user=chat_session.user, value=1)
    Feedback.objects.filter(pk=liked.pk).update(created_at=NOON)
    usage.roll_up(DAY)
    assert row().good == 1
    liked.delete()
    usage.roll_up(DAY)
    assert (row().good, row().turns) == (0, 1)


def test_tenants_endpoints_and_models_are_apart(chat_session: ChatSession) -> None:
    other = builders.chat_session(tenant=builders.tenant("other"))
    turn(chat_session)
    turn(other)
    turn(other, endpoint_name="spare")
    usage.roll_up(DAY)
    keys = DailyUsage.objects.values_list("tenant__slug", "endpoint_name", "turns")
    assert sorted(keys) == [("default", "main", 1), ("other", "main", 1), ("other", "spare", 1)]


def test_the_command_makes_a_range_of_days(chat_session: ChatSession) -> None:
    turn(chat_session)
    call_command("roll_up_usage", "--from", "2026-02-27", "--through", "2026-03-02")
    assert row().turns == 1


@pytest.mark.parametrize(
    ("milliseconds", "end"), [(0, 100), (100, 100), (101, 125), (125, 125), (126, 156)]
)
def test_latencies_fall_into_classes_a_quarter_wider_each(milliseconds: float, end: int) -> None:
    assert latency_class(milliseconds) == end


def test_percentiles_are_the_upper_ends_of_classes() -> None:
    found = Counter({100: 50, 500: 45, 9000: 5})
    assert [percentile(found, share) for share in (0.5, 0.51, 0.95, 0.96)] == [100, 500, 500, 9000]
    assert percentile(Counter(), 0.5) is None


@pytest.mark.django_db(transaction=True)
class TestFollowUp:
    @pytest.fixture(autouse=True)
    async def _close_clients(self) -> AsyncIterator[None]:
        yield
        await llm.aclose()

    async def test_a_turn_makes_the_roll_up_of_its_day_due_once_in_five_minutes(
        self, fake_endpoint: FakeEndpoint, settings: Any
    ) -> None:
        settings.CHAT_TITLES_ENABLED = False
        settings.CHAT_PREFERENCES_MODE = "off"
        chat_session = await sync_to_async(session_at)(fake_endpoint)
        await say(chat_session, "one")
        await say(chat_session, "two")
        today = usage.day_of(timezone.now())
        due = [each async for each in FollowUp.objects.filter(kind=dues.Kind.USAGE)]
        assert {each.subject.partition("/")[0] for each in due} == {today.isoformat()}
        assert len(due) <= 2  # the second turn may stand in the next five minutes
        assert all(each.due_at > each.created_at for each in due)
        await FollowUp.objects.aupdate(due_at=Now())
        await work_off()
        assert (await DailyUsage.objects.aget(day=today)).turns == 2
        assert not await FollowUp.objects.filter(kind=dues.Kind.USAGE).aexists()
