"""LangChain4j's service-level cases, against the turn engine.

SV01 to SV30 are its ids. Where its outcome would hand a model a broken or doubled list (SV03, SV06,
SV09, SV10, SV12, SV13, SV15, SV16, SV24, SV25, SV27, SV28) the outcome here differs;
`docs/memory.md` says why. Those with guardrails (SV19, SV21, SV22) do not concern us.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chat import llm, running
from chat.models import Assistant, ChatSession
from memory.blocks import CUT_OFF_MARK
from tests import builders
from tests.fakes import FakeEndpoint, answer, breaks_off, endless, failure
from tests.orders import again, run_order, say, send, sent, session_at
from tests.toolbox import PATHS, asks, session_with_tools

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


async def talk(fake_endpoint: FakeEndpoint, limit: int, prompt: str = "") -> ChatSession:
    """A session with a limit, whose model answers a1, a2, a3."""
    fake_endpoint.replies(*(answer(f"a{n}") for n in (1, 2, 3)))
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=limit)
    await Assistant.objects.filter(pk=chat_session.assistant_id).aupdate(system_prompt=prompt)
    return chat_session


async def test_sv01_the_system_text_comes_first(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await talk(fake_endpoint, 10, "sys")
    await say(chat_session, "u1")
    assert sent(fake_endpoint) == ["sys", "u1"]


async def test_sv03_a_changed_system_text_is_still_first(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await talk(fake_endpoint, 10, "sys")
    for text in ("u1", "u2"):
        await say(chat_session, text)
    await Assistant.objects.filter(pk=chat_session.assistant_id).aupdate(system_prompt="sys2")
    await say(chat_session, "u3")
    assert sent(fake_endpoint) == ["sys2", "u1", "a1", "u2", "a2", "u3"]


async def test_sv04_a_request_holds_the_limit_and_the_new_message(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await talk(fake_endpoint, 2)
    requests = []
    for text in ("u1", "u2", "u3"):
        await say(chat_session, text)
        requests.append(sent(fake_endpoint))
    assert requests == [["u1"], ["u1", "a1", "u2"], ["u2", "a2", "u3"]]


async def test_sv06_a_question_whose_model_failed_is_not_sent_twice(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=10)
    fake_endpoint.replies(failure(400), answer("a1"), failure(400), answer("a2"))
    failed = await say(chat_session, "u1")
    await run_order(again("retry", failed))
    assert sent(fake_endpoint) == [builders.PROMPT, "u1"]
    await say(chat_session, "u2")  # fails
    await say(chat_session, "u2")
    assert sent(fake_endpoint) == [builders.PROMPT, "u1", "a1", "u2"]


async def test_sv24_a_stream_that_failed_in_the_middle_is_sent_as_cut_off(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=10)
    fake_endpoint.replies(breaks_off("part"), answer("a2"))
    await say(chat_session, "u1")
    await say(chat_session, "u2")
    assert sent(fake_endpoint) == [builders.PROMPT, "u1", f"part{CUT_OFF_MARK}", "u2"]


async def test_sv25_a_stopped_answer_is_kept_and_sent_as_cut_off(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=10)
    fake_endpoint.replies(endless("abc", delay=0.01), answer("a2"))
    reader = running.Reader()
    await running.attach(chat_session.pk, reader)
    started = await running.start(send(chat_session, "u1"))
    while (await reader.next())["type"] != "turn.delta":
        pass
    await running.stop(chat_session.pk, started.turn_id, 2)
    await running.wait(chat_session.pk, started.turn_id)
    await running.detach(chat_session.pk, reader)
    await say(chat_session, "u2")
    assert sent(fake_endpoint) == [builders.PROMPT, "u1", f"ab{CUT_OFF_MARK}", "u2"]


async def test_sv28_an_answer_of_nothing_is_a_failure_and_its_turn_is_left_out(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=10)
    fake_endpoint.replies(answer(), answer("a2"))
    assert (await say(chat_session, "u1")).error_code == "empty_answer"
    await say(chat_session, "u2")
    assert sent(fake_endpoint) == [builders.PROMPT, "u2"]


async def test_sv30_each_session_has_its_own_memory(fake_endpoint: FakeEndpoint) -> None:
    x = await talk(fake_endpoint, 10)
    y = await sync_to_async(builders.chat_session)(x.user, assistant=x.assistant)
    requests = []
    for chat_session, text in ((x, "u1"), (y, "u2"), (x, "u3")):
        await say(chat_session, text)
        requests.append(sent(fake_endpoint))
    assert requests == [["u1"], ["u2"], ["u1", "a1", "u3"]]


# --- With tools -----------------------------------------------------------------------------------


@pytest.fixture
def _tools(settings: Any) -> None:
    settings.CHAT_TOOLS = PATHS


async def with_tools(fake_endpoint: FakeEndpoint, limit: int, prompt: str = "") -> ChatSession:
    return await sync_to_async(session_with_tools)(fake_endpoint, max_messages=limit, prompt=prompt)


def requests(fake_endpoint: FakeEndpoint) -> list[list[str]]:
    """Every request so far in the notation of the cases: U:text, A?ids, T1=result, A:text."""
    return [
        [_noted(each) for each in received.body["messages"]] for received in fake_endpoint.requests
    ]


def _noted(message: dict[str, Any]) -> str:
    if message["role"] == "tool":
        return f"T{message['tool_call_id']}={message['content']}"
    if calls := message.get("tool_calls"):
        return "A?" + ",".join(call["id"] for call in calls)
    return f"{message['role'][0].upper()}:{message['content']}"


def ok(*ids: str) -> Any:
    return asks(*((each, "echo", '{"text": "ok"}') for each in ids))


@pytest.mark.usefixtures("_tools")
async def test_sv07_a_call_and_its_result_are_sent_and_remembered(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await with_tools(fake_endpoint, 10)
    fake_endpoint.replies(ok("1"), answer("done"), answer("a2"))
    await say(chat_session, "u1")
    await say(chat_session, "u2")
    group = ["U:u1", "A?1", "T1=ok"]
    assert requests(fake_endpoint) == [["U:u1"], group, [*group, "A:done", "U:u2"]]


@pytest.mark.usefixtures("_tools")
@pytest.mark.parametrize("call", [("1", "unknown", "{}"), ("1", "echo", '{"text": 5}')])
async def test_sv09_sv10_a_call_that_cannot_be_carried_out_has_an_error_as_its_result(
    fake_endpoint: FakeEndpoint, call: tuple[str, str, str]
) -> None:
    chat_session = await with_tools(fake_endpoint, 10)
    fake_endpoint.replies(asks(call), answer("a1"), answer("a2"))
    await say(chat_session, "u1")
    await say(chat_session, "u2")
    last = requests(fake_endpoint)[-1]
    assert last[:2] == ["U:u1", "A?1"]
    assert last[2].startswith("T1=Error: ")
    assert last[3:] == ["A:a1", "U:u2"]


@pytest.mark.usefixtures("_tools")
@pytest.mark.parametrize("ids", [("1", "2"), ("1", "2", "3"), ("1",)])
async def test_sv12_sv13_sv15_a_running_turn_is_not_cut_by_the_limit(
    fake_endpoint: FakeEndpoint, ids: tuple[str, ...]
) -> None:
    chat_session = await with_tools(fake_endpoint, 2, prompt="sys")
    fake_endpoint.replies(ok(*ids), answer("done"), answer("a2"))
    await say(chat_session, "u1")
    question = ["S:sys", "U:u1"]
    whole = [*question, "A?" + ",".join(ids), *(f"T{each}=ok" for each in ids)]
    assert requests(fake_endpoint) == [question, whole]
    await say(chat_session, "u2")
    assert requests(fake_endpoint)[-1] == [*whole, "A:done", "U:u2"]


@pytest.mark.usefixtures("_tools")
async def test_sv16_an_exchange_whose_last_answer_failed_is_left_out_whole(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await with_tools(fake_endpoint, 10)
    fake_endpoint.replies(ok("1"), failure(400), answer("a2"))
    await say(chat_session, "u1")
    await say(chat_session, "u2")
    assert requests(fake_endpoint)[-1] == ["U:u2"]


@pytest.mark.usefixtures("_tools")
async def test_sv17_sv18_what_was_found_for_the_input_stays_with_it_through_the_turn_only(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await with_tools(fake_endpoint, 10)
    await sync_to_async(builders.preference)(
        chat_session.user, tenant=chat_session.tenant, key="code", text="doc"
    )
    fake_endpoint.replies(ok("1"), answer("done"), answer("x"))
    await say(chat_session, "u1")
    await say(chat_session, "u2")
    first, second, third = requests(fake_endpoint)
    assert first[0] == second[0]
    assert "doc" in first[0]
    assert third[:4] == ["U:u1", "A?1", "T1=ok", "A:done"]
    assert "doc" in third[4]


@pytest.mark.usefixtures("_tools")
async def test_sv27_the_limit_of_rounds_leaves_no_call_open(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_TOOL_ROUNDS = 1
    chat_session = await with_tools(fake_endpoint, 10)
    fake_endpoint.replies(ok("1"), ok("2"), answer("done"))
    await say(chat_session, "u1")
    *_, last = requests(fake_endpoint)
    assert last[:4] == ["U:u1", "A?1", "T1=ok", "A?2"]
    assert last[4].startswith("T2=Error: No further tools")
