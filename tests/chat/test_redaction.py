"""Redaction: the text of messages goes with every copy, and the messages stay in their place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.urls import reverse

from chat import leases, llm, records, retention
from chat.models import AuditEvent, ChatMessage, ChatSession, ContextRecord
from chat.retention import removals
from memory.models import UserPreference
from tests import builders
from tests.chat.admin_site import page_url, signed_in
from tests.fakes import FakeEndpoint
from tests.orders import last_record, say, sent, session_at
from tests.planting import Planted, places, plant

pytestmark = pytest.mark.django_db(transaction=True)

REMARKS = {  # what others wrote about the conversation is theirs, and stays
    "chat_auditevent.reason",
    "chat_feedback.comment",
    "chat_reviewnote.text",
    "chat_reviewscore.name",
}
GIVEN_TITLE = {"chat_chatsession.title"}


@pytest.fixture(autouse=True)
def _media_of_its_own(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"


@pytest.fixture
def alice() -> Planted:
    builders.tenant("default")
    return plant("alice")


def rows(chat_session: ChatSession) -> list[tuple[int, str | None, bool]]:
    found = ChatMessage.objects.filter(chat_session=chat_session).order_by("seq")
    return [(row.seq, row.content, row.redacted_at is not None) for row in found]


def test_messages_lose_their_text_and_every_copy_of_it(alice: Planted) -> None:
    ids = list(alice.session.messages.filter(seq__lte=2).values_list("pk", flat=True))
    assert retention.redact(alice.session.pk, ids, reason="asked for") == 2
    removals.retry()
    assert places() == REMARKS
    assert rows(alice.session) == [
        (1, "", True),
        (2, "", True),
        (3, "And then?", False),
        (4, "Nothing more.", False),
    ]
    alice.session.refresh_from_db()
    assert (alice.session.message_count, alice.session.title) == (4, "And then?")
    events = AuditEvent.objects.filter(action="message.redact")
    assert sorted(events.values_list("object_id", "reason")) == sorted(
        (str(pk), "asked for") for pk in ids
    )
    assert not UserPreference.objects.exists()


def test_what_was_sent_says_that_it_cannot_be_proven_any_more(alice: Planted) -> None:
    retention.redact(alice.session.pk, [alice.turn.input_id])
    for record in ContextRecord.objects.filter(chat_session=alice.session):
        assert records.rebuild(record).proof == "missing"


def test_a_whole_session_is_redacted_with_a_title_that_somebody_gave(alice: Planted) -> None:
    ChatSession.objects.filter(pk=alice.session.pk).update(title_source="user")
    assert retention.redact(alice.session.pk, retention.ALL) == 4
    removals.retry()
    assert places() == REMARKS
    assert {content for _, content, _ in rows(alice.session)} == {""}
    assert AuditEvent.objects.get(action="session.redact").count == 4


def test_a_given_title_is_the_persons_own_when_one_message_goes(alice: Planted) -> None:
    ChatSession.objects.filter(pk=alice.session.pk).update(title_source="user")
    ids = alice.session.messages.filter(seq__lte=2).values_list("pk", flat=True)
    retention.redact(alice.session.pk, list(ids))
    removals.retry()
    assert places() == REMARKS | GIVEN_TITLE


def test_it_is_done_once_and_not_while_an_answer_runs(alice: Planted) -> None:
    ids = [alice.turn.input_id]
    ChatSession.objects.filter(pk=alice.session.pk).update(running_turn=alice.turn.pk)
    with pytest.raises(leases.Busy):
        retention.redact(alice.session.pk, ids)
    ChatSession.objects.filter(pk=alice.session.pk).update(running_turn=None)
    assert [retention.redact(alice.session.pk, ids) for _ in range(2)] == [1, 0]


def test_messages_of_another_session_are_left_alone(alice: Planted) -> None:
    other = builders.exchange(builders.chat_session(), "Theirs")
    assert retention.redact(alice.session.pk, [other.input_id]) == 0
    assert ChatMessage.objects.get(pk=other.input_id).content == "Theirs"


class TestAfterwards:
    @pytest.fixture(autouse=True)
    async def _close_clients(self) -> AsyncIterator[None]:
        yield
        await llm.aclose()

    async def test_the_next_request_says_so_in_its_place(self, fake_endpoint: FakeEndpoint) -> None:
        chat_session = await sync_to_async(session_at)(fake_endpoint)
        turn = await say(chat_session, "my card is 4173")
        await sync_to_async(retention.redact)(chat_session.pk, [turn.input_id])
        await say(chat_session, "Go on.")
        assert sent(fake_endpoint)[1:] == ["[This text was redacted.]", "Hello there.", "Go on."]
        record = await last_record(chat_session)
        assert record.manifest["parts"][1]["mark"] == "redacted"


# --- In the admin ---------------------------------------------------------------------------------


def redact_url(message: ChatMessage) -> str:
    return reverse("admin:chat_chatmessage_redact", args=[message.pk])


def redactor(alice: Planted) -> Any:
    return builders.staff(
        tenants=[alice.session.tenant],
        permissions=["chat.redact", "chat.view_chatmessage", "chat.view_chatsession"],
    )


def test_staff_redact_a_message_with_a_reason(alice: Planted) -> None:
    client = signed_in(redactor(alice))
    message = alice.session.messages.get(seq=1)
    assert redact_url(message) in client.get(page_url(message)).content.decode()
    assert "Give a reason" in client.post(redact_url(message), {"reason": " "}).content.decode()
    assert ChatMessage.objects.get(pk=message.pk).redacted_at is None
    client.post(redact_url(message), {"reason": "card number"})
    assert ChatMessage.objects.get(pk=message.pk).content == ""
    assert AuditEvent.objects.get(action="message.redact").reason == "card number"


def test_its_answers_go_along_when_that_is_ticked(alice: Planted) -> None:
    client = signed_in(redactor(alice))
    message = alice.session.messages.get(seq=1)
    assert 'name="answers" checked' in client.get(redact_url(message)).content.decode()
    client.post(redact_url(message), {"reason": "asked for", "answers": "on"})
    assert [content for _, content, _ in rows(alice.session)][:3] == ["", "", "And then?"]


@pytest.mark.parametrize("permission", ["chat.read_message_content", "chat.delete_chatsession"])
def test_other_permissions_do_not_redact(alice: Planted, permission: str) -> None:
    permissions = ["chat.view_chatmessage", "chat.view_chatsession", permission]
    client = signed_in(builders.staff(tenants=[alice.session.tenant], permissions=permissions))
    message = alice.session.messages.get(seq=1)
    assert redact_url(message) not in client.get(page_url(message)).content.decode()
    assert client.post(redact_url(message), {"reason": "x"}).status_code == 403
    assert ChatMessage.objects.get(pk=message.pk).redacted_at is None


def test_another_tenants_message_is_not_there(alice: Planted) -> None:
    client = signed_in(
        builders.staff(
            tenants=[builders.tenant("other")],
            permissions=["chat.redact", "chat.view_chatmessage"],
        )
    )
    message = alice.session.messages.get(seq=1)
    assert client.post(redact_url(message), {"reason": "x"}).status_code == 404
    assert ChatMessage.objects.get(pk=message.pk).redacted_at is None


def test_staff_redact_whole_sessions_after_typing_their_number(alice: Planted) -> None:
    client = signed_in(redactor(alice))
    data = {"action": "redact_sessions", "_selected_action": [str(alice.session.pk)]}
    url = reverse("admin:chat_chatsession_changelist")
    assert "Redact all text" in client.post(url, data).content.decode()
    assert ChatMessage.objects.filter(redacted_at=None, chat_session=alice.session).count() == 4
    page = client.post(url, {**data, "typed": "1", "reason": " "}).content.decode()
    assert "Say why. Nothing was done." in page
    assert ChatMessage.objects.filter(redacted_at=None, chat_session=alice.session).count() == 4
    client.post(url, {**data, "typed": "1", "reason": "asked for"})
    assert not ChatMessage.objects.filter(redacted_at=None, chat_session=alice.session).exists()
