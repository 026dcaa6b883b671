"""Reading what people wrote: closed to all staff by a switch, or opened after a reason is given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import (
    AuditEvent,
    ChatSession,
    ChatTurn,
    ContextRecord,
    FollowUp,
    ReviewNote,
)
from memory.models import MemorySnapshot
from tests import builders
from tests.chat.admin_site import (
    READ,
    list_url,
    member,
    page_url,
    rows_of,
    sent_url,
    signed_in,
    text_of,
    transcript_url,
    viewer,
)
from tests.chat.api import Api

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

PLANTED = "青云-4173-planted"


@pytest.fixture
def chat_session() -> ChatSession:
    """A session whose every text holds PLANTED."""
    made = builders.chat_session(builders.user("alice"), title=f"About {PLANTED}")
    turn = builders.exchange(made, f"Remember {PLANTED}", f"I remember {PLANTED}")
    builders.proven_record(turn)
    builders.snapshot(made)
    builders.preference(made.user, "phrase", PLANTED)
    builders.feedback(turn, value=-1, comment=f"not {PLANTED}")
    ReviewNote.objects.create(chat_session=made, text=f"said {PLANTED}")
    builders.attachment(made)
    return made


def record_of(chat_session: ChatSession) -> ContextRecord:
    return ContextRecord.objects.get(chat_session=chat_session)


def contexts(chat_session: ChatSession) -> list[str]:
    record = record_of(chat_session)
    return [page_url(record), sent_url(record)]


def text_pages(chat_session: ChatSession) -> list[str]:
    """Every page that shows text of this one session."""
    return [
        transcript_url(chat_session),
        page_url(record_of(chat_session)),
        page_url(chat_session.messages.order_by("seq")[0]),
        page_url(MemorySnapshot.objects.get(chat_session=chat_session)),
    ]


# --- The switch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["Reviewer", "Memory manager", "superuser"])
def test_with_the_switch_off_no_page_shows_text_to_anybody(
    chat_session: ChatSession, settings: Any, role: str
) -> None:
    client = signed_in(builders.superuser() if role == "superuser" else member(role))
    pages = [*text_pages(chat_session), list_url(ChatSession), page_url(chat_session)]
    pages += [list_url(type(chat_session.messages.all()[0])), "/admin/memory/userpreference/"]
    with_text = [url for url in pages if PLANTED in text_of(client.get(url))]
    assert set(text_pages(chat_session)) <= set(with_text)
    settings.CHAT_STAFF_CONTENT = False
    assert [url for url in pages if PLANTED in text_of(client.get(url))] == []
    assert "this installation shows staff none" in text_of(client.get(transcript_url(chat_session)))


def test_with_the_switch_off_contexts_files_and_search_are_closed(
    chat_session: ChatSession, settings: Any
) -> None:
    client = signed_in(builders.superuser())
    image = chat_session.attachments.get()
    file = f"/admin/chat/chatsession/{chat_session.pk}/attachments/{image.pk}/"
    closed = [*contexts(chat_session), file]
    assert [client.get(url).status_code for url in closed] == [200, 200, 200]
    assert rows_of(client.get(list_url(ChatSession), {"q": PLANTED})) == [chat_session]
    settings.CHAT_STAFF_CONTENT = False
    assert [client.get(url).status_code for url in closed] == [403, 403, 403]
    assert rows_of(client.get(list_url(ChatSession), {"q": PLANTED})) == []


def test_with_the_switch_off_an_export_has_no_text(
    chat_session: ChatSession, settings: Any
) -> None:
    client = signed_in(builders.superuser())
    address = "/admin/chat/exportjob/new/chatsession/"
    form = {"kind": "messages", "format": "jsonl", "with_text": "on", "reason": "a test"}
    assert PLANTED in exported(client.post(address, form))
    settings.CHAT_STAFF_CONTENT = False
    assert 'name="with_text"' not in text_of(client.get(address))
    assert PLANTED not in exported(client.post(address, form))


def exported(response: Any) -> str:
    assert response.status_code == 200
    return b"".join(response).decode()


def test_the_api_never_shows_staff_what_is_somebody_elses(
    chat_session: ChatSession, settings: Any
) -> None:
    for shown in (True, False):
        settings.CHAT_STAFF_CONTENT = shown
        for path in ("", "messages/"):
            response = Api(builders.superuser()).get(f"/sessions/{chat_session.pk}/{path}")
            assert response.status_code == 404


def test_people_read_their_own_with_the_switch_off(
    chat_session: ChatSession, settings: Any
) -> None:
    settings.CHAT_STAFF_CONTENT = False
    response = Api(chat_session.user).get(f"/sessions/{chat_session.pk}/messages/")
    assert (response.status_code, PLANTED in str(response.json())) == (200, True)


# --- A reason -------------------------------------------------------------------------------------


@pytest.fixture
def asking(settings: Any) -> None:
    settings.CHAT_READ_REASON_REQUIRED = True


def reason_url(chat_session: ChatSession) -> str:
    return f"/admin/chat/chatsession/{chat_session.pk}/reason/"


def give(client: Client, chat_session: ChatSession, text: str = "a complaint", **asked: str) -> Any:
    return client.post(reason_url(chat_session), {"reason": text}, query_params=asked)


@pytest.mark.usefixtures("asking")
def test_every_page_with_text_asks_for_a_reason_and_leads_on(chat_session: ChatSession) -> None:
    for address in text_pages(chat_session):
        AuditEvent.objects.all().delete()
        client = signed_in(builders.superuser())
        asked = client.get(f"{address}?seq=1", follow=True)
        assert "why you read it" in text_of(asked), address
        assert PLANTED not in text_of(asked)
        assert not AuditEvent.objects.exists()
        (where, _), *_ = asked.redirect_chain
        assert client.post(where, {"reason": "a complaint"})["Location"] == f"{address}?seq=1"
        assert PLANTED in text_of(client.get(address))


@pytest.mark.usefixtures("asking")
def test_pieces_of_pages_do_not_open_without_a_reason(chat_session: ChatSession) -> None:
    client = signed_in(builders.superuser())
    image = chat_session.attachments.get()
    file = f"/admin/chat/chatsession/{chat_session.pk}/attachments/{image.pk}/"
    pieces = [sent_url(record_of(chat_session)), file]
    assert [client.get(url).status_code for url in pieces] == [403, 403]
    messages = client.get("/admin/chat/chatmessage/")
    assert (messages.status_code, PLANTED in text_of(messages)) == (200, False)
    give(client, chat_session)
    assert [client.get(url).status_code for url in pieces] == [200, 200]


@pytest.mark.usefixtures("asking")
def test_a_reason_is_kept_and_holds_for_one_reader_one_session_and_one_day(
    chat_session: ChatSession,
) -> None:
    reader, other = member("Reviewer"), member("Reviewer")
    client = signed_in(reader)
    give(client, chat_session, "  complaint\n4711 ")
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_id, event.reason) == (
        reader,
        "read.reason",
        str(chat_session.pk),
        "complaint 4711",
    )
    second = builders.chat_session()
    assert client.get(transcript_url(chat_session)).status_code == 200
    assert client.get(transcript_url(second)).status_code == 302
    assert signed_in(other).get(transcript_url(chat_session)).status_code == 302
    AuditEvent.objects.filter(pk=event.pk).update(at=timezone.now() - timedelta(days=1))
    assert client.get(transcript_url(chat_session)).status_code == 302


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize("text", ["", "   ", "\x00", "\n"])
def test_a_reason_that_says_nothing_opens_nothing(chat_session: ChatSession, text: str) -> None:
    client = signed_in(builders.superuser())
    assert "Say why. Nothing was opened." in text_of(give(client, chat_session, text))
    assert client.get(transcript_url(chat_session)).status_code == 302
    assert not AuditEvent.objects.exists()


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize("where", ["https://evil.example/", "//evil.example", "javascript:x", ""])
def test_it_leads_nowhere_else(chat_session: ChatSession, where: str) -> None:
    response = give(signed_in(builders.superuser()), chat_session, next=where)
    assert response["Location"] == transcript_url(chat_session)


@pytest.mark.usefixtures("asking")
def test_what_errors_quote_opens_with_a_reason_and_is_recorded(chat_session: ChatSession) -> None:
    turn = builders.exchange(chat_session)
    ChatTurn.objects.filter(pk=turn.pk).update(error_detail=f"cannot parse {PLANTED}")
    due = FollowUp.objects.create(
        kind="title",
        subject=str(chat_session.pk),
        chat_session=chat_session,
        due_at=timezone.now(),
        last_error=f"bad_title: {PLANTED}",
    )
    client = signed_in(builders.superuser())
    for row in (turn, due):
        asked = client.get(page_url(row))
        assert asked["Location"].startswith(reason_url(chat_session))
    give(client, chat_session)
    for row, kind in ((turn, "turn"), (due, "follow_up")):
        assert PLANTED in text_of(client.get(page_url(row)))
        event = AuditEvent.objects.get(action=f"{kind}.read")
        assert (event.object_type, event.object_id) == (kind, str(row.pk))


@pytest.mark.usefixtures("asking")
def test_figures_need_no_reason(chat_session: ChatSession) -> None:
    client = signed_in(member("Viewer"))
    page = client.get(transcript_url(chat_session))
    assert (page.status_code, PLANTED in text_of(page)) == (200, False)


@pytest.mark.usefixtures("asking")
def test_a_reason_is_not_asked_for_a_foreign_session(chat_session: ChatSession) -> None:
    client = signed_in(member("Reviewer", tenants=[builders.tenant("acme")]))
    for url in (transcript_url(chat_session), reason_url(chat_session)):
        assert client.get(url).status_code == 404
    assert give(client, chat_session).status_code == 404
    assert not AuditEvent.objects.exists()


def test_without_the_setting_nobody_is_asked(chat_session: ChatSession) -> None:
    client = signed_in(member("Reviewer"))
    assert [client.get(url).status_code for url in text_pages(chat_session)] == [200] * 4


# --- Titles ---------------------------------------------------------------------------------------


def test_whose_titles_were_shown_is_recorded_and_figures_are_not(
    chat_session: ChatSession,
) -> None:
    looks: dict[str, tuple[str, int, dict[str, Any]]] = {
        list_url(ChatSession) + "?q=words&state=held": ("session.list", 0, {"state": "held"}),
        reverse("admin:chat_chatsession_queue"): ("session.list", 0, {"queue": True}),
        page_url(chat_session): ("session.read", 1, {"text": True}),
    }
    reviewing = ("chat.add_reviewnote",)
    reader, blind = signed_in(viewer(READ, *reviewing)), signed_in(viewer(*reviewing))
    for address, (action, count, about) in looks.items():
        AuditEvent.objects.all().delete()
        assert reader.get(address).status_code == 200
        event = AuditEvent.objects.get()
        assert (event.action, event.count) == (action, count)
        assert about.items() <= event.filter.items()
        assert "words" not in str(event.filter)
        assert blind.get(address).status_code == 200
        assert AuditEvent.objects.filter(action=action).exclude(pk=event.pk).count() == (
            1 if action == "session.read" else 0
        )
