"""What is due: marked once, claimed by one, given back, taken over, backed off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from chat import dues
from chat.dues import Claim
from chat.models import FollowUp
from tests import builders

pytestmark = pytest.mark.django_db


def mark(subject: str = "x", kind: str = "title", delay: float = 0.0) -> FollowUp:
    dues.mark(kind, subject, delay=delay)
    return FollowUp.objects.get(kind=kind, subject=subject)


def claim() -> Claim:
    [found] = dues.claim(10)
    return found


def row() -> tuple[int, int, str, str]:
    """Version, failures, last error, who has it."""
    found = FollowUp.objects.get()
    return found.version, found.attempts, found.last_error, found.claimed_by


def wait_of(found: FollowUp) -> float:
    found.refresh_from_db()
    return (found.due_at - timezone.now()).total_seconds()


# --- Marking --------------------------------------------------------------------------------------


def test_marking_again_raises_the_version_of_the_one_row() -> None:
    assert mark().version == 1
    assert mark().version == 2
    assert mark(kind="summary").version == 1
    assert FollowUp.objects.count() == 2


def test_what_is_done_while_it_is_marked_again_is_due_all_the_same() -> None:
    mark()
    claimed = [claim()]

    def done_meanwhile(execute: Any, statement: str, *args: Any) -> Any:
        result = execute(statement, *args)
        if claimed and statement.startswith("INSERT"):
            dues.done(claimed.pop())
        return result

    with connection.execute_wrapper(done_meanwhile):
        dues.mark("title", "x")
    assert row() == (1, 0, "", "")


def test_a_session_is_marked_for_several_kinds_at_once_and_takes_them_along() -> None:
    chat_session = builders.chat_session()
    dues.mark_kinds(["title", "summary"], str(chat_session.pk), chat_session.pk)
    dues.mark_kinds([], str(chat_session.pk), chat_session.pk)
    rows = FollowUp.objects.order_by("id").values_list("kind", "version", "chat_session")
    assert list(rows) == [("title", 1, chat_session.pk), ("summary", 1, chat_session.pk)]
    chat_session.delete()
    assert not FollowUp.objects.exists()


def test_what_is_marked_for_later_is_claimed_later() -> None:
    found = mark(delay=60)
    assert dues.claim(10) == []
    assert 50 < wait_of(found) <= 60


# --- Claiming -------------------------------------------------------------------------------------


def test_the_longest_waiting_is_claimed_first_and_no_more_than_asked_for() -> None:
    for number in range(3):
        mark(str(number))
    FollowUp.objects.filter(subject="2").update(due_at=Now() - timedelta(hours=1))
    assert [each.subject for each in dues.claim(2)] == ["2", "0"]
    assert [each.subject for each in dues.claim(2)] == ["1"]
    assert dues.claim(2) == []


def test_a_clock_that_was_put_back_holds_nothing_up_for_ever() -> None:
    mark("1")
    mark("2")
    FollowUp.objects.filter(subject="1").update(due_at=Now() + timedelta(days=400))
    FollowUp.objects.filter(subject="2").update(
        claimed_by="somebody", claimed_until=Now() + timedelta(days=400)
    )
    assert sorted((each.subject, each.attempts) for each in dues.claim(10)) == [("1", 0), ("2", 1)]
    assert dues.claim(10) == []


def test_only_the_kinds_that_are_asked_for_are_claimed() -> None:
    mark(kind="usage")
    assert dues.claim(10, ["title"]) == []
    assert len(dues.claim(10, ["usage"])) == 1


def test_what_is_done_is_gone_unless_it_became_due_again_meanwhile() -> None:
    mark()
    dues.done(claim())
    assert not FollowUp.objects.exists()
    mark()
    taken = claim()
    mark()
    dues.done(taken)
    assert row() == (2, 0, "", "")
    dues.done(claim())
    assert not FollowUp.objects.exists()


def test_what_is_given_back_can_be_claimed_at_once() -> None:
    mark()
    dues.give_back(claim())
    assert row() == (1, 0, "", "")
    assert claim().attempts == 0


def test_failures_wait_twice_as_long_each_time_up_to_a_day() -> None:
    found = mark()
    waits = []
    for _ in range(14):
        FollowUp.objects.update(due_at=Now())
        waits.append(dues.failed(claim(), "timeout: too slow"))
    assert waits[:4] == [30, 60, 120, 240]
    assert waits[-1] == 86_400
    assert row() == (1, 14, "timeout: too slow", "")
    assert wait_of(found) > 86_000


def test_a_failed_one_that_is_marked_again_keeps_waiting() -> None:
    mark()
    dues.failed(claim(), "x: y")
    mark()
    assert dues.claim(10) == []
    assert row() == (2, 1, "x: y", "")


def test_an_error_of_any_length_and_text_is_kept_as_far_as_it_fits() -> None:
    mark()
    dues.failed(claim(), "code: \x00\ud800" + "x" * 1_000)
    assert row()[2] == ("code: \ufffd" + "x" * 1_000)[: dues.ERROR_LENGTH]


def test_staff_can_take_the_backoff_away() -> None:
    found = mark()
    dues.failed(claim(), "x: y")
    assert dues.try_now([found.pk]) == 1
    assert claim().attempts == 1


# --- Taking over ----------------------------------------------------------------------------------


def test_a_claim_that_expired_is_taken_over_counted_as_a_failure_and_lost_to_the_first(
    settings: LazySettings,
) -> None:
    settings.CHAT_FOLLOW_UP_SECONDS = 100
    mark()
    first = claim()
    assert dues.claim(10) == []
    held: datetime | None = FollowUp.objects.get().claimed_until
    assert held is not None
    assert 140 < (held - timezone.now()).total_seconds() <= 150
    FollowUp.objects.update(claimed_until=Now() - timedelta(seconds=1))
    second = claim()
    assert (second.attempts, second.token == first.token) == (1, False)
    dues.done(first)
    dues.failed(first, "late: x")
    dues.give_back(first)
    assert row() == (1, 1, dues.WORKER_LOST, second.token)
    dues.done(second)
    assert not FollowUp.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_many_who_claim_at_once_share_without_overlap() -> None:
    for number in range(30):
        mark(str(number))

    def work() -> list[int]:
        try:
            return [each.id for _ in range(30) for each in dues.claim(2)]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        taken = [
            each for future in [pool.submit(work) for _ in range(4)] for each in future.result()
        ]
    assert len(taken) == len(set(taken)) == 30


@pytest.mark.django_db(transaction=True)
def test_many_who_mark_at_once_lose_no_mark() -> None:
    def work() -> None:
        try:
            for _ in range(10):
                dues.mark("title", "x")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work) for _ in range(4)]:
            future.result()
    assert FollowUp.objects.get().version == 40
