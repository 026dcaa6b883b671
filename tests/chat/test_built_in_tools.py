"""The tools that are built in, as a model calls them in a turn."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chat import llm, retention, running
from chat.models import ChatMessage, ChatSession, ContextPart, DerivedText
from chat.tools import clock, history
from chat.turns import rounds
from chat.turns.history import REDACTED_TEXT
from chat.turns.tools import Result
from memory import digests, preferences
from memory.models import UserPreference
from tests import builders
from tests.fakes import FakeEndpoint, Reply, Wait, answer
from tests.orders import last_record, say, send, sent, session_at
from tests.planting import index
from tests.toolbox import asks

pytestmark = pytest.mark.django_db(transaction=True)

BUILT_IN = ["current_time", "remember", "forget", "search_history"]


@pytest.fixture(autouse=True)
async def _close_clients(settings: Any) -> AsyncIterator[None]:
    settings.CHAT_TITLES_ENABLED = False
    settings.CHAT_PREFERENCES_MODE = "off"
    settings.CHAT_DIGEST_ENABLED = True
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake", supports_tools=True)
    assistant = builders.assistant(endpoint=endpoint, tools=BUILT_IN)
    return session_at(fake_endpoint, assistant=assistant)


def another(chat_session: ChatSession, **fields: Any) -> ChatSession:
    """Another session of the same person with the same assistant."""
    return builders.chat_session(chat_session.user, assistant=chat_session.assistant, **fields)


async def call(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, name: str, **arguments: Any
) -> ChatMessage:
    """A turn in which the model calls the tool once; the row with the result."""
    fake_endpoint.replies(asks(("c1", name, json.dumps(arguments))), answer("Done."))
    await say(chat_session, f"Please use {name}.")
    rows = ChatMessage.objects.filter(chat_session=chat_session, role="tool")
    return await rows.order_by("-seq").afirst() or pytest.fail("no result")


async def test_all_of_them_are_offered(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await say(chat_session, "Hello")
    offered = fake_endpoint.requests[-1].body["tools"]
    assert [each["function"]["name"] for each in offered] == BUILT_IN


async def test_the_time_is_told_where_it_is_asked_for(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    told = await call(chat_session, fake_endpoint, "current_time", timezone="Asia/Kolkata")
    assert re.fullmatch(
        r"\w+day, \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30 \(Asia/Kolkata\)", told.content or ""
    )
    told = await call(chat_session, fake_endpoint, "current_time", timezone="../etc/passwd")
    assert told.is_error
    assert "is no time zone" in (told.content or "")


async def test_what_is_remembered_is_sent_in_every_later_conversation(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await call(chat_session, fake_endpoint, "remember", key="编程语言", text="用 Kotlin 写代码")
    row = await UserPreference.objects.aget()
    assert (row.key, row.text, row.status, row.origin) == (
        "编程语言",
        "用 Kotlin 写代码",
        "active",
        "chat",
    )
    assert (row.source_session_id, row.source_seq) == (chat_session.pk, 1)
    assert row.quote == "Please use remember."
    later = await sync_to_async(another)(chat_session)
    fake_endpoint.replies(answer("好"))
    await say(later, "写一个循环")
    assert "用 Kotlin 写代码" in sent(fake_endpoint)[-1]
    record = await last_record(later)
    assert [each["id"] for each in record.manifest["preferences"]] == [row.pk]
    await row.arefresh_from_db()
    assert row.last_used_at is not None


async def test_what_it_replaces_is_superseded_also_under_another_key(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await call(chat_session, fake_endpoint, "remember", key="language", text="Java")
    await call(
        chat_session, fake_endpoint, "remember", key="code", text="Kotlin", replaces="language"
    )
    rows = UserPreference.objects.order_by("pk").values_list("key", "text", "status")
    assert [row async for row in rows] == [
        ("language", "Java", "superseded"),
        ("language", "Kotlin", "active"),
    ]


async def test_what_cannot_be_remembered_is_an_error_that_says_why(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    told = await call(chat_session, fake_endpoint, "remember", key=" \u200b ", text="x")
    assert told.is_error
    assert not await UserPreference.objects.aexists()


async def test_what_is_forgotten_is_gone_and_an_unknown_key_is_named(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    stranger = await sync_to_async(builders.user)()
    await sync_to_async(builders.preference)(stranger, key="tea", text="theirs")
    await call(chat_session, fake_endpoint, "remember", key="tea", text="green")
    told = await call(chat_session, fake_endpoint, "forget", key="coffee")
    assert told.is_error
    assert told.content == ("Error: Nothing is remembered under 'coffee'. Known keys: tea.")
    told = await call(chat_session, fake_endpoint, "forget", key="Tea")
    assert not told.is_error
    assert [each.text async for each in UserPreference.objects.all()] == ["theirs"]


async def test_earlier_conversations_are_found_with_the_way_to_them_and_nobody_elses(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    def earlier() -> ChatSession:
        made = another(chat_session, title="Boats")
        builders.exchange(made, "The marina is called Falkenhafen.", "Noted.")
        index(made)
        theirs = builders.chat_session(assistant=chat_session.assistant)
        builders.exchange(theirs, "My marina Falkenhafen is a secret.", "Hush.")
        index(theirs)
        return made

    boats = await sync_to_async(earlier)()
    told = await call(chat_session, fake_endpoint, "search_history", words="marina Falkenhafen")
    text = told.content or ""
    assert "The marina is called Falkenhafen." in text
    assert f"Boats, message 1, at /chat/{boats.pk}/#1]" in text
    assert "secret" not in text
    sources = DerivedText.objects.filter(message=told, source_session=boats.pk)
    assert 1 in [each.source_seq async for each in sources]
    await sync_to_async(retention.forget_session)(boats.pk)
    await told.arefresh_from_db()
    assert (told.content, told.redacted_at is not None) == ("", True)
    told = await call(chat_session, fake_endpoint, "search_history", words="marina Falkenhafen")
    assert "Falkenhafen" not in (told.content or "").replace("marina Falkenhafen", "")


async def test_nothing_from_before_the_forget_line_is_found(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    def earlier() -> None:
        made = another(chat_session)
        builders.exchange(made, "The code word is Falkenhafen.", "Noted.")
        index(made)
        retention.clear_memory(made.pk)

    await sync_to_async(earlier)()
    told = await call(chat_session, fake_endpoint, "search_history", words="Falkenhafen")
    assert told.content == (
        "Nothing in the earlier conversations of this person matches these words."
    )


@pytest.mark.parametrize(
    ("source", "told"), [("auto", "untitled"), ("model", "untitled"), ("user", "Falkenhafen")]
)
async def test_a_title_from_before_the_forget_line_is_not_told_unless_somebody_gave_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, source: str, told: str
) -> None:
    def earlier() -> None:
        made = another(chat_session, title="Falkenhafen", title_source=source)
        builders.exchange(made, "The code word is Falkenhafen.", "Noted.")
        retention.clear_memory(made.pk)
        builders.exchange(made, "My dog is called Biscuit.", "Noted.")
        index(made)

    await sync_to_async(earlier)()
    result = await call(chat_session, fake_endpoint, "search_history", words="dog Biscuit")
    assert "My dog is called Biscuit." in (result.content or "")
    assert f"user · {told}, message 3" in (result.content or "")


async def test_of_a_long_message_the_part_is_told_that_was_asked_for(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    def earlier() -> None:
        made = another(chat_session)
        text = f"{'lorem ipsum ' * 400}港口叫青云。The marina is Falkenhafen.{' dolor sit' * 400}"
        builders.exchange(made, text, "Noted.")
        index(made)

    await sync_to_async(earlier)()
    result = await call(chat_session, fake_endpoint, "search_history", words="marina 青云", limit=1)
    told = (result.content or "").partition("]\n")[2]
    assert "港口叫青云。The marina is Falkenhafen." in told
    assert (told[0], told[-1]) == ("…", "…")
    assert len(told) < history.SHOWN + 30


async def test_what_somebody_else_deletes_in_this_moment_is_forgotten_too(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    matching = preferences.matching

    def and_gone(*asked: Any) -> list[UserPreference]:
        found = matching(*asked)
        UserPreference.objects.all().delete()
        return found

    monkeypatch.setattr(preferences, "matching", and_gone)
    await sync_to_async(builders.preference)(chat_session.user, "diet", "Vegan.")
    told = await call(chat_session, fake_endpoint, "forget", key="diet")
    assert (told.is_error, told.content) == (False, "Forgotten: diet")


async def test_what_a_turn_forgets_is_not_sent_again_by_it_and_no_copy_is_left(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await sync_to_async(builders.preference)(chat_session.user, "diet", "Eats no Falkenhafen fish.")
    await call(chat_session, fake_endpoint, "forget", key="diet")
    first, second = (str(each.body["messages"]) for each in fake_endpoint.requests)
    assert ("no Falkenhafen fish" in first, "no Falkenhafen fish" in second) == (True, False)
    assert not await ContextPart.objects.filter(text__contains="Falkenhafen").aexists()
    assert not await DerivedText.objects.exclude(source_preference=None).aexists()


async def test_what_was_found_and_deleted_while_another_tool_runs_is_not_stored(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    boats = await sync_to_async(indexed)(chat_session, "The marina is called Falkenhafen.")

    async def meanwhile(caller: object, arguments: object) -> Result:
        await sync_to_async(retention.forget_session)(boats.pk)
        return Result("Noon.")

    monkeypatch.setattr(clock, "CURRENT_TIME", replace(clock.CURRENT_TIME, run=meanwhile))
    asked = ("c1", "search_history", '{"words": "marina"}'), ("c2", "current_time", "{}")
    fake_endpoint.replies(asks(*asked), answer("Done."))
    await say(chat_session, "Where is it?")
    rows = ChatMessage.objects.filter(chat_session=chat_session, role="tool").order_by("seq")
    found, noon = [each async for each in rows]
    assert (found.content, found.redacted_at is not None) == ("", True)
    assert noon.content == "Noon."
    assert REDACTED_TEXT in sent(fake_endpoint)
    assert "Falkenhafen" not in str(fake_endpoint.requests[-1].body)
    assert not await ContextPart.objects.filter(text__contains="Falkenhafen").aexists()


async def test_what_was_found_and_deleted_while_the_model_writes_is_not_sent_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    boats = await sync_to_async(indexed)(chat_session, "The marina is called Falkenhafen.")
    await sync_to_async(digests.edit)(
        chat_session.tenant_id, chat_session.user_id, "Has a boat in Falkenhafen."
    )
    gate = threading.Event()
    time_asked = asks(("c2", "current_time", "{}"))
    fake_endpoint.replies(
        asks(("c1", "search_history", '{"words": "marina"}')),
        Reply([Wait(gate), *time_asked.steps]),
        answer("Done."),
    )
    turn = asyncio.create_task(say(chat_session, "Where is it?"))
    async with asyncio.timeout(10):
        while len(fake_endpoint.requests) < 2:
            await asyncio.sleep(0.01)
    assert "in Falkenhafen" in str(fake_endpoint.requests[-1].body["messages"])
    assert "called Falkenhafen" in str(fake_endpoint.requests[-1].body["messages"])
    await sync_to_async(retention.forget_session)(boats.pk)
    await sync_to_async(retention.forget_digest)(chat_session.tenant_id, chat_session.user_id)
    gate.set()
    await turn
    assert len(fake_endpoint.requests) == 3
    assert "Falkenhafen" not in str(fake_endpoint.requests[-1].body)
    assert not await ContextPart.objects.filter(text__contains="Falkenhafen").aexists()
    assert not await DerivedText.objects.filter(source_session=boats.pk).aexists()


def indexed(chat_session: ChatSession, text: str) -> ChatSession:
    """Another session in which something was said that can be found."""
    made = another(chat_session)
    builders.exchange(made, text, "Noted.")
    index(made)
    return made


async def test_a_whole_number_with_a_point_is_a_limit_too(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    result = await call(chat_session, fake_endpoint, "search_history", words="dog", limit=5.0)
    assert (result.is_error, result.content) == (False, history.NOTHING)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("remember", {"key": "language", "text": "Java"}),
        ("forget", {"key": "diet"}),
        ("search_history", {"words": "dog"}),
    ],
)
async def test_memory_that_is_switched_off_while_the_model_writes_is_neither_read_nor_written(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, name: str, arguments: dict[str, Any]
) -> None:
    await sync_to_async(builders.preference)(chat_session.user, "diet", "vegan")
    gate = threading.Event()
    asked = asks(("c1", name, json.dumps(arguments)))
    fake_endpoint.replies(Reply([Wait(gate), *asked.steps]), answer("Done."))
    started = await running.start(send(chat_session, "Please."))
    while not fake_endpoint.requests:
        await asyncio.sleep(0.01)
    await ChatSession.objects.aupdate(memory_enabled=False)
    gate.set()
    await running.wait(chat_session.pk, started.turn_id)
    result = await ChatMessage.objects.aget(role="tool")
    assert (result.is_error, result.content) == (True, f"Error: {rounds.MEMORY_OFF}")
    assert [row async for row in UserPreference.objects.values_list("key", "status")] == [
        ("diet", "active")
    ]


@pytest.mark.parametrize("replaces", [None, "code"])
async def test_what_is_known_of_this_assistant_alone_is_replaced_there(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, replaces: str | None
) -> None:
    slug = chat_session.assistant.slug
    await sync_to_async(builders.preference)(chat_session.user, "code", "Java", scope=slug)
    key = "language" if replaces else "code"
    fields = {"key": key, "text": "Kotlin", "replaces": replaces}
    await call(chat_session, fake_endpoint, "remember", **fields)
    await say(chat_session, "And now?")
    assert "Kotlin" in sent(fake_endpoint)[-1]
    assert "Java" not in sent(fake_endpoint)[-1]
    active = UserPreference.objects.filter(status="active").values_list("scope", "text")
    assert [row async for row in active] == [(slug, "Kotlin")]
