"""What runs while something is forgotten: answers, follow-ups, tools. They write nothing late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chat import dues, leases, llm, retention, running
from chat.models import Assistant, ChatMessage, ChatSession, ChatTurn, ContextPart, DerivedText
from chat.retention import removals
from memory import preferences
from memory.models import ConversationSummary, MemorySnapshot, UserPreference
from tests import builders
from tests.chat.api import AsyncApi
from tests.fakes import FakeEndpoint, Reply, Say, Wait, answer, endless
from tests.follow_ups import Meanwhile, saying
from tests.orders import say, send, session_at
from tests.planting import WORD, places

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients(settings: Any, tmp_path: Path) -> AsyncIterator[None]:
    settings.MEDIA_ROOT = tmp_path / "media"
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    builders.tenant("default")
    return session_at(fake_endpoint, builders.user("alice"))


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not await sync_to_async(condition)():
            await asyncio.sleep(0.02)


async def streaming(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, *, says: str = WORD
) -> Any:
    """A turn in the middle of an answer without an end, some of which is stored."""
    fake_endpoint.replies(endless(f"{says} "))
    started = await running.start(send(chat_session, f"I am {says}"))
    await until(lambda: ChatMessage.objects.filter(turn=started.turn_id).exists())
    return started


# --- A turn that answers --------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
async def test_a_person_who_is_forgotten_in_the_middle_of_an_answer_leaves_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, whole: bool
) -> None:
    started = await streaming(chat_session, fake_endpoint)
    person = chat_session.user_id
    receipt = await sync_to_async(retention.forget_user)(person, keep_account=not whole)
    await running.wait(chat_session.pk, started.turn_id)
    assert await fake_endpoint.requests[0].ended(5.0) == "disconnected"
    await sync_to_async(removals.retry)()
    assert await sync_to_async(places)() == set()
    assert receipt.counts["sessions"] == 1
    for model in (ChatSession, ChatTurn, ChatMessage, MemorySnapshot):
        assert await model.objects.acount() == 0, model


async def test_memory_that_is_cleared_in_the_middle_of_an_answer_stays_clear(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    started = await streaming(chat_session, fake_endpoint)
    cleared = await sync_to_async(retention.clear_memory)(chat_session.pk)
    await running.wait(chat_session.pk, started.turn_id)
    assert cleared.memory_starts_after == 2
    assert await MemorySnapshot.objects.acount() == 0
    await say(chat_session, "Who am I?")
    assert WORD not in str(fake_endpoint.requests[-1].body["messages"])


async def test_a_message_is_not_taken_out_under_a_running_answer(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    started = await streaming(chat_session, fake_endpoint)
    asked = await ChatMessage.objects.aget(role="user")
    with pytest.raises(leases.Busy):
        await sync_to_async(retention.forget_pair)(chat_session.pk, asked.pk)
    api = await AsyncApi.of(chat_session.user)
    path = f"/api/v1/sessions/{chat_session.pk}/messages/{asked.pk}/"
    refused = await api.client.delete(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "turn_in_progress")
    await sync_to_async(leases.request_stop)(started.turn_id, None)
    await running.wait(chat_session.pk, started.turn_id)
    done = await api.client.delete(path)
    assert (done.status_code, done.json()["head"]) == (200, None)
    await sync_to_async(removals.retry)()
    assert await sync_to_async(places)() == set()
    unknown = await api.client.delete(path)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")


async def test_a_preference_that_is_forgotten_while_it_is_used_is_in_no_later_request(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    made = await sync_to_async(builders.preference)(chat_session.user, "name", f"Is {WORD}.")
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("Hello"), Wait(gate), *answer("!").steps]))
    started = await running.start(send(chat_session, "Hi"))
    await until(lambda: DerivedText.objects.filter(source_preference=made.pk).exists())
    assert await sync_to_async(places)() == {"chat_contextpart.text", "memory_userpreference.text"}
    await sync_to_async(retention.forget_preference)(
        chat_session.tenant_id, chat_session.user_id, made.pk
    )
    gate.set()
    await running.wait(chat_session.pk, started.turn_id)
    assert (await ChatTurn.objects.aget()).status == "completed"
    assert await sync_to_async(places)() == set()
    await say(chat_session, "And now?")
    assert WORD not in str(fake_endpoint.requests[-1].body["messages"])
    assert not await ContextPart.objects.filter(text__contains=WORD).aexists()


# --- Follow-ups -----------------------------------------------------------------------------------

FOUND = {
    "preferences": [
        {"key": "name", "text": f"Is called {WORD}.", "quote": f"I am {WORD}", "seq": 1}
    ]
}


async def searched(
    chat_session: ChatSession,
    fake_endpoint: FakeEndpoint,
    happening: Callable[[], Awaitable[object]],
) -> None:
    """A session is searched for preferences, and something happens before the answer is there."""
    await sync_to_async(builders.exchange)(chat_session, f"I am {WORD}", "Hello.")
    await sync_to_async(builders.exchange)(chat_session, "And then?", "Nothing.")
    await sync_to_async(dues.mark_session)("preferences", chat_session.pk)
    await Meanwhile(fake_endpoint, saying(FOUND)).do(happening)


async def test_what_is_found_in_messages_is_proposed(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    async def nothing() -> None: ...

    await searched(chat_session, fake_endpoint, nothing)
    assert (await UserPreference.objects.aget()).text == f"Is called {WORD}."


@pytest.mark.parametrize("what", ["session", "pair", "memory", "person"])
async def test_an_extraction_that_began_before_writes_nothing_afterwards(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, what: str
) -> None:
    def forget() -> None:
        if what == "session":
            retention.forget_session(chat_session.pk)
        elif what == "pair":
            first = chat_session.messages.get(seq=1)
            retention.forget_pair(chat_session.pk, first.pk)
        elif what == "memory":
            retention.forget_memory(chat_session.tenant_id, chat_session.user_id)
        else:
            retention.forget_user(chat_session.user_id, keep_account=True)

    await searched(chat_session, fake_endpoint, sync_to_async(forget))
    assert await UserPreference.objects.acount() == 0
    await sync_to_async(removals.retry)()
    said = {each for each in await sync_to_async(places)() if "chatmessage" in each}
    assert said == ({"chat_chatmessage.content"} if what == "memory" else set())


async def test_what_was_refused_is_not_proposed_again_until_it_is_said_anew(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    owner = chat_session.tenant_id, chat_session.user_id

    async def nothing() -> None: ...

    await searched(chat_session, fake_endpoint, nothing)
    proposed = await UserPreference.objects.aget()
    await sync_to_async(preferences.answer)(*owner, proposed.pk, False)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(extracted_through=0)
    await sync_to_async(dues.mark_session)("preferences", chat_session.pk)
    await Meanwhile(fake_endpoint, saying(FOUND)).do(nothing)
    assert await UserPreference.objects.acount() == 0
    await sync_to_async(builders.exchange)(chat_session, f"I am {WORD}", "Yes.")
    again = {"preferences": [{**FOUND["preferences"][0], "seq": 5}]}
    await sync_to_async(dues.mark_session)("preferences", chat_session.pk)
    await Meanwhile(fake_endpoint, saying(again)).do(nothing)
    assert (await UserPreference.objects.aget()).source_seq == 5


@pytest.mark.parametrize("forgets", [True, False])
async def test_a_summary_that_is_being_made_is_not_saved_after_its_messages_are_gone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any, forgets: bool
) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    await Assistant.objects.aupdate(summarize=True)
    await ChatSession.objects.aupdate(max_messages=4)
    more = " and there is a good deal more to say about it" * 10
    await sync_to_async(builders.exchange)(chat_session, f"I am {WORD}{more}", f"Hello.{more}")
    for number in range(4):
        await sync_to_async(builders.exchange)(chat_session, f"Q{number}{more}", f"A{number}{more}")
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    empty: dict[str, Any] = {"decisions": [], "constraints": [], "open_tasks": [], "outdated": []}
    made = {**empty, "facts": [{"text": f"Is {WORD}.", "seq": 1}]}

    async def happening() -> None:
        if forgets:
            first = await chat_session.messages.aget(seq=1)
            await sync_to_async(retention.forget_pair)(chat_session.pk, first.pk)

    await Meanwhile(fake_endpoint, saying(made)).do(happening)
    assert await ConversationSummary.objects.acount() == (0 if forgets else 1)
