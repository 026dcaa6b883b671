"""Edited messages and chosen branches: what is shown is what is sent."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async

from chat import leases, llm, running
from chat.models import ChatMessage, ChatSession
from chat.turns import Order, Refused, branches
from tests import builders
from tests.fakes import FakeEndpoint, answer
from tests.orders import again, rows_on_path, run_order, say, sent, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def edit(message: ChatMessage, text: str) -> Order:
    return Order(
        kind="edit",
        session_id=message.chat_session_id,
        client_id=uuid.uuid4(),
        text=text,
        message=message.pk,
    )


async def contents(chat_session: ChatSession) -> list[str | None]:
    return [content for _, _, content, _ in await sync_to_async(rows_on_path)(chat_session)]


async def counters_are_right(chat_session: ChatSession) -> None:
    await chat_session.arefresh_from_db()
    rows = ChatMessage.objects.filter(chat_session=chat_session)
    assert chat_session.path_count == await rows.filter(is_on_path=True).acount()
    assert chat_session.message_count == await rows.acount()
    head = await rows.filter(is_on_path=True).order_by("seq").alast()
    assert head is not None
    assert chat_session.head_id == head.pk


async def test_an_edited_message_stands_beside_the_old_one_and_only_it_is_sent(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    turns = [await say(chat_session, f"question {n}") for n in range(3)]
    edited = await run_order(edit(turns[1].input, "question 1, better"))
    assert sent(fake_endpoint) == [
        builders.PROMPT,
        "question 0",
        "Hello there.",
        "question 1, better",
    ]
    assert edited.input.parent_id == turns[1].input.parent_id
    assert await contents(chat_session) == [
        "question 0",
        "Hello there.",
        "question 1, better",
        "Hello there.",
    ]
    await counters_are_right(chat_session)
    assert (await ChatMessage.objects.aget(pk=turns[1].input_id)).content == "question 1"


async def test_the_very_first_message_can_be_edited(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    first = await say(chat_session, "helo")
    await run_order(edit(first.input, "hello"))
    assert sent(fake_endpoint) == [builders.PROMPT, "hello"]
    await counters_are_right(chat_session)


async def test_flipping_between_branches_reaches_every_turn(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    fake_endpoint.replies(*(answer(f"answer {n}") for n in range(4)))
    turns = [await say(chat_session, f"question {n}") for n in range(3)]
    old = await contents(chat_session)
    edited = await run_order(edit(turns[0].input, "another beginning"))
    new = await contents(chat_session)
    assert new == ["another beginning", "answer 3"]
    for chosen, expected in ((turns[0].input, old), (edited.input, new), (turns[0].input, old)):
        await sync_to_async(branches.select)(chat_session.pk, chosen.pk)
        assert await contents(chat_session) == expected
        await counters_are_right(chat_session)
    await say(chat_session, "and now?")
    assert sent(fake_endpoint) == [builders.PROMPT, *(text or "" for text in old), "and now?"]


async def test_the_second_of_three_answers_can_be_chosen_and_goes_on(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    fake_endpoint.replies(*(answer(f"answer {n}") for n in range(3)))
    turn = await say(chat_session, "Hi")
    for _ in range(2):
        await run_order(again("regenerate", turn))
    second = await ChatMessage.objects.aget(content="answer 1")
    await sync_to_async(branches.select)(chat_session.pk, second.pk)
    assert await contents(chat_session) == ["Hi", "answer 1"]
    await say(chat_session, "next")
    assert sent(fake_endpoint) == [builders.PROMPT, "Hi", "answer 1", "next"]


async def test_choosing_a_message_in_the_middle_shows_its_newest_end(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    turns = [await say(chat_session, f"question {n}") for n in range(3)]
    await run_order(edit(turns[2].input, "last, better"))
    before = await contents(chat_session)
    await sync_to_async(branches.select)(chat_session.pk, turns[0].input_id)
    assert await contents(chat_session) == before


async def test_a_branch_is_chosen_only_while_nothing_runs_and_only_here(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    turn = await say(chat_session, "Hi")
    other = await sync_to_async(session_at)(fake_endpoint, assistant=chat_session.assistant)
    with pytest.raises(Refused) as refused:
        await sync_to_async(branches.select)(other.pk, turn.input_id)
    assert refused.value.code == "no_such_message"
    await sync_to_async(leases.take)(chat_session.pk, uuid.uuid4())
    with pytest.raises(Refused) as refused:
        await sync_to_async(branches.select)(chat_session.pk, turn.input_id)
    assert refused.value.code == "turn_in_progress"


async def test_an_edit_is_refused_for_what_is_not_a_message_of_this_branch(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    turn = await say(chat_session, "Hi")
    reply = await ChatMessage.objects.aget(turn=turn)
    await run_order(edit(turn.input, "Hello"))
    expected = {reply: "no_such_message", turn.input: "other_branch"}
    for message, code in expected.items():
        with pytest.raises(Refused) as refused:
            await running.start(edit(message, "never"))
        assert refused.value.code == code
    await counters_are_right(chat_session)
    assert not await ChatMessage.objects.filter(content="never").aexists()
