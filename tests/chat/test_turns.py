"""The turn engine: begin, stream, finish, by orders that really run."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chat import leases, llm, records, running
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord, ModelEndpoint
from chat.turns import ANY_PARENT, Kind, Order, Refused
from chat.turns.inputs import first_title
from memory.models import MemorySnapshot
from tests import builders
from tests.fakes import FakeEndpoint, Pause, Reply, Say, Wait, answer, breaks_off, endless, failure
from tests.orders import again, last_record, rows_on_path, run_order, send, sent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not await sync_to_async(condition)():
            await asyncio.sleep(0.02)


def generated(fake_endpoint: FakeEndpoint) -> int:
    return sum(request.generated for request in fake_endpoint.requests)


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    endpoint = builders.endpoint(
        base_url=fake_endpoint.base_url, model="fake", price_input=1, price_output=2
    )
    return builders.chat_session(assistant=builders.assistant(endpoint=endpoint))


async def test_a_turn_stores_question_answer_usage_cost_and_window(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("Hel", "lo 你好 😄", usage=(100, 20, 7)))
    turn = await run_order(send(chat_session, "Hi"))
    assert (turn.status, turn.number, turn.finish_reason) == ("completed", 1, "stop")
    assert (turn.input_tokens, turn.cached_input_tokens, turn.output_tokens) == (100, 20, 7)
    assert turn.cost is not None
    assert float(turn.cost) == pytest.approx((80 + 14) / 1_000_000)
    assert turn.first_token_at is not None
    assert turn.finished_at is not None
    assert turn.finished_at >= turn.first_token_at
    rows = await sync_to_async(rows_on_path)(chat_session)
    assert rows == [(1, "user", "Hi", False), (2, "assistant", "Hello 你好 😄", False)]
    await chat_session.arefresh_from_db()
    assert chat_session.running_turn is None
    assert (chat_session.next_seq, chat_session.message_count, chat_session.path_count) == (3, 2, 2)
    assert (chat_session.turn_count, chat_session.token_count) == (1, 107)
    assert chat_session.title == "Hi"
    snapshot = await MemorySnapshot.objects.aget(chat_session=chat_session)
    assert snapshot.through_seq == 2


async def test_the_second_turn_sends_the_first_and_the_question_once(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("已记住"), answer("青云-4173"))
    await run_order(send(chat_session, "请记住校验短语“青云-4173”"))
    await run_order(send(chat_session, "校验短语是什么？"))
    assert fake_endpoint.requests[-1].body["messages"] == [
        {"role": "system", "content": builders.PROMPT},
        {"role": "user", "content": "请记住校验短语“青云-4173”"},
        {"role": "assistant", "content": "已记住"},
        {"role": "user", "content": "校验短语是什么？"},
    ]


async def test_the_record_of_a_turn_is_committed_before_the_model_is_asked(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Wait(gate), *answer("late").steps]))
    started = await running.start(send(chat_session, "Hi"))
    record = await ContextRecord.objects.aget(turn=started.turn_id)
    rebuilt = await sync_to_async(records.rebuild)(record)
    gate.set()
    await running.wait(chat_session.pk, started.turn_id)
    assert rebuilt.proof == "ok"
    sent = fake_endpoint.requests[-1].body
    assert {name: sent[name] for name in rebuilt.request} == rebuilt.request
    assert set(sent) - set(rebuilt.request) <= {"stream", "stream_options"}


async def test_one_client_id_makes_one_turn_however_often_it_is_sent(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    order = send(chat_session, "Hi")
    started = await asyncio.gather(*(running.start(order) for _ in range(5)))
    await running.wait(chat_session.pk, started[0].turn_id)
    started.append(await running.start(order))
    assert {each.turn_id for each in started} == {started[0].turn_id}
    assert sorted(each.is_repeated for each in started) == [False] + [True] * 5
    assert len(fake_endpoint.requests) == 1
    assert await ChatMessage.objects.filter(chat_session=chat_session).acount() == 2


async def test_a_second_input_while_a_turn_runs_is_refused_and_stores_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    started = await running.start(send(chat_session, "first"))
    with pytest.raises(Refused) as refused:
        await running.start(send(chat_session, "second"))
    assert refused.value.code == "turn_in_progress"
    await running.stop(chat_session.pk, started.turn_id, None)
    await running.wait(chat_session.pk, started.turn_id)
    assert await ChatTurn.objects.filter(chat_session=chat_session).acount() == 1
    assert await ChatMessage.objects.filter(content="second").acount() == 0


async def test_stop_closes_the_upstream_and_keeps_what_the_reader_had_seen(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless("字", delay=0.005))
    started = await running.start(send(chat_session, "write"))
    await until(lambda: generated(fake_endpoint) > 20)
    await running.stop(chat_session.pk, started.turn_id, 7)
    await running.wait(chat_session.pk, started.turn_id)
    assert await fake_endpoint.requests[0].ended(1.0) == "disconnected"
    turn = await ChatTurn.objects.aget(pk=started.turn_id)
    assert (turn.status, turn.stop_seen) == ("stopped", 7)
    assert await sync_to_async(rows_on_path)(chat_session) == [
        (1, "user", "write", False),
        (2, "assistant", "字" * 7, True),
    ]


async def test_stop_before_the_first_token_leaves_the_question_alone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(Reply([Pause(30)]), answer("ok"))
    started = await running.start(send(chat_session, "first"))
    await until(lambda: bool(fake_endpoint.requests))
    await running.stop(chat_session.pk, started.turn_id, 0)
    await running.wait(chat_session.pk, started.turn_id)
    await run_order(send(chat_session, "second"))
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert sent == [builders.PROMPT, "second"]  # a turn without any answer is left out whole


async def test_stop_through_the_database_reaches_the_turn_within_two_seconds(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless())
    started = await running.start(send(chat_session, "write"))
    await sync_to_async(leases.request_stop)(started.turn_id, 4)
    async with asyncio.timeout(2):
        await running.wait(chat_session.pk, started.turn_id)
    assert (await sync_to_async(rows_on_path)(chat_session))[-1] == (2, "assistant", "more", True)


async def test_a_message_sent_right_after_stop_follows_the_stopped_answer(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(endless("abc ", delay=0.01), answer("fine"))
    first = await running.start(send(chat_session, "first"))
    await until(lambda: generated(fake_endpoint) > 3)
    await running.stop(chat_session.pk, first.turn_id, 8)
    asked = await ChatMessage.objects.aget(content="first")
    second = await run_order(send(chat_session, "second", parent=str(asked.pk)))
    stopped = await ChatMessage.objects.aget(turn=first.turn_id)
    assert second.input.parent_id == stopped.pk
    sent = fake_endpoint.requests[-1].body["messages"]
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"].startswith("abc abc ")
    assert sent[2]["content"] != "abc abc "


async def test_a_failure_keeps_the_partial_text_and_can_be_retried(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(breaks_off("half of ", "it"), answer("all of it"))
    failed = await run_order(send(chat_session, "tell me"))
    assert failed.status == "failed"
    assert failed.error_code in {"provider_error", "bad_response"}
    assert (await sync_to_async(rows_on_path)(chat_session))[-1] == (
        2,
        "assistant",
        "half of it",
        True,
    )
    retried = await run_order(again("retry", failed))
    assert (retried.status, retried.number, retried.input_id) == ("completed", 2, failed.input_id)
    assert await sync_to_async(rows_on_path)(chat_session) == [
        (1, "user", "tell me", False),
        (3, "assistant", "all of it", False),
    ]
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert sent == [builders.PROMPT, "tell me"]


async def test_errors_are_stored_as_code_and_text(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(failure(401, "bad key sk-secret"))
    turn = await run_order(send(chat_session, "Hi"))
    assert (turn.status, turn.error_code) == ("failed", "auth_failed")
    assert "sk-secret" not in turn.error_detail


async def test_an_answer_without_text_is_a_failure_that_says_so(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer(reason="stop"))
    turn = await run_order(send(chat_session, "Hi"))
    assert (turn.status, turn.error_code) == ("failed", "empty_answer")
    assert len(await sync_to_async(rows_on_path)(chat_session)) == 1


async def test_regenerating_adds_a_sibling_answer_and_sends_the_question_once(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("one"), answer("two"), answer("three"))
    first = await run_order(send(chat_session, "Hi"))
    second = await run_order(again("regenerate", first))
    assert await sync_to_async(rows_on_path)(chat_session) == [
        (1, "user", "Hi", False),
        (3, "assistant", "two", False),
    ]
    siblings = ChatMessage.objects.filter(parent=first.input_id).order_by("seq")
    assert [row.content async for row in siblings] == ["one", "two"]
    await run_order(send(chat_session, "next"))
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert sent == [builders.PROMPT, "Hi", "two", "next"]
    await chat_session.arefresh_from_db()
    assert (chat_session.message_count, chat_session.path_count) == (5, 4)
    assert second.number == 2


async def test_regenerating_an_earlier_turn_leaves_what_followed_off_the_branch(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    first = await run_order(send(chat_session, "one"))
    await run_order(send(chat_session, "two"))
    await run_order(again("regenerate", first))
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert sent == [builders.PROMPT, "one"]
    assert [row[0] for row in await sync_to_async(rows_on_path)(chat_session)] == [1, 5]


async def test_retry_is_refused_for_a_turn_that_went_well(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await run_order(send(chat_session, "Hi"))
    with pytest.raises(Refused) as refused:
        await running.start(again("retry", turn))
    assert refused.value.code == "not_retryable"
    await chat_session.arefresh_from_db()
    assert (chat_session.running_turn, chat_session.turn_count) == (None, 1)


async def test_a_turn_before_the_forget_line_is_not_run_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await run_order(send(chat_session, "Hi"))
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_starts_after=2)
    with pytest.raises(Refused) as refused:
        await running.start(again("regenerate", turn))
    assert refused.value.code == "before_forget_line"


@pytest.mark.parametrize("kind", ["retry", "regenerate", "continue"])
async def test_a_turn_of_another_session_is_unknown(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, kind: Kind
) -> None:
    turn = await run_order(send(chat_session, "Hi"))
    other = await sync_to_async(builders.chat_session)(assistant=chat_session.assistant)
    order = Order(kind=kind, session_id=other.pk, client_id=uuid.uuid4(), turn=turn.pk)
    with pytest.raises(Refused) as refused:
        await running.start(order)
    assert refused.value.code == "no_such_turn"


async def test_a_sender_who_does_not_know_the_newest_message_is_refused(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    turn = await run_order(send(chat_session, "Hi", parent=None))
    for parent in (None, str(turn.input_id), str(uuid.uuid4())):
        with pytest.raises(Refused) as refused:
            await running.start(send(chat_session, "late", parent=parent))
        assert refused.value.code == "stale_parent"
    await chat_session.arefresh_from_db()
    assert refused.value.more["head"] == str(chat_session.head_id)
    known = await run_order(send(chat_session, "in time", parent=str(chat_session.head_id)))
    assert known.status == "completed"
    assert ANY_PARENT == "any"


async def test_text_that_no_store_can_hold_is_mended_and_the_sender_told(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    turn = await run_order(send(chat_session, "a\0b\ud800c"))
    accepted = await reader.next()
    await running.detach(chat_session.pk, reader)
    assert turn.input.content == "ab\ufffdc"
    assert accepted["notes"] == [
        "NUL characters removed: 1.",
        "Lone surrogates replaced by U+FFFD: 1.",
    ]
    assert fake_endpoint.requests[-1].body["messages"][-1]["content"] == "ab\ufffdc"


async def test_an_input_that_cannot_fit_is_refused_with_numbers_and_not_stored(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    with pytest.raises(Refused) as refused:
        await running.start(send(chat_session, "字词 " * 40_000))
    assert refused.value.code == "input_too_long"
    assert refused.value.more["tokens"] > refused.value.more["limit"] > 0
    assert await ChatMessage.objects.filter(chat_session=chat_session).acount() == 0
    await chat_session.arefresh_from_db()
    assert (chat_session.running_turn, chat_session.next_seq) == (None, 1)
    assert fake_endpoint.requests == []


async def test_partial_text_is_stored_while_the_answer_runs(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("so far "), Wait(gate), *answer("so good").steps]))
    started = await running.start(send(chat_session, "Hi"))

    def stored() -> bool:
        row = (2, "assistant", "so far ", True)
        return row in rows_on_path(chat_session)

    await until(stored)
    gate.set()
    await running.wait(chat_session.pk, started.turn_id)
    assert (await sync_to_async(rows_on_path)(chat_session))[-1] == (
        2,
        "assistant",
        "so far so good",
        False,
    )


async def test_a_turn_goes_on_when_every_reader_has_gone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("a"), Wait(gate), *answer("b").steps]))
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    started = await running.start(send(chat_session, "Hi"))
    await running.detach(chat_session.pk, reader)
    gate.set()
    await running.wait(chat_session.pk, started.turn_id)
    assert (await ChatTurn.objects.aget(pk=started.turn_id)).status == "completed"


async def test_the_turn_of_a_dead_process_is_ended_and_its_text_kept(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(answer("fresh"))
    dead = await sync_to_async(builders.exchange)(
        chat_session, "old", "half an ans", is_partial=True, status="running"
    )
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(
        running_turn=dead.pk,
        lease_owner="u" + "0" * 32,
        lease_expires_at="2000-01-01T00:00:00Z",
    )
    await run_order(send(chat_session, "new"))
    await dead.arefresh_from_db()
    assert (dead.status, dead.error_code) == ("interrupted", "interrupted")
    sent = fake_endpoint.requests[-1].body["messages"]
    assert [each["content"] for each in sent[::3]] == [builders.PROMPT, "new"]
    assert sent[2]["content"].startswith("half an ans")
    assert len(sent[2]["content"]) > len("half an ans")


async def test_a_turn_that_lost_its_session_writes_nothing_more(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    gate = threading.Event()
    fake_endpoint.replies(Reply([Say("mine"), Wait(gate), *answer(" too").steps]))
    started = await running.start(send(chat_session, "Hi"))
    other = uuid.uuid4()
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(running_turn=other)
    gate.set()
    await running.wait(chat_session.pk, started.turn_id)
    assert (await ChatTurn.objects.aget(pk=started.turn_id)).status == "running"
    assert await ChatMessage.objects.filter(turn=started.turn_id).acount() == 0
    await chat_session.arefresh_from_db()
    assert chat_session.running_turn == other


async def test_a_deleted_session_stays_deleted_whatever_runs(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    from chat import retention

    fake_endpoint.replies(endless())
    started = await running.start(send(chat_session, "Hi"))
    await until(lambda: ChatMessage.objects.filter(turn=started.turn_id).exists())
    await sync_to_async(retention.forget_session)(chat_session.pk)
    await running.wait(chat_session.pk, started.turn_id)
    assert await fake_endpoint.requests[0].ended(2.0) == "disconnected"
    for model in (ChatSession, ChatTurn, ChatMessage, ContextRecord, MemorySnapshot):
        assert await model.objects.acount() == 0, model


@pytest.mark.parametrize(("limit", "expected"), [(2, 3), (20, 21)])
async def test_the_limit_on_messages_counts_history_and_not_the_question(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, limit: int, expected: int
) -> None:
    await sync_to_async(builders.exchanges)(chat_session, 12)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(max_messages=limit)
    await run_order(send(chat_session, "now"))
    sent = fake_endpoint.requests[-1].body["messages"]
    assert len(sent) == expected + 1  # and the prompt
    assert [each["content"] for each in sent].count("now") == 1
    assert sent[1]["content"] == f"Question {13 - limit // 2}"


async def test_memory_off_sends_prompt_and_question_and_on_again_brings_history_back(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await sync_to_async(builders.exchanges)(chat_session, 2)
    rows = ChatSession.objects.filter(pk=chat_session.pk)
    await rows.aupdate(memory_enabled=False)
    await run_order(send(chat_session, "off"))
    off = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    await rows.aupdate(memory_enabled=True)
    await run_order(send(chat_session, "on"))
    on = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert off == [builders.PROMPT, "off"]
    assert on[1:5] == ["Question 1", "Answer 1", "Question 2", "Answer 2"]
    assert on[5:] == ["off", "Hello there.", "on"]
    record = await ContextRecord.objects.aget(turn__number=3)
    assert [gap["reason"] for gap in record.manifest["left_out"]] == ["memory_off"]


async def test_what_the_environment_forbids_no_session_switches_on(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_MEMORY_ENABLED = False
    await sync_to_async(builders.exchanges)(chat_session, 1)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_enabled=True)
    await run_order(send(chat_session, "now"))
    sent = [each["content"] for each in fake_endpoint.requests[-1].body["messages"]]
    assert sent == [builders.PROMPT, "now"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hi", "Hi"),
        ("  two\n lines ", "two lines"),
        ("word " * 30, "word word word word word word word word word word word word…"),
        ("字" * 100, "字" * 60 + "…"),
    ],
)
def test_a_title_is_one_line_of_the_first_message(text: str, title: str) -> None:
    assert first_title(text) == title


async def test_an_endpoint_that_takes_less_than_configured_is_asked_once_more_with_less(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    rows = ModelEndpoint.objects.filter(pk=chat_session.assistant.endpoint_id)
    await rows.aupdate(max_output_tokens=64, context_window=1000)
    fake_endpoint.reject_above = 400
    await sync_to_async(builders.exchanges)(chat_session, 10)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(max_messages=100)
    await sync_to_async(builders.exchange)(chat_session, "long " * 100, "long " * 100)
    turn = await run_order(send(chat_session, "now"))
    assert (turn.status, turn.error_code) == ("completed", "")
    attempts = [record async for record in ContextRecord.objects.filter(turn=turn)]
    assert [record.attempt for record in attempts] == [1, 2]
    assert attempts[1].manifest["left_out"][-1]["reason"] == "budget"
    assert (await rows.aget()).learned_context_window == 400
    assert len(fake_endpoint.requests) == 2
    await run_order(send(chat_session, "and now"))
    assert len(fake_endpoint.requests) == 3  # the limit was remembered


@pytest.mark.parametrize("said", ["is 1 tokens", "is 9000000 tokens", "was exceeded"])
async def test_a_limit_that_cannot_be_is_not_remembered_for_everybody(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, said: str
) -> None:
    refusal = failure(400, f"The maximum context length {said}", code="context_length_exceeded")
    fake_endpoint.replies(refusal, answer("ok"))
    turn = await run_order(send(chat_session, "Hi"))
    assert turn.status == "completed"
    endpoint = await ModelEndpoint.objects.aget(pk=chat_session.assistant.endpoint_id)
    assert endpoint.learned_context_window is None


async def test_an_input_that_alone_is_too_long_for_the_endpoint_fails_with_numbers(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    rows = ModelEndpoint.objects.filter(pk=chat_session.assistant.endpoint_id)
    await rows.aupdate(max_output_tokens=64, context_window=1000)
    fake_endpoint.reject_above = 300
    turn = await run_order(send(chat_session, "word " * 400))
    assert (turn.status, turn.error_code) == ("failed", "input_too_long")
    assert "tokens" in turn.error_detail
    assert len(fake_endpoint.requests) == 1


async def test_an_endpoint_that_counts_otherwise_is_corrected_little_by_little(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.default = lambda body: answer("ok", usage=(1000, 0, 5))
    turn = await run_order(send(chat_session, "word " * 100))
    record = await ContextRecord.objects.aget(turn=turn)
    assert (record.input_tokens, record.token_count) == (1000, record.manifest["counted"])
    endpoint = await ModelEndpoint.objects.aget(pk=chat_session.assistant.endpoint_id)
    assert 1.04 < endpoint.token_correction <= 1.05


async def test_a_session_left_for_days_goes_on_with_its_last_exchanges(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_MEMORY_IDLE_DAYS = 7
    await sync_to_async(builders.exchanges)(chat_session, 5)
    await run_order(send(chat_session, "in time"))
    assert sent(fake_endpoint)[1] == "Question 1"
    old = timezone.now() - timedelta(days=7, minutes=1)
    await ChatMessage.objects.filter(chat_session=chat_session).aupdate(created_at=old)
    await run_order(send(chat_session, "back again"))
    await run_order(send(chat_session, "and again"))  # the same rule as the turn before
    assert sent(fake_endpoint)[1:] == [
        "Question 5",
        "Answer 5",
        "in time",
        "Hello there.",
        "back again",
        "Hello there.",
        "and again",
    ]
    record = await last_record(chat_session)
    assert record.manifest["left_out"] == [{"from": 1, "through": 8, "reason": "idle"}]
    assert record.manifest["source"] == "snapshot"


async def test_without_idle_days_a_pause_changes_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_MEMORY_IDLE_DAYS = 0
    await sync_to_async(builders.exchanges)(chat_session, 5)
    old = timezone.now() - timedelta(days=4000)
    await ChatMessage.objects.filter(chat_session=chat_session).aupdate(created_at=old)
    await run_order(send(chat_session, "back again"))
    assert sent(fake_endpoint)[1] == "Question 1"
