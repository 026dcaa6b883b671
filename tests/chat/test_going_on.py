"""An answer that was cut goes on: by the order `continue`, as the person's next message."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache

from chat import leases, llm, records, running, temporary
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord
from chat.retention import redaction
from chat.turns import Order, Refused, branches, requests
from chat.turns.going_on import IN_CHINESE, IN_ENGLISH
from memory.references import Passage, Question
from tests import builders
from tests.fakes import FakeEndpoint, answer, breaks_off
from tests.orders import again, rows_on_path, run_order, say, sent, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    return session_at(fake_endpoint)


async def cut_turn(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, text: str = "Count to ten"
) -> ChatTurn:
    """A turn whose answer, "one two", reached the model's limit of length."""
    fake_endpoint.replies(answer("one two", reason="length"))
    return await say(chat_session, text)


async def code_of(order: Order) -> str:
    """Why an order is refused, which stores nothing and leaves the session free."""
    before = await ChatMessage.objects.acount()
    with pytest.raises(Refused) as refused:
        await running.start(order)
    assert await ChatMessage.objects.acount() == before
    session = await ChatSession.objects.aget(pk=order.session_id)
    assert session.message_count == before
    return refused.value.code


# --- What is stored and sent ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "wish"),
    [("Count to ten", IN_ENGLISH), ("数到十 please", IN_CHINESE)],
    ids=["english", "chinese"],
)
async def test_the_wish_is_the_next_message_in_the_language_of_the_question(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, question: str, wish: str
) -> None:
    cut = await cut_turn(chat_session, fake_endpoint, question)
    fake_endpoint.replies(answer("three"))
    turn = await run_order(again("continue", cut))
    assert sent(fake_endpoint) == [builders.PROMPT, question, "one two", wish]
    assert await sync_to_async(rows_on_path)(chat_session) == [
        (1, "user", question, False),
        (2, "assistant", "one two", False),
        (3, "user", wish, False),
        (4, "assistant", "three", False),
    ]
    end = await ChatMessage.objects.aget(turn=cut)
    assert (turn.status, turn.number, turn.input.parent_id) == ("completed", 2, end.pk)
    await chat_session.arefresh_from_db()
    counted = (chat_session.message_count, chat_session.path_count, chat_session.next_seq)
    assert counted == (4, 4, 5)


