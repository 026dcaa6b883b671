"""The transcript: fifty messages at a time in both directions, turns and lines in their places."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat.admin import transcript
from chat.models import AuditEvent, ChatMessage, ChatSession
from tests import builders
from tests.chat.admin_site import READ, signed_in, text_of, transcript_url, viewer

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

FORGET_LINE = "Memory starts here: nothing above is sent to a model"
WINDOW_START = "The newest request’s history begins here"


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser("root"))


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session(builders.user("alice"), title="A talk")


def shown(client: Client, chat_session: ChatSession, **asked: Any) -> list[int]:
    response = client.get(transcript_url(chat_session), asked)
    assert response.status_code == 200
    return [int(seq) for seq in re.findall(r'<li id="seq-(\d+)"', text_of(response))]


def order(page: str, *texts: str) -> list[str]:
    """The texts of `texts` that are on the page, in the order in which they stand there."""
    places = [(page.index(text), text) for text in texts if text in page]
    return [text for _, text in sorted(places)]


# --- Paging ---------------------------------------------------------------------------------------


def test_it_opens_at_the_newest_fifty_messages(client: Client, chat_session: ChatSession) -> None:
    builders.exchanges(chat_session, 60)
    assert shown(client, chat_session) == list(range(71, 121))


def test_it_reads_in_both_directions(client: Client, chat_session: ChatSession) -> None:
    builders.exchanges(chat_session, 60)
    assert shown(client, chat_session, before=71) == list(range(21, 71))
    assert shown(client, chat_session, before=21) == list(range(1, 21))
    assert shown(client, chat_session, after=0) == list(range(1, 51))
    assert shown(client, chat_session, after=100) == list(range(101, 121))


def test_it_jumps_to_a_message_with_a_few_before_it(
    client: Client, chat_session: ChatSession
) -> None:
    builders.exchanges(chat_session, 60)
    assert shown(client, chat_session, seq=40) == list(range(35, 85))
    assert shown(client, chat_session, seq=2) == list(range(1, 51))
    assert shown(client, chat_session, seq=5000) == list(range(116, 121))


@pytest.mark.parametrize("nonsense", ["", "abc", "-1", "1.5", "9" * 40, "１", "\x00"])
def test_a_place_that_is_no_number_means_the_newest(
    client: Client, chat_session: ChatSession, nonsense: str
) -> None:
    builders.exchanges(chat_session, 26)
    assert shown(client, chat_session, seq=nonsense) == list(range(3, 53))


@pytest.mark.parametrize(("rel", "start"), [("prev", ""), ("next", "after=0")])
def test_following_the_links_shows_every_message_once(
    client: Client, chat_session: ChatSession, rel: str, start: str
) -> None:
    builders.exchanges(chat_session, 80)
    pages: list[list[int]] = []
    following: re.Match[str] | None = None
    address = f"{transcript_url(chat_session)}?{start}"
    while not pages or following:
        page = text_of(client.get(address))
        pages.append([int(seq) for seq in re.findall(r'<li id="seq-(\d+)"', page)])
        following = re.search(rf'rel="{rel}" href="(\?[^"]*)"', page)
        address = transcript_url(chat_session) + (following.group(1) if following else "")
    assert sorted(seq for page in pages for seq in page) == list(range(1, 161))
    assert len(pages) == 4


def test_an_empty_session_says_so(client: Client, chat_session: ChatSession) -> None:
    assert "Nothing was said yet." in text_of(client.get(transcript_url(chat_session)))


def test_it_takes_as_many_queries_for_long_conversations_as_for_short_ones(
    client: Client, chat_session: ChatSession
) -> None:
    for turn in builders.exchanges(chat_session, 2):
        builders.record(turn)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            client.get(transcript_url(chat_session))
        counts.append(len(queries))
        for turn in builders.exchanges(chat_session, 40):
            builders.record(turn)
    assert counts[0] == counts[1]


# --- What it shows --------------------------------------------------------------------------------


def test_the_conversation_is_shown_with_each_turns_facts(
    client: Client, chat_session: ChatSession
) -> None:
    turn = builders.exchange(
        chat_session, "第一轮：项目代号是青云-4173。", "好的。", input_tokens=31, output_tokens=7
    )
    turn.finished_at = turn.started_at + timedelta(milliseconds=1250)
    turn.first_token_at = turn.started_at + timedelta(milliseconds=340)
    turn.save()
    builders.record(turn)
    page = text_of(client.get(transcript_url(chat_session)))
    facts = [
        "第一轮：项目代号是青云-4173。",
        "好的。",
        "Completed",
        "Turn 1",
        "demo",
        "1250 ms, first token after 340 ms",
        "31 tokens in, 7 out",
        "What was sent: 2 messages, 30 of 28016 tokens",
    ]
    assert order(page[page.index('class="conversation"') :], *facts) == facts


def test_a_stopped_answer_is_marked_as_partial(client: Client, chat_session: ChatSession) -> None:
    builders.exchange(
        chat_session,
        "Tell",
        "Once upon",
        is_partial=True,
        status="stopped",
        stop_requested=True,
        stop_seen=9,
        finish_reason="",
    )
    page = text_of(client.get(transcript_url(chat_session)))
    wanted = ["partial", "Once upon", "Stopped", "stop asked for after 9 characters"]
    assert order(page[page.index('id="seq-2"') :], *wanted) == wanted


def test_a_turn_without_an_answer_stands_below_its_question(
    client: Client, chat_session: ChatSession
) -> None:
    builders.exchange(
        chat_session,
        "Why?",
        None,
        status="failed",
        error_code="rate_limited",
        error_detail="The endpoint answered 429.",
    )
    builders.exchange(chat_session, "Again?", "Because.")
    page = text_of(client.get(transcript_url(chat_session)))
    wanted = ["Why?", "Failed", "Turn 1", "rate_limited", "The endpoint answered 429.", "Again?"]
    assert order(page[page.index('class="conversation"') :], *wanted) == wanted


def regenerated(chat_session: ChatSession) -> tuple[ChatMessage, ChatMessage]:
    """Two answers to one question, the second one chosen."""
    first = builders.exchange(chat_session, "Pick a number", "Seven")
    old = first.messages.get()
    old.is_on_path = False
    old.save()
    second = builders.turn(chat_session, first.input)
    new = builders.message(chat_session, "assistant", "Nine", parent=first.input, turn=second)
    ChatSession.objects.filter(pk=chat_session.pk).update(path_count=2)
    return old, new


def test_the_chosen_branch_is_shown_and_the_other_on_demand(
    client: Client, chat_session: ChatSession
) -> None:
    regenerated(chat_session)
    chosen = text_of(client.get(transcript_url(chat_session)))
    assert ("Seven" in chosen, "Nine" in chosen) == (False, True)
    assert "one of 2 runs for this input" in chosen
    assert "2 of 3 stored" in chosen
    everything = text_of(client.get(transcript_url(chat_session), {"branches": "all"}))
    wanted = ["Pick a number", "other branch", "Seven", "Turn 1", "Nine", "Turn 2"]
    assert order(everything[everything.index('class="conversation"') :], *wanted) == wanted


def test_the_forget_line_is_drawn_once_where_it_is(
    client: Client, chat_session: ChatSession
) -> None:
    builders.exchanges(chat_session, 60)
    ChatSession.objects.filter(pk=chat_session.pk).update(memory_starts_after=70)
    newest = text_of(client.get(transcript_url(chat_session)))
    assert order(newest, FORGET_LINE, 'id="seq-71"') == [FORGET_LINE, 'id="seq-71"']
    assert FORGET_LINE not in text_of(client.get(transcript_url(chat_session), {"before": 71}))
    assert FORGET_LINE not in text_of(client.get(transcript_url(chat_session), {"after": 71}))
    inside = text_of(client.get(transcript_url(chat_session), {"seq": 70}))
    wanted = ['id="seq-70"', FORGET_LINE, 'id="seq-71"']
    assert order(inside, *wanted) == wanted
    assert inside.count(FORGET_LINE) == 1


def test_after_clearing_the_forget_line_stands_at_the_end(
    client: Client, chat_session: ChatSession
) -> None:
    builders.exchanges(chat_session, 30)
    ChatSession.objects.filter(pk=chat_session.pk).update(memory_starts_after=60)
    newest = text_of(client.get(transcript_url(chat_session)))
    assert order(newest, 'id="seq-60"', FORGET_LINE) == ['id="seq-60"', FORGET_LINE]
    assert FORGET_LINE not in text_of(client.get(transcript_url(chat_session), {"after": 0}))


def test_without_a_forget_line_none_is_drawn(client: Client, chat_session: ChatSession) -> None:
    builders.exchanges(chat_session, 2)
    assert FORGET_LINE not in text_of(client.get(transcript_url(chat_session)))


def test_the_start_of_the_newest_requests_window_is_drawn(
    client: Client, chat_session: ChatSession
) -> None:
    builders.exchanges(chat_session, 3)
    history = list(chat_session.messages.order_by("seq")[2:6])
    builders.record(builders.exchange(chat_session), history=history)
    page = text_of(client.get(transcript_url(chat_session)))
    wanted = ['id="seq-2"', WINDOW_START, 'id="seq-3"']
    assert order(page, *wanted) == wanted


def test_every_attempt_of_a_turn_can_be_unfolded(client: Client, chat_session: ChatSession) -> None:
    turn = builders.exchange(chat_session)
    records = [builders.record(turn, attempt=number) for number in (1, 2)]
    page = text_of(client.get(transcript_url(chat_session)))
    assert "What was sent, attempt 2" in page
    for record in records:
        assert f'data-src="/admin/chat/contextrecord/{record.pk}/sent/"' in page
        assert f'href="/admin/chat/contextrecord/{record.pk}/change/"' in page


# --- Text is anyone's -----------------------------------------------------------------------------


def test_messages_are_rendered_as_safe_html(client: Client, chat_session: ChatSession) -> None:
    ChatSession.objects.filter(pk=chat_session.pk).update(title="<script>alert(0)</script>")
    builders.exchange(
        chat_session,
        "<img src=x onerror=alert(1)>",
        "**bold** <script>alert(2)</script> [x](javascript:alert(3))",
    )
    page = client.get(transcript_url(chat_session)).content.decode()
    assert "<strong>bold</strong>" in page
    assert "&lt;img src=x" in page
    for evil in ("<script>alert", "<img src=x", 'href="javascript:'):
        assert evil not in page


@pytest.mark.parametrize(
    "text",
    [
        "中文 日本語",
        "שלום مرحبا",
        "😄👩‍👩‍👧‍👦",
        "\u202eevil",
        "a" * 5000,
        " ",
        "{{ 7*7 }} {% now %}",
    ],
)
def test_any_text_is_shown(client: Client, chat_session: ChatSession, text: str) -> None:
    builders.exchange(chat_session, text, text)
    assert text in text_of(client.get(transcript_url(chat_session)))


def test_a_very_long_message_is_cut_with_a_link_to_the_whole(
    client: Client, chat_session: ChatSession
) -> None:
    builders.message(chat_session, "user", "x" * 1_000_000)
    response = client.get(transcript_url(chat_session))
    assert len(response.content) < 100_000
    hidden = 1_000_000 - transcript.SHOWN_CHARACTERS
    assert f"{hidden} more characters on the message’s page" in text_of(response)


def test_a_message_without_text_says_so(client: Client, chat_session: ChatSession) -> None:
    builders.exchange(chat_session, "Q", "")
    page = text_of(client.get(transcript_url(chat_session)))
    assert "No text." in page[page.index('id="seq-2"') :]


# --- Reading is recorded --------------------------------------------------------------------------


def test_opening_a_transcript_is_recorded(chat_session: ChatSession) -> None:
    builders.exchanges(chat_session, 3)
    person = viewer(READ)
    signed_in(person).get(transcript_url(chat_session), REMOTE_ADDR="192.0.2.7")
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_type, event.object_id, event.ip) == (
        person,
        "transcript.read",
        "session",
        str(chat_session.pk),
        "192.0.2.7",
    )
    assert (event.count, event.filter) == (6, {"from": 1, "through": 6, "text": True})


def test_the_record_says_when_no_text_was_shown(chat_session: ChatSession) -> None:
    builders.exchange(chat_session)
    signed_in(viewer()).get(transcript_url(chat_session), REMOTE_ADDR="")
    event = AuditEvent.objects.get()
    assert (event.filter, event.ip) == ({"from": 1, "through": 2, "text": False}, None)


def test_an_unknown_session_is_not_found_and_not_recorded(client: Client) -> None:
    assert client.get(f"/admin/chat/chatsession/{uuid.uuid4()}/transcript/").status_code == 404
    assert not AuditEvent.objects.exists()


def test_figures_are_shown_to_those_who_may_not_read(chat_session: ChatSession) -> None:
    turn = builders.exchange(chat_session, "the secret", "the answer")
    builders.record(turn)
    page = text_of(signed_in(viewer()).get(transcript_url(chat_session)))
    assert "What was sent: 2 messages, 30 of 28016 tokens" in page
    assert "Completed" in page
    assert ("the secret" in page, "the answer" in page, "A talk" in page) == (False, False, False)
