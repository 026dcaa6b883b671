"""Why not? What became of a message, a text or a preference in the request of one turn."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import llm
from chat.models import AuditEvent, ChatMessage, ChatSession, ChatTurn
from chat.search import messages as search
from memory import preferences
from memory.models import UserPreference
from tests import builders
from tests.chat.admin_site import READ, signed_in, text_of, viewer
from tests.fakes import FakeEndpoint, answer
from tests.orders import say, session_at

pytestmark = pytest.mark.django_db(transaction=True)

PHRASE = "项目代号是青云-4173"


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def why_not_url(chat_session: Any) -> str:
    return reverse("admin:chat_contextrecord_why_not", args=[chat_session.pk])


def asked(chat_session: ChatSession, client: Client | None = None, **fields: Any) -> Any:
    """The answer of the page to a posted question."""
    client = client or signed_in(builders.superuser())
    return client.post(why_not_url(chat_session), fields)


def verdict(chat_session: ChatSession, **fields: Any) -> tuple[str, str, str]:
    """State, reason and the number that decided, of the first message that is answered for."""
    [first, *_] = asked(chat_session, **fields).context["answers"]
    found = first.verdict
    return found.state, found.reason, found.limit


async def evicted(fake_endpoint: FakeEndpoint) -> ChatSession:
    """A phrase in the first of thirteen exchanges, and a fourteenth turn with a window of 20."""
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=20)
    await sync_to_async(builders.exchange)(chat_session, f"第一轮：{PHRASE}。", "已记住")
    await sync_to_async(builders.exchanges)(chat_session, 12)
    fake_endpoint.replies(answer("不知道"))
    await say(chat_session, "代号是什么？")
    await sync_to_async(search.index_session)(chat_session.pk)
    return chat_session


def talk(left_out: Any = (), history: Any = (), **fields: Any) -> ChatTurn:
    """The third turn of a session, with a record that says so."""
    chat_session = builders.chat_session(**fields)
    builders.exchange(chat_session, f"First: {PHRASE}", "One")
    builders.exchange(chat_session, "Second", "Two")
    turn = builders.exchange(chat_session, "Third", "Three")
    search.index_session(chat_session.pk)
    rows = list(chat_session.messages.filter(seq__in=history).order_by("seq"))
    builders.proven_record(turn, history=rows, left_out=left_out)
    return turn


# --- Messages -------------------------------------------------------------------------------------


async def test_a_phrase_beyond_the_window_is_found_with_the_number_that_decided(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await evicted(fake_endpoint)
    response = await sync_to_async(asked)(chat_session, turn="14", text=PHRASE)
    page = text_of(response)
    assert "Message 1 was not in it: beyond the limit of messages" in page
    assert "(20 messages)" in page
    assert "From the beginning of its exchange 26 messages" in page
    [found] = response.context["answers"]
    assert [(each.setting.value, each.setting.where) for each in found.settings] == [
        ("20", "session"),
        ("0", "assistant"),
    ]
    address = reverse("admin:chat_chatsession_change", args=[chat_session.pk])
    assert found.settings[0].url == f"{address}#id_max_messages"
    assert found.what_if.endswith("?turn=14&seq=1&max_messages=26")


async def test_a_message_that_was_sent_says_in_which_part(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await evicted(fake_endpoint)
    response = await sync_to_async(asked)(chat_session, turn="14", seq="26")
    [found] = response.context["answers"]
    assert (found.verdict.state, found.verdict.number, found.verdict.kind) == (
        "sent",
        21,
        "history",
    )
    assert "Message 26 was in it" in text_of(response)
    response = await sync_to_async(asked)(chat_session, seq="27")
    assert response.context["answers"][0].verdict.kind == "input"
    assert await sync_to_async(verdict)(chat_session, seq="28") == ("own_answer", "", "")


@pytest.mark.parametrize(
    ("reason", "limit"),
    [
        ("max_messages", "20 messages"),
        ("max_tokens", ""),
        ("budget", "28,016 tokens"),
        ("before_forget_line", ""),
        ("awaiting_summary", "28,016 tokens"),
        ("other_branch", ""),
        ("no_answer", ""),
        ("orphan_tool", ""),
        ("memory_off", ""),
        ("idle", ""),
        ("strict_roles", ""),
        ("system_message", ""),
    ],
)
def test_every_reason_is_explained_with_its_settings(reason: str, limit: str) -> None:
    turn = talk([{"from": 1, "through": 4, "reason": reason}])
    response = asked(turn.chat_session, turn="3", seq="2")
    [found] = response.context["answers"]
    assert (found.verdict.state, found.verdict.reason, found.verdict.limit) == (
        "left_out",
        reason,
        limit,
    )
    assert found.verdict.explained.why in text_of(response)
    assert len(found.settings) == len(found.verdict.explained.settings)


def test_what_a_summary_covers_names_its_version() -> None:
    turn = talk([{"from": 1, "through": 4, "reason": "covered_by_summary"}])
    record = turn.context_records.get()
    summary = {"id": 1, "version": 2, "covers_from": 1, "covers_through": 4, "tokens": 30}
    record.manifest["summary"] = summary
    record.save()
    assert verdict(turn.chat_session, seq="1") == (
        "left_out",
        "covered_by_summary",
        "version 2 covers messages 1 to 4",
    )


def test_what_was_said_later_is_not_yet_said() -> None:
    turn = talk(history=[1, 2, 3, 4])
    builders.exchange(turn.chat_session, "Fourth", "Four")
    assert verdict(turn.chat_session, turn="3", seq="7")[:2] == ("left_out", "not_yet_said")


def test_what_was_deleted_is_deleted() -> None:
    turn = talk([{"from": 1, "through": 2, "reason": "max_messages"}], history=[3, 4])
    ChatMessage.objects.filter(chat_session=turn.chat_session, seq=2).delete()
    assert verdict(turn.chat_session, seq="2") == ("left_out", "deleted", "")
    assert verdict(turn.chat_session, seq="99") == ("left_out", "deleted", "")


def test_what_was_redacted_says_so() -> None:
    turn = talk(history=[1, 2, 3, 4])
    rows = ChatMessage.objects.filter(chat_session=turn.chat_session, seq=1)
    rows.update(content="", redacted_at=timezone.now())
    page = text_of(asked(turn.chat_session, seq="1"))
    assert "Message 1 was in it" in page
    assert "Its text was redacted on" in page


def test_each_attempt_of_a_turn_is_told_where_they_differ() -> None:
    turn = talk(history=[1, 2, 3, 4])
    builders.record(turn, attempt=2, left_out=[{"from": 1, "through": 4, "reason": "budget"}])
    page = text_of(asked(turn.chat_session, seq="1"))
    assert "Message 1 was not in it: no room in the model's context" in page
    assert "Attempt 1: sent" in page
    assert "Attempt 2: no room in the model's context" in page


def test_a_turn_without_a_request_says_so() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session, "Hello", None, status="failed")
    page = text_of(asked(chat_session, seq="1"))
    assert "Turn 1 has no record of a request" in page
    assert "There is no turn 7 in this session." in text_of(asked(chat_session, turn="7", seq="1"))


# --- Texts ----------------------------------------------------------------------------------------


def test_a_text_in_other_words_is_found_by_its_words() -> None:
    turn = talk(history=[1, 2, 3, 4])
    [found] = asked(turn.chat_session, text="青云-4173 的项目代号").context["answers"]
    assert (found.wanted.seq, found.place.how) == (1, "words")
    assert asked(turn.chat_session, text="completely unrelated").context["answers"] == []


def test_a_text_that_goes_over_several_messages_is_found_in_each_of_them() -> None:
    chat_session = builders.chat_session()
    said = [
        "The harbour in Tallinn closes early in winter",
        "Ferries to Helsinki leave from terminal D instead",
        "Somebody has to feed both cats on Sunday",
    ]
    builders.exchange(chat_session, said[0], said[1])
    turn = builders.exchange(chat_session, said[2], "Nothing of the kind, today or tomorrow")
    search.index_session(chat_session.pk)
    builders.proven_record(turn)
    found = asked(chat_session, text=" ".join(said)).context["answers"]
    assert {(each.wanted.seq, each.place.how) for each in found} == {
        (1, "part"),
        (2, "part"),
        (3, "part"),
    }
    found = asked(chat_session, text=f"{said[0]} and that is so.\n\nferries to helsinki leave")
    assert [(each.wanted.seq, each.place.how) for each in found.context["answers"]] == [
        (1, "words"),
        (2, "part"),
    ]
    assert "It holds a part of the text" in text_of(found)


def test_the_words_of_the_prompt_and_of_blocks_are_found_in_the_request() -> None:
    turn = talk(history=[1, 2, 3, 4])
    page = text_of(asked(turn.chat_session, text="helpful assistant"))
    assert "No message of this session says it." in page
    assert "The words stand in the request" in page
    assert "message 1 (system, prompt)" in page


def test_other_sessions_of_the_same_person_are_looked_through_and_nobody_elses() -> None:
    turn = talk(history=[1, 2, 3, 4])
    mine, tenant = turn.chat_session, turn.chat_session.tenant
    own = builders.chat_session(mine.user, tenant=tenant)
    others = [
        builders.chat_session(builders.user(), tenant=tenant),
        builders.chat_session(mine.user, tenant=builders.tenant("acme")),
    ]
    for each in (own, *others):
        builders.exchange(each, "The launch code is Heron-88", "Noted")
        search.index_session(each.pk)
    response = asked(mine, text="launch code Heron-88")
    assert response.context["answers"] == []
    assert {each.session_id for each in response.context["elsewhere"]} == {own.pk}


@pytest.mark.parametrize("text", ["%", "_", "\\", "'; DROP TABLE", "<b>x</b>", "\x00", "😄" * 3000])
def test_any_text_can_be_asked_for(text: str) -> None:
    turn = talk(history=[1, 2, 3, 4])
    response = asked(turn.chat_session, text=text)
    assert response.status_code == 200
    assert "<b>x</b>" not in response.content.decode()
    assert not response.context.get("answers")


# --- Preferences ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": "disabled"}, "It is disabled."),
        ({"expires_at": timezone.now()}, "It expired on"),
        ({"scope": "other-one"}, "It is for the assistant other-one alone"),
        ({}, "It was stored, or changed, after this turn."),
    ],
)
def test_a_preference_that_was_not_sent_says_why(changes: dict[str, Any], why: str) -> None:
    turn = talk(history=[1, 2, 3, 4])
    builders.preference(turn.chat_session.user, "city", "Lives in Reykjavik", **changes)
    response = asked(turn.chat_session, text="Lives in Reykjavik")
    [(found, _)] = response.context["remembered"]
    assert not found.was_sent
    assert found.why.startswith(why)


def test_a_proposed_preference_is_only_proposed() -> None:
    turn = talk()
    owner = turn.chat_session.tenant_id, turn.chat_session.user_id
    preferences.remember(*owner, "all", "city", "Reykjavik", origin="chat", status="proposed")
    assert "only proposed" in text_of(asked(turn.chat_session, text="Reykjavik"))


def test_preferences_in_the_request_and_beyond_their_share_are_told_apart() -> None:
    turn = talk()
    sent = builders.preference(turn.chat_session.user, "city", "Reykjavik")
    beyond = builders.preference(turn.chat_session.user, "second city", "Reykjavik too")
    record = turn.context_records.get()
    record.manifest["preferences"] = [{"id": sent.pk, "key": "city"}]
    record.manifest["preferences_left_out"] = [
        {"id": beyond.pk, "key": "second city", "reason": "share"}
    ]
    record.save()
    found = asked(turn.chat_session, text="Reykjavik").context["remembered"]
    assert {each.row.pk: each.was_sent for each, _ in found} == {sent.pk: True, beyond.pk: False}
    [settings] = [links for each, links in found if each.row.pk == beyond.pk]
    assert [each.setting.field for each in settings] == ["CHAT_PREFERENCE_TOKENS"]


def test_a_preference_that_was_forgotten_is_known_by_its_hash() -> None:
    turn = talk()
    owner = turn.chat_session.tenant_id, turn.chat_session.user_id
    row = builders.preference(turn.chat_session.user, "city", "Lives in Reykjavik")
    preferences.delete(*owner, row.pk)
    page = text_of(asked(turn.chat_session, text="lives in Reykjavik!"))
    assert "The person deleted a preference that said this." in page
    assert "deleted a preference" not in text_of(asked(turn.chat_session, text="Oslo"))


def test_what_was_taken_from_a_message_is_named_with_it() -> None:
    turn = talk(history=[1, 2, 3, 4])
    row = builders.preference(turn.chat_session.user, "code", "青云")
    UserPreference.objects.filter(pk=row.pk).update(source_session=turn.chat_session, source_seq=1)
    [(found, _)] = asked(turn.chat_session, seq="1").context["remembered"]
    assert found.row.pk == row.pk


# --- Who may --------------------------------------------------------------------------------------


def test_who_may_not_read_text_asks_by_number_and_sees_none() -> None:
    turn = talk(history=[1, 2, 3, 4])
    builders.preference(turn.chat_session.user, "code", PHRASE)
    client = signed_in(viewer())
    page = text_of(asked(turn.chat_session, client, seq="1"))
    assert "Message 1 was in it" in page
    assert "青云" not in page
    blind = asked(turn.chat_session, client, text=PHRASE)
    assert "is_answered" not in blind.context
    assert "<textarea" not in text_of(blind)


def test_a_text_in_an_address_is_not_asked_for() -> None:
    turn = talk(history=[1, 2, 3, 4])
    client = signed_in(builders.superuser())
    response = client.get(why_not_url(turn.chat_session), {"text": PHRASE})
    assert "is_answered" not in response.context
    assert AuditEvent.objects.count() == 0


def test_asking_is_recorded_without_the_text() -> None:
    turn = talk(history=[1, 2, 3, 4])
    person = viewer(READ)
    asked(turn.chat_session, signed_in(person), turn="3", text=PHRASE)
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_type, event.object_id) == (
        person,
        "why_not.read",
        "session",
        str(turn.chat_session_id),
    )
    assert event.filter == {"turn": 3, "seq": None, "searched": True, "text": True}


def test_foreign_and_unknown_sessions_end_alike() -> None:
    foreign = talk(tenant=builders.tenant("acme"), person=builders.user())
    client = signed_in(viewer(READ))
    unknown = ChatSession(pk=uuid.uuid4())
    codes = [asked(each, client, seq="1").status_code for each in (foreign.chat_session, unknown)]
    assert codes == [404, 404]
    assert AuditEvent.objects.count() == 0


def test_a_reason_is_asked_for_where_one_is_required(settings: Any) -> None:
    settings.CHAT_READ_REASON_REQUIRED = True
    turn = talk()
    response = asked(turn.chat_session, signed_in(viewer(READ)), seq="1")
    assert response.status_code == 302
    assert "/reason/" in response["Location"]


def test_staff_content_that_is_closed_closes_the_page(settings: Any) -> None:
    settings.CHAT_STAFF_CONTENT = False
    turn = talk()
    assert asked(turn.chat_session, seq="1").status_code == 403
