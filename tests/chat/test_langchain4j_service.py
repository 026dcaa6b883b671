"""LangChain4j's service-level cases without tools, against the turn engine.

SV01 to SV30 are its ids. Where its outcome would hand a model a broken or doubled list (SV03, SV06,
SV24, SV25, SV28) the outcome here differs; `docs/memory.md` says why. Cases with tools wait for
tools, those with guardrails (SV19, SV21, SV22) do not concern us.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async

from chat import llm, running
from chat.models import Assistant, ChatSession
from memory.blocks import CUT_OFF_MARK
from tests import builders
from tests.fakes import FakeEndpoint, answer, breaks_off, endless, failure
from tests.orders import again, run_order, say, send, sent, session_at

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
