"""Reviews in the list of sessions: many at once, found by tag, rating, state and error."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat.models import (
    AuditEvent,
    ChatSession,
    ChatTurn,
    ReviewTag,
)
from tests import builders
from tests.chat.admin_site import (
    list_url,
    member,
    page_url,
    rows_of,
    said,
    signed_in,
    text_of,
    transcript_url,
)
from tests.chat.reviewing import State, claimed, queued, state_of, tag_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def person() -> Any:
    return member("Reviewer")


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session(title="A talk")


# --- Many at once ---------------------------------------------------------------------------------


def act(client: Client, action: str, sessions: list[ChatSession], **more: str) -> Any:
    form = {"action": action, "_selected_action": [str(each.pk) for each in sessions], **more}
    return client.post(list_url(ChatSession), form, follow=True)


def test_queueing_500_sessions_leaves_one_event_with_their_ids(client: Client, person: Any) -> None:
    holder, assistant = builders.user(), builders.assistant()
    made = [builders.chat_session(holder, assistant=assistant) for _ in range(500)]
    busy = claimed(member("Reviewer"))
    assert said(act(client, "queue_for_review", [*made, busy])) == ["Queued 500 sessions."]
    assert ChatSession.objects.filter(review_state=State.QUEUED).count() == 500
    assert state_of(busy)[0] == "in_review"
    event = AuditEvent.objects.exclude(action="session.list").get()
    assert (event.actor, event.action, event.count) == (person, "review.queue", 500)
    assert set(event.filter["sessions"]) == {str(each.pk) for each in made}


def test_tagging_many_asks_for_the_tag_and_leaves_one_event(client: Client, person: Any) -> None:
    made = [builders.chat_session() for _ in range(3)]
    asked = act(client, "tag_sessions", made, index="0")
    assert "3 sessions will be filed under the tag" in text_of(asked)
    assert not AuditEvent.objects.exists()
    assert said(act(client, "tag_sessions", made, tag=" 退款 ")) == ["Tagged 3 sessions: 退款"]
    tag = ReviewTag.objects.get()
    assert (tag.name, set(tag.chat_sessions.all())) == ("退款", set(made))
    event = AuditEvent.objects.exclude(action="session.list").get()
    assert (event.actor, event.action, event.count) == (person, "review.tag", 3)
    assert event.filter["tags"] == [tag.pk]
    assert set(event.filter["sessions"]) == {str(each.pk) for each in made}


@pytest.mark.parametrize("name", ["", "   ", "!!!", "🙂", "x" * 101])
def test_what_is_no_tag_is_asked_for_again(client: Client, name: str) -> None:
    made = [builders.chat_session()]
    assert "Nothing was done." in text_of(act(client, "tag_sessions", made, tag=name))
    assert not ReviewTag.objects.exists()


def test_sessions_of_several_tenants_get_each_their_own_tag() -> None:
    made = [builders.chat_session(tenant=builders.tenant(slug)) for slug in ("acme", "zeta")]
    act(signed_in(builders.superuser()), "tag_sessions", made, tag="Urgent")
    for chat_session in made:
        assert chat_session.review_tags.get().tenant == chat_session.tenant
    assert AuditEvent.objects.exclude(action="session.list").get().count == 2


# --- Finding them ---------------------------------------------------------------------------------


def found(client: Client, **asked: str) -> set[ChatSession]:
    return set(rows_of(client.get(list_url(ChatSession), asked)))


def test_rated_sessions_are_found_by_rating_and_comment(client: Client) -> None:
    bad, good, said_so, none = (builders.chat_session() for _ in range(4))
    for chat_session, value, comment in ((bad, -1, ""), (good, 1, ""), (said_so, -1, "no")):
        turn = builders.exchange(chat_session)
        builders.feedback(turn, value=value, comment=comment)
    builders.exchange(none)
    assert found(client, feedback="bad") == {bad, said_so}
    assert found(client, feedback="good") == {good}
    assert found(client, feedback="comment") == {said_so}
    assert found(client, feedback="bad_comment") == {said_so}
    assert len(found(client, feedback="nonsense")) == 4


def test_sessions_are_found_by_tag_and_the_list_shows_it(client: Client) -> None:
    tagged, _ = builders.chat_session(), builders.chat_session()
    tag = tag_of(tagged, "Refund")
    for asked in ("Refund", "refund", " REFUND "):
        assert found(client, tag=asked) == {tagged}
    assert found(client, tag="other") == set()
    page = text_of(client.get(list_url(ChatSession)))
    assert '<span class="badge badge-tag">Refund</span>' in page
    assert found(client, tag=tag.slug, tenant="default") == {tagged}


def test_sessions_are_found_by_the_state_of_their_review_and_the_list_shows_it(
    client: Client, person: Any
) -> None:
    waiting, mine, other = queued(), claimed(person), claimed(member("Reviewer"))
    assert found(client, review="queued") == {waiting}
    assert found(client, review="in_review") == {mine, other}
    assert found(client, review="mine") == {mine}
    page = text_of(client.get(list_url(ChatSession)))
    assert page.count('<span class="badge badge-warning">queued</span>') == 1
    assert "Queued" in text_of(client.get(page_url(waiting)))


@pytest.mark.parametrize(
    ("error", "statuses"),
    [
        ("any", {"failed", "interrupted"}),
        ("failed", {"failed"}),
        ("interrupted", {"interrupted"}),
        ("stopped", {"stopped"}),
    ],
)
def test_sessions_are_found_by_how_a_turn_ended(
    client: Client, error: str, statuses: set[str]
) -> None:
    by_status = {}
    for status in ("completed", "failed", "interrupted", "stopped"):
        by_status[status] = builders.chat_session()
        builders.exchange(by_status[status], status=status)
    assert found(client, error=error) == {by_status[status] for status in statuses}


def test_an_address_of_several_filters_can_be_kept(client: Client) -> None:
    wanted = queued(assistant=builders.assistant("helper"))
    tag_of(wanted, "Refund")
    queued()
    asked = {"review": "queued", "tag": "refund", "assistant": "helper"}
    assert found(client, **asked) == {wanted}
    page = text_of(client.get(list_url(ChatSession), asked))
    assert '<input type="hidden" name="tag" value="refund">' in page


# --- Long ones ------------------------------------------------------------------------------------


def test_a_session_of_5000_messages_has_no_inline_and_few_queries(client: Client) -> None:
    chat_session = builders.chat_session()
    turn = builders.exchange(chat_session)
    chat_session.refresh_from_db()
    rows = [
        type(turn.input)(chat_session=chat_session, role="user", content=f"Line {seq}", seq=seq)
        for seq in range(3, 5001)
    ]
    type(turn.input)._default_manager.bulk_create(rows, batch_size=1000)
    for address, most in ((page_url(chat_session), 25), (transcript_url(chat_session), 35)):
        with CaptureQueriesContext(connection) as queries:
            response = client.get(address)
        assert response.status_code == 200
        assert len(queries) < most
        assert len(response.content) < 250_000
    assert text_of(response).count('<li id="seq-') == 50
    assert ChatTurn.objects.count() == 1
