"""`manage.py explain_context`: what was sent, what was not, and what another policy would do."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from io import StringIO

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command

from chat import documents, llm
from chat.models import ChatMessage, ChatSession, ContextRecord
from memory import preferences
from tests import builders
from tests.fakes import FakeEndpoint
from tests.orders import say, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def explain(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("explain_context", *arguments, stdout=out)
    return out.getvalue().splitlines()


async def conversation(fake_endpoint: FakeEndpoint) -> ChatSession:
    """Fourteen exchanges, the first of which holds the phrase, and a turn of four messages."""
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=4)
    await sync_to_async(builders.exchange)(chat_session, "青云-4173", "已记住")
    await sync_to_async(builders.exchanges)(chat_session, 13)
    await sync_to_async(preferences.remember)(
        chat_session.tenant_id, chat_session.user_id, "all", "language", "Java", origin="user"
    )
    await say(chat_session, "What was it?")
    return chat_session


async def test_a_turn_is_explained_part_by_part(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    lines = await sync_to_async(explain)(str(chat_session.pk))
    assert lines[0] == f"Session {chat_session.pk}, turn 15 (completed)"
    assert lines[1] == "Request 1 to fake: rebuilt exactly, and proven"
    kinds = [line.split(":")[0] for line in lines[3:]]
    assert kinds[:6] == [
        "  + prompt, system",
        "  + history 25, user",
        "  + history 26, assistant",
        "  + history 27, user",
        "  + history 28, assistant",
        "  + input 29, user",
    ]
    assert lines[9] == "  - messages 1 to 24: max_messages"
    assert lines[10].endswith(": language")
    assert lines[11] == (
        "Switches of the session today: enabled=True (assistant), max_messages=4 (session),"
        " max_tokens=None (environment), stride=0 (assistant), summarize=False (environment),"
        " use_preferences=True (assistant), use_digest=True (assistant)"
    )


async def test_passages_and_the_output_schema_are_explained(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    assistant = chat_session.assistant
    assistant.output_schema = {"type": "string"}
    await assistant.asave()
    await sync_to_async(documents.add)(assistant, "handbook.md", b"Refunds take 14 days.")
    await say(chat_session, "refunds")
    lines = await sync_to_async(explain)(str(chat_session.pk))
    assert any(line.startswith("  + output schema, as instructions: ") for line in lines)
    assert any(line.startswith("  * passage 1, handbook.md: ") for line in lines)
    await say(chat_session, "unicorns")
    lines = await sync_to_async(explain)(str(chat_session.pk))
    assert "  - no passage: nothing_matched" in lines


async def test_another_policy_is_tried_without_writing_or_calling_anything(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await conversation(fake_endpoint)
    before = await ContextRecord.objects.acount(), len(fake_endpoint.requests)
    lines = await sync_to_async(explain)(
        str(chat_session.pk), "--turn", "15", "--what-if", "max_messages=50", "use_preferences=no"
    )
    assert "  + history 1, user" in [line.split(":")[0] for line in lines]
    assert not any(line.startswith(("  -", "  *")) for line in lines)
    off = await sync_to_async(explain)(str(chat_session.pk), "--what-if", "enabled=no")
    assert "  - messages 1 to 28: memory_off" in off
    assert (await ContextRecord.objects.acount(), len(fake_endpoint.requests)) == before


async def test_a_changed_text_is_said_to_be_changed(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    await ChatMessage.objects.filter(seq=27).aupdate(content="something else")
    assert "NOT what was sent" in (await sync_to_async(explain)(str(chat_session.pk)))[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "does not have any turn"),
        (["--turn", "7"], "does not have a turn 7"),
        (["--what-if", "max_messages=many"], "is not understood"),
        (["--what-if", "temperature=1"], "is not understood"),
    ],
)
def test_what_cannot_be_explained_is_named(arguments: list[str], message: str) -> None:
    chat_session = builders.chat_session()
    with pytest.raises(CommandError, match=message):
        explain(str(chat_session.pk), *arguments)


def test_an_unknown_session_is_named() -> None:
    unknown = uuid.uuid4()
    with pytest.raises(CommandError, match=f"There is no session {unknown}"):
        explain(str(unknown))


async def test_a_policy_that_cannot_be_is_refused(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    with pytest.raises(CommandError, match="nothing would be sent"):
        await sync_to_async(explain)(str(chat_session.pk), "--what-if", "max_messages=0")
