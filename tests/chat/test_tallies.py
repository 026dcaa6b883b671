"""How turns ended and were rated, counted on the session's row whoever changes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from importlib import import_module

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.utils import timezone

from chat import leases, llm, retention
from chat.models import ChatSession, ChatTurn
from tests import builders
from tests.chat.api import Api
from tests.fakes import FakeEndpoint, answer, failure
from tests.orders import run_order, send

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("failed_turns", "interrupted_turns", "stopped_turns", "good_votes", "bad_votes")


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def tallies_of(chat_session: ChatSession) -> dict[str, int]:
    """Those that are not 0."""
    row = ChatSession.objects.filter(pk=chat_session.pk).values(*NAMES).get()
    return {name: count for name, count in row.items() if count}


def ended(status: str) -> ChatTurn:
    return builders.exchange(builders.chat_session(), status=status)


@pytest.fixture
def talking(fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    return builders.chat_session(assistant=builders.assistant(endpoint=endpoint))


async def test_a_failed_turn_is_counted_and_one_that_answers_is_not(
    talking: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("Yes."), failure(401), failure(401), answer("Again."))
    for text in ("One", "Two", "Three", "Four"):
        await run_order(send(talking, text))
    assert await sync_to_async(tallies_of)(talking) == {"failed_turns": 2}


def test_a_turn_that_lost_its_process_is_counted() -> None:
    chat_session = builders.chat_session()
    turn = builders.exchange(chat_session, status="running", is_partial=True)
    ChatSession.objects.filter(pk=chat_session.pk).update(
        running_turn=turn.pk,
        lease_owner="u" + "0" * 32,
        lease_expires_at=timezone.now() - timedelta(seconds=1),
    )
    holder = leases.holder(chat_session.pk)
    assert holder is not None
    assert leases.settle(chat_session.pk, holder)
    assert tallies_of(chat_session) == {"interrupted_turns": 1}


def test_a_rating_counts_once_until_it_is_taken_back() -> None:
    turn = ended("completed")
    api = Api(turn.chat_session.user)
    path = f"/sessions/{turn.chat_session_id}/turns/{turn.pk}/feedback/"
    for value, counted in ((1, {"good_votes": 1}), (1, {"good_votes": 1}), (-1, {"bad_votes": 1})):
        assert api.send("put", path, {"value": value}).status_code == 200
        assert tallies_of(turn.chat_session) == counted
    assert api.delete(path).status_code == 204
    assert tallies_of(turn.chat_session) == {}


def test_what_is_deleted_counts_no_more() -> None:
    turn = ended("stopped")
    builders.exchange(turn.chat_session, status="failed")
    builders.feedback(turn, -1)
    assert tallies_of(turn.chat_session) == {"stopped_turns": 1, "failed_turns": 1, "bad_votes": 1}
    retention.forget_pair(turn.chat_session_id, turn.input_id)
    assert tallies_of(turn.chat_session) == {"failed_turns": 1}


def test_what_was_there_before_the_counters_is_counted_by_the_migration() -> None:
    turns = [ended(status) for status in ("failed", "interrupted", "stopped", "completed")]
    builders.exchange(turns[0].chat_session, status="failed")
    builders.feedback(turns[3], 1)
    builders.feedback(turns[2], -1)
    ChatSession.objects.update(**dict.fromkeys(NAMES, 9))
    import_module("chat.migrations.0017_session_tallies").count_what_is_there(apps, None)
    assert [tallies_of(turn.chat_session) for turn in turns] == [
        {"failed_turns": 2},
        {"interrupted_turns": 1},
        {"stopped_turns": 1, "bad_votes": 1},
        {"good_votes": 1},
    ]
