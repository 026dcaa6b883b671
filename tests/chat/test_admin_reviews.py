"""Reviews: who may bring a session to which state, who wins a claim, and what is said of it."""

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
    ChatTurn,
    ReviewNote,
    ReviewScore,
    ReviewTag,
)
from tests import builders
from tests.chat.admin_site import (
    READ,
    list_url,
    member,
    page_url,
    review_url,
    rows_of,
    said,
    signed_in,
    text_of,
    transcript_url,
    viewer,
)

pytestmark = pytest.mark.django_db

QUEUE = "/admin/chat/chatsession/queue/"
REVIEWS = [READ, "chat.add_reviewnote", "chat.add_reviewscore", "chat.change_reviewtag"]
State = ChatSession.ReviewState


@pytest.fixture
def person() -> Any:
    return member("Reviewer")


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session(title="A talk")


def queued(**fields: Any) -> ChatSession:
    return builders.chat_session(review_state=State.QUEUED, **fields)


def claimed(person: Any, hours_ago: int = 0, **fields: Any) -> ChatSession:
    at = timezone.now() - timedelta(hours=hours_ago)
    return builders.chat_session(
        review_state=State.IN_REVIEW, review_claimed_by=person, review_claimed_at=at, **fields
    )


def send(client: Client, chat_session: ChatSession, do: str, **fields: Any) -> Any:
    return client.post(review_url(chat_session), {"do": do, **fields}, follow=True)


def state_of(chat_session: ChatSession) -> tuple[str, Any]:
    chat_session.refresh_from_db()
    return chat_session.review_state, chat_session.review_claimed_by


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


# --- Notes, scores, tags --------------------------------------------------------------------------


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


def tag_of(chat_session: ChatSession, name: str) -> ReviewTag:
    tag = ReviewTag.objects.create(
        tenant=chat_session.tenant, slug=name.lower().replace(" ", "-"), name=name
    )
    tag.chat_sessions.add(chat_session)
    return tag


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


# --- Row 28: many at once -------------------------------------------------------------------------


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


# --- Rows 12, 13 and 33: finding them -------------------------------------------------------------


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


# --- Row 32 ---------------------------------------------------------------------------------------


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
