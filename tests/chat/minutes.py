"""Summaries for tests: a session that is due for one, and what a model answers."""

from __future__ import annotations

import json
from typing import Any

from chat.models import Assistant, ChatSession, ModelEndpoint
from memory.models import ConversationSummary
from tests import builders
from tests.fakes import FakeEndpoint, Reply
from tests.follow_ups import follow
from tests.orders import session_at

FILLER = "and there is a good deal more to say about it, as people do when they talk at length. "
NOTHING_LEFT: dict[str, Any] = {
    "decisions": [],
    "constraints": [],
    "open_tasks": [],
    "facts": [],
    "outdated": [],
}


def long_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    """Six messages are sent; eight were said."""
    made = session_at(fake_endpoint, max_messages=6)
    Assistant.objects.update(summarize=True)
    ModelEndpoint.objects.update(max_retries=0)
    talk(made, 1, 4)
    return made


def talk(chat_session: ChatSession, first: int, last: int) -> None:
    for number in range(first, last + 1):
        builders.exchange(chat_session, f"Question {number} {FILLER}", f"Answer {number} {FILLER}")


def minutes(*seqs: int, kind: str = "facts", text: str = "Fact {}", **more: Any) -> dict[str, Any]:
    items = [{"text": text.format(seq), "seq": seq} for seq in seqs]
    return {**NOTHING_LEFT, kind: items, **more}


def versions() -> list[tuple[int, int, int, str]]:
    rows = ConversationSummary.objects.order_by("version")
    return list(rows.values_list("version", "covers_from", "covers_through", "text"))


async def summarise(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, *replies: Reply
) -> dict[str, int]:
    fake_endpoint.replies(*replies)
    return await follow(chat_session, "summary")


def body_seq(body: dict[str, Any]) -> int:
    seqs = [each["seq"] for each in json.loads(body["messages"][-1]["content"])["messages"]]
    return int(seqs[0])
