"""The digest of a person, made by the model once a summary was stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import dues, llm, retention
from chat.follow_ups import prompts
from chat.models import Assistant, ChatSession, ModelCall, ModelEndpoint
from memory import digests
from memory.models import UserDigest
from tests import builders
from tests.fakes import FakeEndpoint, Reply, answer, tool_call
from tests.follow_ups import Meanwhile, again, asked_last, calls, due_rows, follow, saying, work_off
from tests.orders import session_at

pytestmark = pytest.mark.django_db(transaction=True)
FILLER = "and there is a good deal more to say about it, as people do when they talk at length. "
MINUTES = saying({"facts": [{"text": "Plans a trip to Italy in May with two children", "seq": 1}]})


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint, settings: LazySettings) -> ChatSession:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    made = session_at(fake_endpoint, max_messages=4)
    Assistant.objects.update(summarize=True)
    ModelEndpoint.objects.update(max_retries=0)
    for number in range(4):
        builders.exchange(made, f"Question {number} {FILLER}", f"Answer {number} {FILLER}")
    return made


def lines(*texts: str) -> Reply:
    return saying({"lines": list(texts)})


def stored() -> list[tuple[str, list[str], str]]:
    return list(UserDigest.objects.values_list("text", "sources", "origin"))


async def test_a_stored_summary_makes_the_digest_due_which_is_made_of_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.replies(MINUTES, lines("Plans a trip to Italy", " ", "Has two\nchildren"))
    await follow(chat_session, "summary")
    assert await sync_to_async(stored)() == [
        ("Plans a trip to Italy\nHas two children", [str(chat_session.pk)], "model")
    ]
    body = fake_endpoint.requests[-1].body
    assert body["messages"][0]["content"] == prompts.DIGEST
    assert asked_last(fake_endpoint) == {
        "task": "digest",
        "conversations": ["Facts:\n- Plans a trip to Italy in May with two children"],
    }
    assert await sync_to_async(calls)() == [("summary", ""), ("digest", "")]
    call = await ModelCall.objects.aget(kind="digest")
    assert (call.chat_session_id, call.tenant_id) == (None, chat_session.tenant_id)
    assert await sync_to_async(due_rows)() == []


async def test_where_digests_are_switched_off_none_is_made(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, settings: LazySettings
) -> None:
    settings.CHAT_DIGEST_ENABLED = False
    fake_endpoint.replies(MINUTES)
    await follow(chat_session, "summary")
    await sync_to_async(dues.mark)("digest", f"{chat_session.tenant_id}:{chat_session.user_id}")
    await work_off()
    assert len(fake_endpoint.requests) == 1
    assert await sync_to_async(stored)() == []


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer(""), "empty_answer"),
        (answer("<think>Alice"), "reasoning"),
        (tool_call("x", {}), "tool_call"),
        (answer("She plans a trip."), "not_json"),
        (saying({"lines": []}), "bad_digest"),
        (saying({"lines": ["", " "]}), "bad_digest"),
        (saying({"lines": "She plans a trip"}), "bad_digest"),
        (saying({"lines": [FILLER] * 3}), "bad_digest"),
    ],
)
async def test_an_answer_that_is_no_digest_is_tried_again(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, reply: Reply, code: str
) -> None:
    fake_endpoint.replies(MINUTES, reply)
    await follow(chat_session, "summary")
    assert await sync_to_async(stored)() == []
    [(kind, attempts, error)] = await sync_to_async(due_rows)()
    assert (kind, attempts, error.split(":")[0]) == ("digest", 1, code)
    fake_endpoint.replies(lines("Plans a trip"))
    await again()
    assert len(await sync_to_async(stored)()) == 1


async def remove(chat_session: ChatSession) -> None:
    await sync_to_async(retention.forget_session)(chat_session.pk)


async def clear(chat_session: ChatSession) -> None:
    await sync_to_async(retention.clear_memory)(chat_session.pk)


async def write(chat_session: ChatSession) -> None:
    await sync_to_async(digests.edit)(chat_session.tenant_id, chat_session.user_id, "Mine")


@pytest.mark.parametrize(("happening", "left"), [(remove, []), (clear, []), (write, ["Mine"])])
async def test_a_digest_that_comes_after_its_reason_has_gone_is_not_saved(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, happening: Any, left: list[str]
) -> None:
    fake_endpoint.replies(MINUTES)
    meanwhile = Meanwhile(fake_endpoint, lines("Plans a trip"))
    meanwhile.before += 1  # the summary comes first
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await meanwhile.do(lambda: happening(chat_session))
    assert [text for text, _, _ in await sync_to_async(stored)() if text] == left