async def test_an_answer_that_is_cut_again_goes_on_again_in_the_first_questions_language(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    cut = await cut_turn(chat_session, fake_endpoint, "数到十")
    fake_endpoint.replies(answer("three", reason="length"), answer("four"))
    second = await run_order(again("continue", cut))
    third = await run_order(again("continue", second))
    assert third.input.content == IN_CHINESE
    assert sent(fake_endpoint)[-2:] == ["three", IN_CHINESE]


@pytest.mark.parametrize("status", ["stopped", "interrupted"])
async def test_a_broken_off_answer_goes_on_with_what_is_stored_of_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, status: str
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    await ChatTurn.objects.filter(pk=turn.pk).aupdate(status=status, finish_reason="")
    await ChatMessage.objects.filter(turn=turn).aupdate(is_partial=True)
    await run_order(again("continue", turn))
    assert sent(fake_endpoint) == [builders.PROMPT, "Count to ten", "one two", IN_ENGLISH]


async def test_an_answer_that_broke_off_in_a_tool_goes_on_behind_its_last_row(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    await ChatTurn.objects.filter(pk=turn.pk).aupdate(status="stopped", finish_reason="")
    said = await ChatMessage.objects.aget(turn=turn)
    said.tool_calls = [{"id": "call_1", "name": "current_time", "arguments": "{}"}]
    await said.asave()
    result = await ChatMessage.objects.acreate(
        chat_session=chat_session, parent=said, seq=3, turn=turn, role="tool",
        content="stopped", tool_call_id="call_1", name="current_time", is_error=True,
    )  # fmt: skip
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(
        head=result, next_seq=4, message_count=3, path_count=3
    )
    going_on = await run_order(again("continue", turn))
    assert going_on.input.parent_id == result.pk


async def test_what_goes_on_is_a_message_like_any_other(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    """It is proven, searched and counted; and it can be retried and continued in its turn."""
    cut = await cut_turn(chat_session, fake_endpoint)
    fake_endpoint.replies(breaks_off("th"), answer("three"))
    failed = await run_order(again("continue", cut))
    turn = await run_order(again("retry", failed))
    assert (turn.status, turn.input_id) == ("completed", failed.input_id)
    assert sent(fake_endpoint) == [builders.PROMPT, "Count to ten", "one two", IN_ENGLISH]
    record = await ContextRecord.objects.aget(turn=turn)
    assert (await sync_to_async(records.rebuild)(record)).proof == "ok"


async def test_a_temporary_answer_goes_on_while_its_text_is_kept(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint, is_temporary=True)
    cut = await cut_turn(chat_session, fake_endpoint, "数到十")
    second = await run_order(again("continue", cut))
    assert sent(fake_endpoint) == [builders.PROMPT, "数到十", "one two", IN_CHINESE]
    assert [row[2] for row in await sync_to_async(rows_on_path)(chat_session)] == [""] * 4
    await ChatTurn.objects.filter(pk=second.pk).aupdate(finish_reason="length")
    await cache.adelete(temporary.key_of(chat_session.pk))
    assert await code_of(again("continue", second)) == "not_continuable"


# --- Passages -------------------------------------------------------------------------------------


def echo(question: Question) -> Sequence[Passage]:
    return [Passage("1", "echo", f"asked: {question.text}")]


async def test_passages_are_those_of_the_question_and_not_of_the_wish(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_REFERENCE_SOURCES = [f"{__name__}.echo"]
    cut = await cut_turn(chat_session, fake_endpoint)
    fake_endpoint.replies(answer("three", reason="length"))
    second = await run_order(again("continue", cut))
    assert "asked: Count to ten" in sent(fake_endpoint)[-1]
    third = await run_order(again("continue", second))
    assert "asked: Count to ten" in sent(fake_endpoint)[-1]
    assembled = await sync_to_async(requests.what_if)(third)
    assert "asked: Count to ten" in str(assembled.messages[-1])


# --- Refusals -------------------------------------------------------------------------------------


async def test_a_whole_or_failed_answer_does_not_go_on(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("all of it"), breaks_off("half"))
    for _ in range(2):
        turn = await say(chat_session, "Hi")
        assert await code_of(again("continue", turn)) == "not_continuable"


@pytest.mark.parametrize("status", ["stopped", "interrupted"])
async def test_an_answer_without_text_does_not_go_on(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, status: str
) -> None:
    fake_endpoint.replies(answer(reason="stop"))
    turn = await say(chat_session, "Hi")
    await ChatTurn.objects.filter(pk=turn.pk).aupdate(status=status)
    assert await code_of(again("continue", turn)) == "not_continuable"


async def test_a_redacted_answer_does_not_go_on(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    said = await ChatMessage.objects.aget(turn=turn)
    await sync_to_async(redaction.redact)(chat_session.pk, [said.pk])
    assert await code_of(again("continue", turn)) == "not_continuable"


async def test_an_answer_that_is_not_the_newest_does_not_go_on(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    newer = await say(chat_session, "And now?")
    with pytest.raises(Refused) as refused:
        await running.start(again("continue", turn))
    head = await ChatMessage.objects.aget(turn=newer)
    assert (refused.value.code, refused.value.more) == ("stale_parent", {"head": str(head.pk)})


async def test_an_answer_of_another_branch_goes_on_once_it_is_shown(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    await run_order(again("regenerate", turn))
    assert await code_of(again("continue", turn)) == "other_branch"
    said = await ChatMessage.objects.aget(turn=turn)
    await sync_to_async(branches.select)(chat_session.pk, said.pk)
    assert (await run_order(again("continue", turn))).status == "completed"


async def test_an_answer_before_the_forget_line_does_not_go_on(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_starts_after=2)
    assert await code_of(again("continue", turn)) == "before_forget_line"


async def test_nothing_goes_on_where_memory_is_off(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_enabled=False)
    assert await code_of(again("continue", turn)) == "memory_off"


async def test_while_a_turn_runs_it_is_refused(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await cut_turn(chat_session, fake_endpoint)
    await sync_to_async(leases.take)(chat_session.pk, uuid.uuid4())
    assert await code_of(again("continue", turn)) == "turn_in_progress"
