"""Turns over the websocket: what is told to whom, once and in order."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chat import llm
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns.going_on import IN_ENGLISH
from tests import builders
from tests.chat.sockets import ENDS, socket
from tests.fakes import FakeEndpoint, Reply, Say, Wait, answer, endless, failure

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients(settings: Any) -> AsyncIterator[None]:
    settings.ALLOWED_HOSTS = ["testserver"]
    yield
    await llm.aclose()


@pytest.fixture
def alice() -> Any:
    return builders.user("alice")


@pytest.fixture
def chat_session(alice: Any, fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    return builders.chat_session(alice, assistant=builders.assistant(endpoint=endpoint))


async def test_a_message_is_accepted_answered_and_ended(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("Hello ", "**you**"))
    made = await socket(alice, chat_session)
    client_id = str(uuid.uuid4())
    await made.say("message.send", client_id=client_id, text="<b>Hi</b>", parent=None)
    end = await made.until(*ENDS)
    await made.disconnect()
    by_type = {frame["type"]: frame for frame in made.frames}
    accepted, context = by_type["turn.accepted"], by_type["turn.context"]
    assert (accepted["client_id"], accepted["number"]) == (client_id, 1)
    assert accepted["message"]["seq"] == 1
    assert "&lt;b&gt;Hi&lt;/b&gt;" in accepted["message"]["html"]
    assert context["window"]["messages"] == 0
    assert 0 < context["tokens"] < context["budget"]
    assert made.text() == "Hello **you**"
    assert (end["type"], end["turn"]) == ("turn.completed", accepted["turn"])
    assert end["message"]["content"] == "Hello **you**"
    assert "<strong>you</strong>" in end["message"]["html"]
    assert end["message"]["turn"]["usage"] == {"input": 10, "cached_input": 0, "output": 5}
    assert by_type["session.updated"]["title"] == "<b>Hi</b>"


async def test_two_sockets_of_one_session_see_the_same(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer(*(f"{n} " for n in range(50)), delay=0.002))
    one, two = await socket(alice, chat_session), await socket(alice, chat_session)
    await one.say("message.send", client_id=str(uuid.uuid4()), text="count", parent=None)
    ends = await asyncio.gather(one.until(*ENDS), two.until(*ENDS))
    await asyncio.gather(one.disconnect(), two.disconnect())
    assert ends[0] == ends[1]
    assert one.text() == two.text() == "".join(f"{n} " for n in range(50))


async def test_two_sessions_of_one_person_that_stream_at_once_hear_their_own_alone(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(
        *(Reply([Say(name), Wait(gate), *answer(f" ends {name}").steps]) for name in ("A", "B"))
    )
    other = await sync_to_async(builders.chat_session)(alice, assistant=chat_session.assistant)
    one, two = await socket(alice, chat_session), await socket(alice, other)
    for each in (one, two):
        await each.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
        await each.until("turn.delta")
    gate.set()
    await asyncio.gather(one.until(*ENDS), two.until(*ENDS))
    await asyncio.gather(one.disconnect(), two.disconnect())
    assert (one.text(), two.text()) == ("A ends A", "B ends B")
    assert len({frame["turn"] for frame in one.frames if "turn" in frame}) == 1


async def test_a_socket_that_comes_in_the_middle_gets_everything_once(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    first_half = [Say(f"{n} ") for n in range(50)]
    second_half = answer(*(f"{n} " for n in range(50, 100)), delay=0.001).steps
    fake_endpoint.replies(Reply([*first_half, Wait(gate), *second_half]))
    first = await socket(alice, chat_session)
    await first.say("message.send", client_id=str(uuid.uuid4()), text="count", parent=None)
    await first.until("turn.delta")
    late = [await socket(alice, chat_session) for _ in range(5)]
    await first.disconnect()  # who asked goes away: the turn goes on
    gate.set()
    for each in late:
        assert (await each.until(*ENDS))["type"] == "turn.completed"
        assert each.text() == "".join(f"{n} " for n in range(100))
        assert each.frames[0]["running"] is not None
        await each.disconnect()


async def test_one_client_id_from_two_sockets_and_after_a_reconnect_is_one_turn(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("on"), Wait(gate), *answer("ce").steps]))
    one, two = await socket(alice, chat_session), await socket(alice, chat_session)
    message = {"client_id": str(uuid.uuid4()), "text": "Hi", "parent": None}
    for each in (one, two, one, two, one):
        await each.say("message.send", **message)
    accepted = await two.until("turn.accepted")
    gate.set()
    await two.until("turn.completed")
    again = await socket(alice, chat_session)
    await again.say("message.send", **message)
    repeated = await again.until("turn.accepted")
    end = await again.until(*ENDS)
    await asyncio.gather(one.disconnect(), two.disconnect(), again.disconnect())
    assert repeated["turn"] == accepted["turn"] == end["turn"]
    assert (end["type"], end["message"]["content"]) == ("turn.completed", "once")
    assert len(fake_endpoint.requests) == 1
    assert await ChatMessage.objects.filter(chat_session=chat_session).acount() == 2


async def test_stop_is_heard_while_the_answer_streams(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless("x", delay=0.005))
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    first = await made.until("turn.delta")
    await made.say("turn.stop", turn=first["turn"], seen=1)
    end = await made.until(*ENDS)
    await made.disconnect()
    assert (end["type"], end["message"]["content"]) == ("turn.stopped", "x")
    assert end["message"]["is_partial"] is True
    assert await fake_endpoint.requests[0].ended(1) == "disconnected"


async def test_a_failed_turn_is_told_with_its_reason_and_retried(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(failure(400, "no"), answer("yes"))
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    end = await made.until(*ENDS)
    await made.say("turn.retry", turn=end["turn"], client_id=str(uuid.uuid4()))
    again = await made.until(*ENDS)
    await made.disconnect()
    assert (end["type"], end["message"], end["error"]["code"]) == (
        "turn.failed",
        None,
        "bad_request",
    )
    assert (again["type"], again["message"]["content"]) == ("turn.completed", "yes")


async def test_an_answer_that_was_cut_goes_on_for_everyone_and_once(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one two", reason="length"), answer("three"))
    one, two = await socket(alice, chat_session), await socket(alice, chat_session)
    await one.say("message.send", client_id=str(uuid.uuid4()), text="Count", parent=None)
    cut = await one.until(*ENDS)
    await two.until(*ENDS)
    order = {"turn": cut["turn"], "client_id": str(uuid.uuid4())}
    await one.say("turn.continue", **order)
    seen = [await each.until("turn.accepted") for each in (one, two)]
    end = await one.until(*ENDS)
    await one.say("turn.continue", **order)
    repeated = await one.until("turn.accepted")
    await one.until(*ENDS)
    await one.say("turn.continue", turn=end["turn"], client_id=str(uuid.uuid4()))
    refused = await one.until("error")
    await asyncio.gather(one.disconnect(), two.disconnect())
    assert seen[0] == seen[1] == repeated
    assert seen[0]["client_id"] == order["client_id"]
    assert seen[0]["message"]["content"] == IN_ENGLISH
    assert seen[0]["message"]["parent"] == cut["message"]["id"]
    assert (end["type"], end["message"]["content"]) == ("turn.completed", "three")
    assert (refused["code"], len(fake_endpoint.requests)) == ("not_continuable", 2)


async def test_sync_gives_the_whole_text_of_a_running_turn_and_the_end_of_an_ended_one(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("abc"), Wait(gate), *answer("def").steps]))
    made = await socket(alice, chat_session)
    await made.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    turn = (await made.until("turn.delta"))["turn"]
    await made.say("turn.sync", turn=turn)
    snapshot = await made.until("turn.snapshot")
    gate.set()
    await made.until("turn.completed")
    await made.say("turn.sync", turn=turn)
    end = await made.until(*ENDS)
    await made.disconnect()
    assert (snapshot["text"], snapshot["end"]) == ("abc", 3)
    assert end["message"]["content"] == "abcdef"


async def test_a_turn_of_somebody_else_can_be_neither_stopped_nor_read(
    alice: Any, chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    hers = await socket(alice, chat_session)
    await hers.say("message.send", client_id=str(uuid.uuid4()), text="go", parent=None)
    turn = (await hers.until("turn.delta"))["turn"]
    bob = await sync_to_async(builders.user)("bob")
    session = await sync_to_async(builders.chat_session)(bob, assistant=chat_session.assistant)
    his = await socket(bob, session)
    answers = []
    for frame in ("turn.stop", "turn.sync"):
        for wanted in (turn, str(uuid.uuid4())):
            await his.say(frame, turn=wanted)
            answers.append(await his.until("error"))
    assert {(each["code"], each["detail"]) for each in answers} == {
        ("not_found", "There is no such turn.")
    }
    assert (await ChatTurn.objects.aget(pk=turn)).stop_requested is False
    await hers.say("turn.stop", turn=turn, seen=0)
    await hers.until("turn.stopped")
    await asyncio.gather(hers.disconnect(), his.disconnect())
