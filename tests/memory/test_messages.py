from __future__ import annotations

import json
from typing import Any

import pytest

from memory.messages import Message, ToolCall, from_data, to_data

CALL = ToolCall("call_7", "track_parcel", '{"number":"ZX-19","full":true}')


def test_messages_compare_by_value() -> None:
    assert Message.user("hello") == Message("user", "hello")
    assert Message.user("hello") != Message.assistant("hello")
    assert Message.assistant(None, [CALL]) == Message.assistant(None, (CALL,))


def test_empty_text_is_not_missing_text() -> None:
    assert Message.assistant("").content == ""
    assert Message.assistant(None, [CALL]).content is None


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"role": "developer", "content": "x"}, ValueError, "role is 'developer'"),
        ({"role": "user", "content": None}, ValueError, "needs content, got None"),
        ({"role": "user", "content": 7}, TypeError, "content must be a str, not int"),
        ({"role": "user", "content": "x", "tool_calls": (CALL,)}, ValueError, "cannot ask"),
    ],
)
def test_what_is_no_message_is_refused(
    fields: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Message(**fields)


@pytest.mark.parametrize(
    "message",
    [
        Message.system("规则"),
        Message.user('Grüße 👋 "quoted" \\ back\nnew\ttab', name="Ana"),
        Message.user("look", parts=[{"type": "image_url", "image_url": {"url": "https://x/"}}]),
        Message.assistant(""),
        Message.assistant(None, [CALL, ToolCall("", "now")]),
        Message.assistant("both", [CALL]),
        Message.tool("call_7", "carrier timed out", "track_parcel", is_error=True),
        Message.user("\ud83d alone and a\x00b"),
    ],
)
def test_a_message_survives_json(message: Message) -> None:
    assert from_data(json.loads(json.dumps(to_data(message)))) == message


def test_data_holds_only_what_is_set() -> None:
    assert to_data(Message.user("x")) == {"role": "user", "content": "x"}
