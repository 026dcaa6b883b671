"""A session's stored messages as memory reads them."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest

from chat.turns.history import SessionHistory, history_message
from memory.context import Budget, Window, assemble
from memory.messages import Message, ToolCall
from tests import builders

pytestmark = pytest.mark.django_db


def test_a_message_is_held_on_the_chosen_branch_before_the_input_alone() -> None:
    chat_session = builders.chat_session()
    left = builders.message(chat_session, is_on_path=False)
    first = builders.message(chat_session)
    current = builders.message(chat_session)
    foreign = builders.message(builders.chat_session())
    reader = SessionHistory(chat_session.pk, after=first.seq, before=current.seq)
    assert reader.newest(None, 9) == []
    assert reader.holds(str(first.pk)) is True
    others = (left.pk, current.pk, foreign.pk, uuid.uuid4())
    assert [reader.holds(str(each)) for each in others] == [False] * 4


def test_a_stored_message_is_read_with_everything_that_it_holds() -> None:
    chat_session = builders.chat_session()
    call = {"id": "c1", "name": "look", "arguments": "{}"}
    asked = builders.message(chat_session, "assistant", None, tool_calls=[call])
    told = builders.message(
        chat_session, "tool", "no", tool_call_id="c1", name="look", is_error=True
    )
    assert history_message(asked).message == Message.assistant(None, [ToolCall("c1", "look")])
    assert history_message(told).message == Message.tool("c1", "no", "look", is_error=True)
    assert history_message(told).mark == ""


@pytest.mark.parametrize(
    "bad",
    [
        {"role": "assistant", "tool_calls": [{"id": "c1"}]},
        {"role": "assistant", "tool_calls": ["text"]},
        {"role": "assistant", "tool_calls": 7},
        {"role": "user", "parts": 7},
        {"role": "wizard"},
    ],
)
def test_one_bad_message_is_sent_as_its_plain_text_and_marked(
    bad: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    chat_session = builders.chat_session()
    builders.message(chat_session, "user", "Hello")
    builders.message(chat_session, "assistant", "Good day", token_count=9)
    row = builders.message(chat_session, content="青云-4173", token_count=900, **bad)
    builders.message(chat_session, "assistant", "Noted")
    reader = SessionHistory(chat_session.pk, after=0, before=9)
    with caplog.at_level(logging.WARNING):
        messages = reader.newest(None, 9)[::-1]
    assert [each.message.content for each in messages] == [
        "Hello", "Good day", "青云-4173", "Noted",
    ]  # fmt: skip
    assert str(row.pk) in caplog.text
    assert "青云" not in caplog.text
    manifest = assemble(
        prompt="",
        window=Window(tuple(messages), (), "rebuild"),
        current=history_message(builders.message(chat_session, "user", "And now?")),
        budget=Budget(1_000, 0, 0),
        encoding="o200k_base",
    ).manifest
    marked = [each for each in manifest["parts"] if each.get("mark") == "plain_text"]
    assert [str(row.pk) in each["ids"] for each in marked] == [True]
    assert manifest["left_out"] == []
