"""The acceptance table of the context-management guide that this product grew out of, by its rows.

Each test is named after a row; what a row asks for in detail stands in the tests of the module
that does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from asgiref.sync import sync_to_async

from chat import llm, retention, running
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord
from chat.turns import Refused
from memory.models import MemorySnapshot
from tests import builders
from tests.clients import Person
from tests.databases import Databases
from tests.fakes import FakeEndpoint, answer, breaks_off, endless
from tests.orders import again, last_record, rows_on_path, run_order, say, send, sent, session_at
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = "记忆验证：请记住校验短语“青云-4173”，并只回复“已记住”。"
SECOND = "请告诉我刚才要求你记住的校验短语是什么？只回复短语。"
ENGLISH = (
    "Memory check: please remember the verification phrase “Qingyun-4173” and reply only"
    " “Remembered”.",
    "What verification phrase did I just ask you to remember? Reply with the phrase only.",
)
ROWS = (
    "two_turns",
    "different_sessions_users_tenants",
    "restart",
    "count_and_token_overflow",
    "system_tool_and_multimodal_messages",
    "memory_disabled",
    "concurrency_stream_failure_retry",
    "clear_and_delete",
    "summaries_and_long_term_memory",
)
TO_COME = {
    "system_tool_and_multimodal_messages": "tools and attachments are not built yet",
    "summaries_and_long_term_memory": "summaries and extraction are not built yet",
}


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


async def test_two_turns(fake_endpoint: FakeEndpoint) -> None:
    """Prior messages present; current input appears once."""
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    fake_endpoint.replies(answer("已记住"), answer("青云-4173"))
    await say(chat_session, FIRST)
    await say(chat_session, SECOND)
    assert sent(fake_endpoint) == [builders.PROMPT, FIRST, "已记住", SECOND]


async def test_different_sessions_users_tenants(fake_endpoint: FakeEndpoint) -> None:
    """Context and storage remain scoped."""
    first = await sync_to_async(session_at)(fake_endpoint)
    await say(first, FIRST)
    other_tenant = await sync_to_async(builders.tenant)()
    for person, fields in (
        (first.user, {}),
        (None, {}),
        (first.user, {"tenant": other_tenant}),
    ):
        other = await sync_to_async(session_at)(
            fake_endpoint, person, assistant=first.assistant, **fields
        )
        await say(other, SECOND)
        assert sent(fake_endpoint) == [builders.PROMPT, SECOND]
        assert await ChatMessage.objects.filter(chat_session=other).acount() == 2


async def test_restart(start_server: Callable[..., Server], databases: Databases) -> None:
    """Persistent windows restore."""
    database_url = databases.seeded("sqlite")
    first = start_server(database_url=database_url)
    alice = Person(first.url, "alice")
    chinese, english = alice.new_session(), alice.new_session()
    for session, text in ((chinese, FIRST), (english, ENGLISH[0])):
        socket = await alice.socket(session)
        await socket.ask(text)
        await socket.close()
    first.kill()
    alice = alice.at(start_server(database_url=database_url).url)
    socket = await alice.socket(chinese)
    assert "青云-4173" in await socket.ask(SECOND)
    await socket.close()
    socket = await alice.socket(english)
    assert "Qingyun-4173" in await socket.ask(ENGLISH[1])
    await socket.close()
    assert len(alice.messages(chinese)) == 4


async def test_count_and_token_overflow(fake_endpoint: FakeEndpoint) -> None:
    """Older window messages evict, full history remains, current input is not lost."""
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    await sync_to_async(builders.exchanges)(chat_session, 30)
    rows = ChatSession.objects.filter(pk=chat_session.pk)
    await say(chat_session, "by count")
    assert sent(fake_endpoint)[1:] == [
        *(f"{kind} {n}" for n in range(21, 31) for kind in ("Question", "Answer")),
        "by count",
    ]
    await rows.aupdate(max_tokens=40)
    await say(chat_session, "by tokens")
    contents = sent(fake_endpoint)
    assert contents[-3:] == ["by count", "Hello there.", "by tokens"]
    assert len(contents) < 10
    record = await last_record(chat_session)
    assert [gap["reason"] for gap in record.manifest["left_out"]] == ["max_tokens"]
    assert await ChatMessage.objects.filter(chat_session=chat_session).acount() == 64


async def test_memory_disabled(fake_endpoint: FakeEndpoint) -> None:
    """No history injection; history is still stored."""
    chat_session = await sync_to_async(session_at)(fake_endpoint, memory_enabled=False)
    await say(chat_session, FIRST)
    await say(chat_session, SECOND)
    assert sent(fake_endpoint) == [builders.PROMPT, SECOND]
    assert await ChatMessage.objects.filter(chat_session=chat_session).acount() == 4
    assert await MemorySnapshot.objects.acount() == 0


async def test_concurrency_stream_failure_retry(fake_endpoint: FakeEndpoint) -> None:
    """Stable ordering, no overwrites or duplicate or partial turns."""
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    orders = [send(chat_session, f"message {n}") for n in range(10)]
    outcomes = await asyncio.gather(*map(run_order, orders), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, Refused)]
    finished = [each for each in outcomes if isinstance(each, ChatTurn)]
    assert len(refused) + len(finished) == 10
    assert {each.code for each in refused} <= {"turn_in_progress"}
    fake_endpoint.replies(breaks_off("half"), answer("whole"))
    failed = await say(chat_session, "last")
    retried = await run_order(again("retry", failed))
    rows = await sync_to_async(rows_on_path)(chat_session)
    assert [role for _, role, _, _ in rows] == ["user", "assistant"] * (len(finished) + 1)
    assert [content for _, _, content, _ in rows[-2:]] == ["last", "whole"]
    assert retried.input_id == failed.input_id
    assert sent(fake_endpoint).count("last") == 1
    assert "half" not in sent(fake_endpoint)


async def test_clear_and_delete(fake_endpoint: FakeEndpoint) -> None:
    """Cleared content does not return through caches, snapshots, or history."""
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    fake_endpoint.replies(answer("已记住"), endless("青云-4173 "))
    await say(chat_session, FIRST)
    started = await running.start(send(chat_session, "go on"))
    await sync_to_async(retention.clear_memory)(chat_session.pk)
    await running.wait(chat_session.pk, started.turn_id)
    assert await MemorySnapshot.objects.acount() == 0
    await say(chat_session, SECOND)
    assert sent(fake_endpoint) == [builders.PROMPT, SECOND]
    assert await ChatMessage.objects.filter(content=FIRST).acount() == 1  # the transcript stays
    await sync_to_async(retention.delete_session)(chat_session.pk)
    for model in (ChatSession, ChatMessage, ChatTurn, ContextRecord, MemorySnapshot):
        assert await model.objects.acount() == 0


def test_every_row_has_a_test_or_is_listed_as_to_come() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert tested & set(ROWS) == set(ROWS) - set(TO_COME)
