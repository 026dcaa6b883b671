"""The acceptance table of the context-management guide that this product grew out of, by its rows.

Each test is named after a row; what a row asks for in detail stands in the tests of the module
that does it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import llm, retention, running
from chat.follow_ups import prompts
from chat.models import (
    Assistant,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextRecord,
    ModelEndpoint,
)
from chat.turns import Refused
from memory.models import ConversationSummary, MemorySnapshot, UserPreference
from tests import builders
from tests.clients import Person
from tests.databases import Databases
from tests.fakes import FakeEndpoint, Reply, answer, breaks_off, endless
from tests.follow_ups import work_off
from tests.orders import again, last_record, rows_on_path, run_order, say, send, sent, session_at
from tests.servers import Server
from tests.toolbox import PATHS, asks, session_with_tools

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
    await sync_to_async(retention.forget_session)(chat_session.pk)
    for model in (ChatSession, ChatMessage, ChatTurn, ContextRecord, MemorySnapshot):
        assert await model.objects.acount() == 0


async def test_system_tool_and_multimodal_messages(
    fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    """Correct position, request and result pairing, and restoration."""
    settings.CHAT_TOOLS = PATHS
    chat_session = await sync_to_async(session_with_tools)(fake_endpoint, prompt="Be brief.")
    await ModelEndpoint.objects.aupdate(supports_vision=True)
    image = await sync_to_async(builders.attachment)(chat_session)
    fake_endpoint.replies(
        asks(("c1", "echo", '{"text": "青云-4173"}')), answer("已记住"), answer("青云-4173")
    )
    await run_order(send(chat_session, FIRST, attachments=(image.pk,)))
    await MemorySnapshot.objects.all().adelete()  # what is sent next is rebuilt from the rows
    await say(chat_session, SECOND)
    system, shown, asked, result, said, question = fake_endpoint.requests[-1].body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
    assert [call["id"] for call in asked["tool_calls"]] == [result["tool_call_id"]] == ["c1"]
    assert (result["content"], said["content"], question["content"]) == (
        "青云-4173",
        "已记住",
        SECOND,
    )
    first = fake_endpoint.requests[1].body["messages"]
    assert [system, shown, asked, result] == first  # exactly as in the turn itself


async def test_summaries_and_long_term_memory(
    fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    """Traceable summaries, updated preferences, no recall of deleted facts."""
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    settings.CHAT_PREFERENCES_MODE = "auto"
    settings.CHAT_TITLES_ENABLED = settings.CHAT_DIGEST_ENABLED = False
    model = Model(fake_endpoint)
    a = await sync_to_async(session_at)(fake_endpoint, max_messages=4)
    await Assistant.objects.aupdate(summarize=True)
    model.finds("code language", "Code examples in Java", "Code examples in Java, please", None)
    await say(a, "Code examples in Java, please. 部署窗口定在周五。")
    await work_off()
    for number in range(4):
        await say(a, f"Question {number}: tell me in some detail how such a deployment is done.")
        await work_off()
    summary = await ConversationSummary.objects.order_by("-version").afirst()
    assert summary is not None
    assert (summary.covers_from, summary.items[0]["seq"]) == (1, 1)  # traceable to its source
    await say(a, "Go on.")
    assert "部署窗口定在周五" in sent(fake_endpoint)[1]  # in the summary: the message is evicted
    b = await sync_to_async(builders.chat_session)(a.user, assistant=a.assistant)
    model.finds("programming language", "Kotlin for code", "Kotlin from now on", "code language")
    await say(b, "Use Kotlin from now on.")
    assert "Code examples in Java" in sent(fake_endpoint)[-1]
    await work_off()
    await say(b, "A loop, please.")
    assert "Kotlin for code" in sent(fake_endpoint)[-1]
    assert "Java" not in sent(fake_endpoint)[-1]
    kotlin = await UserPreference.objects.aget(status="active")
    assert await UserPreference.objects.filter(superseded_by=kotlin).acount() == 1
    await sync_to_async(retention.forget_preference)(a.tenant_id, a.user_id, kotlin.pk)
    await ChatSession.objects.aupdate(extracted_through=0)  # every old message is searched again
    model.finds("language", "Code examples in Java", "Code examples in Java, please", None)
    await say(a, "And the next step?")
    await work_off()
    assert model.asked_for_preferences > 2
    assert await UserPreference.objects.acount() == 0
    c = await sync_to_async(builders.chat_session)(a.user, assistant=a.assistant)
    await say(c, "A loop, please.")
    assert sent(fake_endpoint) == [builders.PROMPT, "A loop, please."]


class Model:
    """A scripted model: it talks, keeps minutes of the first message, and finds one preference."""

    def __init__(self, fake_endpoint: FakeEndpoint) -> None:
        self.found: list[dict[str, Any]] = []
        self.asked_for_preferences = 0
        fake_endpoint.default = self._reply

    def finds(self, key: str, text: str, quote: str, replaces: str | None) -> None:
        """From now on: this preference, in whichever message says it."""
        self.found = [
            {"key": key, "text": text, "quote": quote, "replaces": replaces, "confidence": 0.9}
        ]

    def _reply(self, body: dict[str, Any]) -> Reply:
        system, asked = body["messages"][0]["content"], body["messages"][-1]["content"]
        if system == prompts.SUMMARY:
            said = json.loads(asked)["messages"][0]
            fact = {"text": "部署窗口定在周五", "seq": said["seq"]}
            minutes = {"decisions": [fact], "constraints": [], "open_tasks": [], "facts": []}
            return answer(json.dumps({**minutes, "outdated": []}))
        if system == prompts.PREFERENCES:
            self.asked_for_preferences += 1
            said = json.loads(asked)["messages"]
            hits = [
                {**each, "seq": message["seq"]}
                for each in self.found
                for message in said
                if each["quote"] in str(message)
            ]
            return answer(json.dumps({"preferences": hits}))
        return answer("A short answer to that, as asked.")


def test_every_row_has_a_test() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert tested >= set(ROWS)
