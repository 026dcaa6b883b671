"""`manage.py rebuild_search`: the index anew from the messages."""

from __future__ import annotations

import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from chat.models import ChatMessage, ChatSession, SearchEntry
from chat.search import messages, rebuilding
from chat.search.messages import Found
from tests import builders

pytestmark = pytest.mark.django_db

QUESTIONS = ("question 3", "answer", "北京", "question")


def conversation(person: Any = None, count: int = 8) -> ChatSession:
    chat_session = builders.chat_session(person)
    builders.exchanges(chat_session, count)
    builders.exchange(chat_session, "去北京吗？", "去。")
    return chat_session


def index_live(chat_session: ChatSession) -> None:
    """As turns do it: one message after the other."""
    for each in ChatMessage.objects.filter(chat_session=chat_session).order_by("seq"):
        messages.index(
            each, each.parent, tenant_id=chat_session.tenant_id, user_id=chat_session.user_id
        )


def answers(chat_session: ChatSession) -> list[list[Found]]:
    owner: dict[str, Any] = {"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id}
    return [messages.find(**owner, question=each, limit=50) for each in QUESTIONS]


def rebuild(*arguments: str) -> str:
    out = StringIO()
    call_command("rebuild_search", *arguments, stdout=out)
    return out.getvalue()


def test_a_rebuild_gives_what_writing_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BATCH", 3)  # batches that end between a question and its answer
    chat_session = conversation()
    index_live(chat_session)
    written = answers(chat_session)
    assert all(written)
    assert "Sessions: 1; messages that can be found: 18" in rebuild()
    assert answers(chat_session) == written
    SearchEntry.objects.all().delete()
    assert not any(answers(chat_session))
    rebuild()
    again = [[(f.message_id, f.score) for f in found] for found in answers(chat_session)]
    assert again == [[(f.message_id, f.score) for f in found] for found in written]


def test_a_rebuild_takes_out_what_should_not_be_there() -> None:
    chat_session, hidden = conversation(), conversation()
    rebuild()
    redacted = ChatMessage.objects.get(chat_session=chat_session, content="Question 3")
    ChatMessage.objects.filter(pk=redacted.pk).update(redacted_at=timezone.now())
    ChatSession.objects.filter(pk=hidden.pk).update(is_temporary=True)
    assert "Sessions: 2; messages that can be found: 17" in rebuild()
    assert not SearchEntry.objects.filter(message=redacted).exists()
    assert not SearchEntry.objects.filter(chat_session=hidden).exists()
    assert redacted.pk not in {f.message_id for found in answers(chat_session) for f in found}


def test_one_session_is_rebuilt_and_no_other() -> None:
    chat_session, other = conversation(), conversation()
    assert "Sessions: 1; messages" in rebuild("--session", str(chat_session.pk))
    assert any(answers(chat_session))
    assert not SearchEntry.objects.filter(chat_session=other).exists()


def test_a_session_that_does_not_exist_is_named() -> None:
    unknown = uuid.uuid4()
    with pytest.raises(CommandError, match=f"There is no session {unknown}"):
        rebuild("--session", str(unknown))


def test_a_session_that_goes_meanwhile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = conversation()
    assert rebuilding.rebuild(uuid.uuid4()).messages == 0
    assert rebuilding.rebuild(chat_session.pk).messages == 18


def test_a_session_that_changed_hands_is_its_new_holders() -> None:
    chat_session, heir = conversation(), builders.user()
    rebuild()
    ChatSession.objects.filter(pk=chat_session.pk).update(user=heir)
    rebuild()
    assert not any(answers(chat_session))
    chat_session.refresh_from_db()
    assert any(answers(chat_session))


def test_who_has_messages_and_no_index_is_told_so() -> None:
    chat_session = conversation()
    owner: dict[str, Any] = {"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id}
    assert messages.notice_for(**owner) == messages.NOT_INDEXED
    rebuild()
    assert messages.notice_for(**owner) == messages.notice()
    nobody = builders.user()
    assert messages.notice_for(owner["tenant_id"], nobody.pk) == messages.notice()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="others keep words in the entry's row")
def test_after_optimising_nothing_of_a_deleted_message_is_in_the_tables_of_the_index() -> None:
    chat_session = conversation()
    builders.message(chat_session, "user", "quokkaquokka")
    for number in range(50):
        builders.message(chat_session, "user", f"filler {number}")
    rebuild()
    messages.remove_messages([ChatMessage.objects.get(content="quokkaquokka").pk])
    messages.optimise()
    with connection.cursor() as cursor:
        cursor.execute("SELECT block FROM chat_search_words_data")
        blocks = b"".join(bytes(block) for (block,) in cursor.fetchall())
    assert b"fill" in blocks
    assert b"quokka" not in blocks
