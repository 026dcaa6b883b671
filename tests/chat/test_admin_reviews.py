"""Reviews: who may bring a session to which state, who wins a claim, and what is next."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.admin import reviews
from chat.models import (
    AuditEvent,
    ChatSession,
    ReviewNote,
    ReviewScore,
)
from tests import builders
from tests.chat.admin_site import (
    member,
    review_url,
    said,
    signed_in,
    text_of,
    transcript_url,
)
from tests.chat.reviewing import State, claimed, queued, send, state_of

pytestmark = pytest.mark.django_db

QUEUE = "/admin/chat/chatsession/queue/"


@pytest.fixture
def person() -> Any:
    return member("Reviewer")


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session(title="A talk")


def changes() -> list[dict[str, Any]]:
    """What the audit trail tells of states, in order."""
    told = AuditEvent.objects.filter(action="review.state").order_by("pk")
    return list(told.values_list("filter", flat=True))


# --- States ---------------------------------------------------------------------------------------

ALLOWED = {
    "none": {"in_review", "queued"},
    "queued": {"in_review", "none"},
    "in_review": {"reviewed", "flagged", "queued"},
    "reviewed": {"in_review", "flagged", "queued"},
    "flagged": {"resolved", "in_review", "queued"},
    "resolved": {"in_review", "queued"},
}


@pytest.mark.parametrize("former", State.values)
@pytest.mark.parametrize("to", State.values)
def test_a_state_leads_to_the_states_that_are_allowed_and_each_change_is_recorded(
    client: Client, person: Any, former: str, to: str
) -> None:
    fields = {"review_claimed_by": person} if former == "in_review" else {}
    chat_session = builders.chat_session(review_state=former, **fields)
    response = send(client, chat_session, "move", to=to)
    if to in ALLOWED[former]:
        assert state_of(chat_session) == (to, person if to == "in_review" else None)
        assert changes() == [{"from": former, "to": to}]
        assert said(response) == []
    else:
        assert state_of(chat_session)[0] == former
        assert changes() == []
        assert said(response) == [f"A review that is {former} cannot become {to}."]


@pytest.mark.parametrize("to", ["", "done", "IN_REVIEW", "\x00", "字" * 500])
def test_what_is_no_state_changes_nothing(
    client: Client, chat_session: ChatSession, to: str
) -> None:
    (text,) = said(send(client, chat_session, "move", to=to))
    assert "is no state of a review; the states are none, queued, in_review" in text
    assert state_of(chat_session) == ("none", None)


def test_a_form_that_says_nothing_does_nothing(client: Client, chat_session: ChatSession) -> None:
    assert said(send(client, chat_session, "")) == [
        "Nothing was done: the form did not say what to do."
    ]
    assert client.get(review_url(chat_session)).status_code == 405


def test_the_transcript_offers_what_is_allowed_and_nothing_else(
    client: Client, person: Any
) -> None:
    for former, allowed in ALLOWED.items():
        fields = {"review_claimed_by": person} if former == "in_review" else {}
        chat_session = builders.chat_session(review_state=former, **fields)
        panel = client.get(transcript_url(chat_session)).context["panel"]
        assert {to for to, _ in panel["moves"]} == allowed, former


# --- Claims ---------------------------------------------------------------------------------------


def test_a_claim_is_refused_to_everybody_else_until_it_is_released(client: Client) -> None:
    other = member("Reviewer")
    chat_session = claimed(other)
    for to in State.values:
        response = send(client, chat_session, "move", to=to)
        assert said(response) == ["Somebody else is reviewing this session."]
    assert state_of(chat_session) == ("in_review", other)
    send(signed_in(other), chat_session, "move", to="queued")
    send(client, chat_session, "move", to="in_review")
    assert state_of(chat_session)[1] != other


def test_a_stale_claim_can_be_taken_over_and_the_event_names_whose_it_was(
    client: Client, person: Any, settings: Any
) -> None:
    settings.CHAT_REVIEW_CLAIM_HOURS = 5
    other = member("Reviewer")
    fresh, stale = claimed(other, 4), claimed(other, 6)
    assert send(client, fresh, "move", to="reviewed").status_code == 200
    assert state_of(fresh) == ("in_review", other)
    send(client, stale, "move", to="reviewed")  # not before one has taken it
    assert state_of(stale) == ("in_review", other)
    send(client, stale, "move", to="in_review")
    assert state_of(stale) == ("in_review", person)
    assert changes() == [{"from": "in_review", "to": "in_review", "taken_from": str(other.pk)}]


def test_a_claim_of_somebody_who_left_can_be_taken_over(client: Client, person: Any) -> None:
    other = member("Reviewer")
    chat_session = claimed(other)
    other.delete()
    send(client, chat_session, "move", to="in_review")
    assert state_of(chat_session) == ("in_review", person)


def test_saving_renews_the_claim(client: Client, person: Any) -> None:
    chat_session = claimed(person, 7)
    send(client, chat_session, "save", note="Still here")
    state_of(chat_session)
    assert chat_session.review_claimed_at is not None
    assert timezone.now() - chat_session.review_claimed_at < timedelta(hours=1)


def test_of_two_who_saw_the_same_stale_claim_one_takes_it(
    person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_session = claimed(member("Reviewer"), 100)
    seen = reviews.standing(chat_session.pk)
    monkeypatch.setattr(reviews, "standing", lambda _: seen)
    second = member("Reviewer")
    reviews.move(request_of(person), chat_session.pk, "in_review")
    with pytest.raises(reviews.Refused, match="at the same moment"):
        reviews.move(request_of(second), chat_session.pk, "in_review")
    assert state_of(chat_session) == ("in_review", person)
    assert len(changes()) == 1


def request_of(person: Any) -> Any:
    return SimpleNamespace(user=person, META={})


@pytest.mark.django_db(transaction=True)
def test_of_many_who_claim_at_once_exactly_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = queued()
    people = [builders.superuser() for _ in range(6)]
    together = threading.Barrier(len(people))
    look = reviews.standing

    def look_and_wait(session_id: Any) -> Any:
        seen = look(session_id)
        together.wait(timeout=30)
        return seen

    monkeypatch.setattr(reviews, "standing", look_and_wait)

    def claim(person: Any) -> bool:
        try:
            reviews.move(request_of(person), chat_session.pk, "in_review")
        except reviews.Refused:
            return False
        else:
            return True
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(people)) as pool:
        won = list(pool.map(claim, people))
    assert won.count(True) == 1
    assert state_of(chat_session) == ("in_review", people[won.index(True)])
    assert changes() == [{"from": "queued", "to": "in_review"}]


# --- The queue ------------------------------------------------------------------------------------


def test_the_queue_holds_the_oldest_first_and_ones_own_and_others_claims(
    client: Client, person: Any
) -> None:
    old, new = queued(title="Old"), queued(title="New")
    now = timezone.now()
    for row, days in ((new, 1), (old, 3)):
        ChatSession.objects.filter(pk=row.pk).update(created_at=now - timedelta(days=days))
    mine, theirs, stale = claimed(person), claimed(member("Reviewer")), claimed(person, 99)
    ChatSession.objects.filter(pk=stale.pk).update(review_claimed_by=member("Reviewer"))
    builders.chat_session(review_state=State.REVIEWED)
    page = client.get(QUEUE).context
    listed = {
        name: [(row.chat_session, row.can_be_claimed) for row in page[name]]
        for name in ("waiting", "mine", "others")
    }
    assert listed == {
        "waiting": [(old, True), (new, True)],
        "mine": [(mine, False)],
        "others": [(stale, True), (theirs, False)],
    }
    assert page["number"] == "2"


def test_the_queue_says_what_users_thought(client: Client) -> None:
    chat_session = queued()
    turns = builders.exchanges(chat_session, 3)
    for turn, value in zip(turns, (1, -1, -1), strict=True):
        builders.feedback(turn, value=value)
    page = text_of(client.get(QUEUE))
    assert ("2 bad" in page, "1 good" in page) == (True, True)


def test_the_queue_takes_as_many_queries_for_thirty_sessions_as_for_three(client: Client) -> None:
    counts = []
    for more in (3, 27):
        for _ in range(more):
            builders.exchange(queued())
        with CaptureQueriesContext(connection) as queries:
            client.get(QUEUE)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_next_in_the_queue_is_claimed_and_opened(client: Client, person: Any) -> None:
    first, second = queued(), queued()
    for wanted in (first, second):
        response = client.post(f"{QUEUE}next/")
        assert response["Location"] == transcript_url(wanted)
        assert state_of(wanted) == ("in_review", person)
    assert said(client.post(f"{QUEUE}next/", follow=True)) == ["Nothing else waits for review."]
    assert client.get(f"{QUEUE}next/").status_code == 405


def test_who_loses_a_session_to_somebody_else_gets_the_one_after(
    person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, won = queued(), queued()
    look = reviews.standing

    def too_late(session_id: Any) -> Any:
        seen = look(session_id)
        ChatSession.objects.filter(pk=lost.pk).update(review_state=State.IN_REVIEW)
        return seen

    monkeypatch.setattr(reviews, "standing", too_late)
    assert reviews.claim_next(request_of(person), ChatSession.objects.all()) == won.pk


def test_save_and_next_closes_the_review_and_opens_the_oldest_of_the_queue(
    client: Client, person: Any
) -> None:
    mine, waiting = claimed(person), queued()
    response = client.post(review_url(mine), {"do": "next", "note": "Fine."})
    assert response["Location"] == transcript_url(waiting)
    assert state_of(mine) == ("reviewed", None)
    assert state_of(waiting) == ("in_review", person)
    assert ReviewNote.objects.get().text == "Fine."
    assert changes() == [
        {"from": "in_review", "to": "reviewed"},
        {"from": "queued", "to": "in_review"},
    ]


def test_a_form_that_is_sent_twice_closes_one_review_and_claims_one_session(
    client: Client, person: Any
) -> None:
    mine, waiting, later = claimed(person), queued(), queued()
    for _ in range(2):
        response = client.post(review_url(mine), {"do": "next", "note": "Fine.", "score": "4"})
        assert response["Location"] == transcript_url(waiting)
    assert state_of(later) == ("queued", None)
    assert ReviewNote.objects.count() == 1
    assert AuditEvent.objects.filter(action="review.note").count() == 1
    assert ReviewScore.objects.count() == 1


def test_who_lost_a_claim_is_told_that_the_review_was_not_closed(
    client: Client, person: Any
) -> None:
    mine, other = claimed(person), member("Reviewer")
    ChatSession.objects.filter(pk=mine.pk).update(review_claimed_by=other)
    told = said(client.post(review_url(mine), {"do": "next"}, follow=True))
    assert f"{str(mine.pk)[:8]}: somebody else reviews it, and its state stays." in told
    assert state_of(mine) == ("in_review", other)


def test_a_flag_on_the_form_makes_it_flagged(client: Client, person: Any) -> None:
    mine = claimed(person)
    send(client, mine, "next", flag="on")
    assert state_of(mine) == ("flagged", None)


def test_next_leaves_a_review_that_is_not_ones_own_as_it_is(client: Client) -> None:
    other = member("Reviewer")
    theirs, free = claimed(other), builders.chat_session()
    for chat_session in (theirs, free):
        send(client, chat_session, "next", note="By the way.")
    assert state_of(theirs) == ("in_review", other)
    assert state_of(free) == ("none", None)
    assert ReviewNote.objects.count() == 2


def test_a_new_reviewer_needs_nothing_but_the_group(client: Client, person: Any) -> None:
    """Row 33: one who was just put into the group gets through the whole of a review."""
    chat_session = queued(title="Their talk")
    turn = builders.exchange(chat_session, "the question", "the answer")
    record = builders.proven_record(turn)
    address = client.post(f"{QUEUE}next/")["Location"]
    page = text_of(client.get(address))
    assert [text for text in ("the question", "the answer", "Their talk") if text not in page] == []
    sent = client.get(f"/admin/chat/contextrecord/{record.pk}/sent/")
    assert (sent.status_code, "the question" in text_of(sent)) == (200, True)
    send(client, chat_session, "next", note="Good.", score="5", new_tags="Fine")
    assert state_of(chat_session) == ("reviewed", None)
    assert ReviewScore.objects.get().author == person
