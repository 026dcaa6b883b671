"""A long conversation: what is sent stays as large as it was, and early decisions are in it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from chat import llm
from chat.follow_ups import prompts
from chat.models import Assistant, ContextRecord
from memory.models import ConversationSummary
from tests.fakes import FakeEndpoint, Reply, answer
from tests.follow_ups import work_off
from tests.orders import say, sent, session_at

pytestmark = pytest.mark.django_db(transaction=True)

BLOCK = 80  # tokens around a summary
PLANTED = {
    2: "We decided: the release is on Friday.",
    9: "我们决定：数据库用 PostgreSQL。",
    20: "We decided: Ms. Adeyemi signs off the budget.",
}


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def keeps_decisions(body: dict[str, Any]) -> Reply:
    """A model that answers, and whose minutes hold each decision and one fact of the rest."""
    system, asked = body["messages"][0]["content"], body["messages"][-1]["content"]
    if system != prompts.SUMMARY:
        return answer("That is noted, and here is a sentence or two about it as usual.")
    messages = json.loads(asked)["messages"]
    planted = [
        {"text": text, "seq": each["seq"]}
        for each in messages
        for text in PLANTED.values()
        if text in json.dumps(each, ensure_ascii=False)
    ]
    talk = {"text": f"They talked about message {messages[0]['seq']}.", "seq": messages[0]["seq"]}
    minutes = {"decisions": planted, "constraints": [], "open_tasks": [], "facts": [talk]}
    return answer(json.dumps({**minutes, "outdated": []}))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("turns", [40, pytest.param(500, marks=pytest.mark.slow)])
async def test_requests_stay_flat_and_early_decisions_are_still_sent(
    fake_endpoint: FakeEndpoint, settings: LazySettings, turns: int
) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    settings.CHAT_TITLES_ENABLED = settings.CHAT_DIGEST_ENABLED = False
    settings.CHAT_PREFERENCES_MODE = "off"
    settings.CHAT_SUMMARY_MAX_TOKENS = 300
    settings.CHAT_TURNS_PER_MINUTE = 10**6
    fake_endpoint.default = keeps_decisions
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=12)
    await Assistant.objects.aupdate(summarize=True)
    for number in range(1, turns + 1):
        text = PLANTED.get(number, f"Question {number}: what would you say to this, in short?")
        await say(chat_session, text)
        await work_off()
    last = "\n".join(sent(fake_endpoint))
    assert [text for text in PLANTED.values() if text not in last] == []
    sizes = [
        each
        async for each in ContextRecord.objects.order_by("turn__number").values_list(
            "token_count", flat=True
        )
    ]
    assert len(sizes) == turns
    assert max(sizes) <= max(sizes[:12]) + settings.CHAT_SUMMARY_MAX_TOKENS + BLOCK
    newest = await ConversationSummary.objects.order_by("-version").afirst()
    assert newest is not None
    assert newest.token_count <= 300
    record = await ContextRecord.objects.order_by("-turn__number").afirst()
    assert record is not None
    assert [each["reason"] for each in record.manifest["left_out"]] == ["covered_by_summary"]
