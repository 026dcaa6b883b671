"""Ratings of answers over REST."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from chat.models import ChatSession, ChatTurn, Feedback, FollowUp
from tests import builders
from tests.chat.api import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


@pytest.fixture
def turn(chat_session: ChatSession) -> ChatTurn:
    return builders.exchange(chat_session)


def path(turn: ChatTurn) -> str:
    return f"/sessions/{turn.chat_session_id}/turns/{turn.pk}/feedback/"


def put(person: Any, turn: ChatTurn, **body: Any) -> Any:
    return Api(person).send("put", path(turn), body)


def test_a_rating_is_kept_once_and_replaced(chat_session: ChatSession, turn: ChatTurn) -> None:
    assert put(chat_session.user, turn, value=1).json() == {"value": 1, "comment": ""}
    again = put(chat_session.user, turn, value=-1, comment="错了 😀")
    assert again.json() == {"value": -1, "comment": "错了 😀"}
    assert [(each.value, each.comment) for each in Feedback.objects.all()] == [(-1, "错了 😀")]
    api = Api(chat_session.user)
    shown = api.get(f"/sessions/{chat_session.pk}/messages/").json()["results"]
    assert [each["turn"]["feedback"] for each in shown] == [-1, -1]
    assert api.get(f"/sessions/{chat_session.pk}/turns/{turn.pk}/").json()["feedback"] == -1
    assert FollowUp.objects.filter(kind="usage").count() >= 1  # the roll-up of its day


def test_it_can_be_taken_back(chat_session: ChatSession, turn: ChatTurn) -> None:
    put(chat_session.user, turn, value=1)
    for _ in range(2):
        assert Api(chat_session.user).delete(path(turn)).status_code == 204
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("value", [0, 2, "good", None, True])
def test_other_values_are_refused(chat_session: ChatSession, turn: ChatTurn, value: Any) -> None:
    assert put(chat_session.user, turn, value=value).status_code == 400
    assert not Feedback.objects.exists()


def test_a_comment_is_bounded_and_cleaned(chat_session: ChatSession, turn: ChatTurn) -> None:
    assert put(chat_session.user, turn, value=1, comment="x" * 2001).status_code == 400
    answer = put(chat_session.user, turn, value=1, comment="a\x00b\ud83d").json()
    assert (answer["comment"], answer["cleaned"]) == ("ab\ufffd", ["comment"])


def test_a_temporary_conversation_takes_a_rating_without_words() -> None:
    chat_session = builders.chat_session(is_temporary=True)
    turn = builders.exchange(chat_session)
    assert put(chat_session.user, turn, value=1, comment="secret").json()["code"] == "temporary"
    assert put(chat_session.user, turn, value=1).status_code == 200


def test_nobody_else_rates_it(turn: ChatTurn) -> None:
    stranger = builders.user()
    foreign = put(stranger, turn, value=1)
    unknown = Api(stranger).send(
        "put", f"/sessions/{uuid.uuid4()}/turns/{turn.pk}/feedback/", {"value": 1}
    )
    assert (foreign.status_code, foreign.json()) == (404, unknown.json())
    assert Api(stranger).delete(path(turn)).status_code == 404
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("body", [{}, {"value": 7}, {"nonsense": 1}, []])
def test_a_wrong_body_for_somebody_elses_turn_tells_nothing(turn: ChatTurn, body: Any) -> None:
    bob = Api(builders.user("bob"))
    nowhere = f"/sessions/{turn.chat_session_id}/turns/{uuid.uuid4()}/feedback/"
    answers = [bob.send("put", each, body) for each in (path(turn), nowhere)]
    assert [each.status_code for each in answers] == [404, 404]
    assert answers[0].content == answers[1].content
