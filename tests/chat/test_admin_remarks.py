"""What reviewers say of a session: notes, scores and tags, and who sees them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chat.models import (
    AuditEvent,
    ChatSession,
    ReviewNote,
    ReviewScore,
    ReviewTag,
)
from tests import builders
from tests.chat.admin_site import (
    member,
    review_url,
    said,
    signed_in,
    text_of,
    transcript_url,
    viewer,
)
from tests.chat.reviewing import claimed, send, tag_of

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


def test_notes_scores_and_tags_are_kept_and_shown(client: Client, person: Any) -> None:
    chat_session = builders.chat_session()
    turn = builders.exchange(chat_session)
    send(
        client,
        chat_session,
        "save",
        note="第一轮没有记住。\r\nSee below.",
        score_name=" Helpful ",
        score="2",
        new_tags="Memory, 记忆，Memory",
    )
    send(client, chat_session, "save", turn=str(turn.pk), note="This one.", score="5")
    notes = [(note.turn, note.author, note.text) for note in ReviewNote.objects.all()]
    assert notes == [
        (None, person, "第一轮没有记住。\nSee below."),
        (turn, person, "This one."),
    ]
    scores = ReviewScore.objects.order_by("pk").values_list("subject", "turn", "name", "value")
    assert list(scores) == [
        ("session", None, "helpful", 2),
        (str(turn.pk), turn.pk, "overall", 5),
    ]
    assert {tag.name for tag in chat_session.review_tags.all()} == {"Memory", "记忆"}
    page = text_of(client.get(transcript_url(chat_session)))
    for text in ("第一轮没有记住。", "This one.", "helpful", "overall", "Memory", "记忆"):
        assert text in page
    told = AuditEvent.objects.filter(action__startswith="review.").order_by("pk")
    assert [event.action for event in told] == [
        "review.note",
        "review.score",
        "review.tags",
        "review.note",
        "review.score",
    ]
    assert {event.object_id for event in told} == {str(chat_session.pk)}
    assert "记住" not in str([event.filter for event in told])


def test_a_score_is_ones_own_and_giving_it_again_replaces_it(chat_session: ChatSession) -> None:
    turn = builders.exchange(chat_session)
    anna, bert = member("Reviewer"), member("Reviewer")
    for who, value, about in (
        (anna, 1, {}),
        (anna, 4, {}),
        (bert, 3, {}),
        (anna, 2, {"turn": str(turn.pk)}),
        (anna, 5, {"score_name": "OVERALL "}),
    ):
        send(signed_in(who), chat_session, "save", score=str(value), **about)
    kept = ReviewScore.objects.order_by("pk").values_list("author", "turn", "value")
    assert list(kept) == [(anna.pk, None, 5), (bert.pk, None, 3), (anna.pk, turn.pk, 2)]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"score": "6"}, "6 is not one of the available choices"),
        ({"score": "x"}, "x is not one of the available choices"),
        ({"note": "x" * 5001}, "at most 5000 characters"),
        ({"score": "1", "score_name": "n" * 61}, "at most 60 characters"),
        ({"new_tags": "good, !!!"}, "'!!!' cannot be a tag"),
        ({"turn": "not-an-id"}, "valid UUID"),
    ],
)
def test_what_cannot_be_stored_is_named_and_nothing_of_it_is_stored(
    client: Client, chat_session: ChatSession, fields: dict[str, str], complaint: str
) -> None:
    (text,) = said(send(client, chat_session, "save", **{"note": "kept?", **fields}))
    assert text.startswith("Nothing was saved: ")
    assert complaint in text
    counts = [model._default_manager.count() for model in (ReviewNote, ReviewScore, ReviewTag)]
    assert counts == [0, 0, 0]


@pytest.mark.parametrize(
    "text", ["中文", "שלום", "👩‍👩‍👧‍👦", "a\x00b", "<script>", "x" * 5000, "{{ 7*7 }}"]
)
def test_any_text_can_be_a_note(client: Client, chat_session: ChatSession, text: str) -> None:
    send(client, chat_session, "save", note=text)
    kept = text.replace("\x00", "")
    assert ReviewNote.objects.get().text == kept
    assert kept in text_of(client.get(transcript_url(chat_session)))


def test_a_turn_of_another_session_is_not_found(client: Client, chat_session: ChatSession) -> None:
    foreign = builders.exchange(builders.chat_session())
    response = client.post(
        review_url(chat_session), {"do": "save", "turn": foreign.pk, "note": "x"}
    )
    assert response.status_code == 404
    assert not ReviewNote.objects.exists()


def test_a_note_is_taken_back_by_its_author_alone(client: Client, person: Any) -> None:
    chat_session = builders.chat_session()
    send(client, chat_session, "save", note="A mistake")
    note = ReviewNote.objects.get()
    other = signed_in(member("Reviewer"))
    for asked in (str(note.pk), str(note.pk + 1), "x", ""):
        assert said(send(other, chat_session, "remove_note", note=asked)) == [
            "There is no such note of yours."
        ]
    assert ReviewNote.objects.count() == 1
    send(client, chat_session, "remove_note", note=str(note.pk))
    assert not ReviewNote.objects.exists()
    assert AuditEvent.objects.filter(action="review.note_remove", actor=person).count() == 1


def test_tags_are_dropped_only_if_the_form_showed_them(client: Client) -> None:
    chat_session = builders.chat_session()
    names = ("Shown", "Dropped", "Added meanwhile")
    shown, dropped, other = (tag_of(chat_session, name) for name in names)
    send(
        client,
        chat_session,
        "save",
        tags=[str(shown.pk), str(dropped.pk)],
        kept_tags=[str(shown.pk)],
    )
    assert set(chat_session.review_tags.all()) == {shown, other}


def test_a_tag_belongs_to_the_tenant_of_its_session() -> None:
    acme, zeta = builders.tenant("acme"), builders.tenant("zeta")
    for tenant in (acme, zeta):
        chat_session = builders.chat_session(tenant=tenant)
        send(
            signed_in(member("Reviewer", tenants=[tenant])), chat_session, "save", new_tags="Urgent"
        )
    tags = ReviewTag.objects.order_by("tenant__slug").values_list("tenant__slug", "slug", "name")
    assert list(tags) == [("acme", "urgent", "Urgent"), ("zeta", "urgent", "Urgent")]


def test_only_what_somebody_may_say_is_stored(chat_session: ChatSession) -> None:
    turn = builders.exchange(chat_session)
    notes_only = signed_in(viewer("chat.add_reviewnote"))
    fields = {"note": "n", "score": "3", "new_tags": "t", "turn": str(turn.pk)}
    send(notes_only, chat_session, "save", **fields)
    assert (ReviewNote.objects.count(), ReviewScore.objects.count()) == (1, 0)
    assert not ReviewTag.objects.exists()
    page = text_of(notes_only.get(transcript_url(chat_session)))
    assert ('name="note"' in page, 'name="score"' in page, 'name="new_tags"' in page) == (
        True,
        False,
        False,
    )


def test_who_does_not_review_sees_states_tags_and_scores_and_no_form(
    client: Client, person: Any
) -> None:
    chat_session = claimed(person)
    turn = builders.exchange(chat_session, "Q", "A")
    builders.feedback(turn, value=-1, comment="wrong, again")
    send(client, chat_session, "save", note="a secret remark", score="2", new_tags="Billing")
    page = text_of(signed_in(member("Viewer")).get(transcript_url(chat_session)))
    shown = ["In review", f"claimed by <bdi>{person}</bdi>", "Billing", "overall", "Bad"]
    assert [text for text in shown if text not in page] == []
    for hidden in ("a secret remark", "wrong, again", 'name="note"', 'name="do"', "data-key"):
        assert hidden not in page
    assert "The comment is hidden." in page


def test_the_users_feedback_stands_beside_the_answer(client: Client) -> None:
    chat_session = builders.chat_session(builders.user("alice"))
    first, second = builders.exchanges(chat_session, 2)
    builders.feedback(second, value=-1, comment="不对 <b>")
    page = text_of(client.get(transcript_url(chat_session)))
    assert page.index("Answer 2") < page.index("Bad") < page.index("不对 <b>")
    assert page.index(f'id="turn-{first.number}"') < page.index("Answer 2")
