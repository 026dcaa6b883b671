"""What was sent: rebuilt exactly and proven, whatever is edited later."""

from __future__ import annotations

from typing import Any

import pytest

from chat import records
from chat.models import ChatMessage, ChatTurn, ContextPart, ContextRecord
from memory.context import Assembled, ContextMessage
from memory.messages import ToolCall
from tests import builders

pytestmark = pytest.mark.django_db

PARAMETERS = {"model": "fake", "temperature": 0.2, "max_tokens": 64}
BLOCK = "<saved_preferences>\n- lang: Java\n</saved_preferences>\n\nquestion"


@pytest.fixture
def turn() -> ChatTurn:
    session = builders.chat_session()
    builders.exchange(session, "first 第一轮 😄", "answer")
    return builders.exchange(session, "question", None, status="running")


def assembled(turn: ChatTurn) -> Assembled:
    first, answer = turn.chat_session.messages.order_by("seq")[:2]
    return Assembled(
        messages=(
            ContextMessage("system", "Be brief.", None, "prompt", "operator"),
            ContextMessage("user", "first 第一轮 😄", str(first.pk), "history", "session"),
            ContextMessage("assistant", "answer", str(answer.pk), "history", "session"),
            ContextMessage("user", BLOCK, None, "input", "session"),
        ),
        manifest={"encoding": "o200k_base"},
        tokens=50,
    )


def test_a_request_is_kept_by_reference_where_it_can_be(turn: ChatTurn) -> None:
    record, request = records.write(turn, assembled(turn), PARAMETERS)
    assert [entry[1] for entry in record.layout] == ["part", "message", "message", "part"]
    assert request == {
        **PARAMETERS,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "first 第一轮 😄"},
            {"role": "assistant", "content": "answer"},
            {"role": "user", "content": BLOCK},
        ],
    }
    rebuilt = records.rebuild(ContextRecord.objects.get(pk=record.pk))
    assert (rebuilt.request, rebuilt.proof, rebuilt.missing) == (request, "ok", ())


def test_operator_text_is_shared_and_text_of_a_user_is_not(turn: ChatTurn) -> None:
    for attempt in (1, 2):
        records.write(turn, assembled(turn), PARAMETERS, attempt)
    operator = ContextPart.objects.filter(chat_session=None)
    assert [part.text for part in operator] == ["Be brief."]
    assert turn.chat_session.context_parts.count() == 2


def test_a_request_stays_exact_after_the_assistant_was_changed(turn: ChatTurn) -> None:
    record, request = records.write(turn, assembled(turn), PARAMETERS)
    assistant = turn.chat_session.assistant
    assistant.system_prompt, assistant.parameters = "Be long.", {"temperature": 1}
    assistant.save()
    assistant.endpoint.model = "another"
    assistant.endpoint.save()
    assert records.rebuild(record).request == request


def test_a_changed_text_is_a_mismatch(turn: ChatTurn) -> None:
    record, _ = records.write(turn, assembled(turn), PARAMETERS)
    ChatMessage.objects.filter(content="answer").update(content="other")
    assert records.rebuild(record).proof == "mismatch"


def test_a_text_that_is_gone_is_named(turn: ChatTurn) -> None:
    record, _ = records.write(turn, assembled(turn), PARAMETERS)
    gone = turn.chat_session.context_parts.get()
    ContextPart.objects.filter(pk=gone.pk).delete()
    rebuilt = records.rebuild(record)
    assert rebuilt.proof == "missing"
    assert rebuilt.missing == (f"part {gone.pk}",)


def test_the_proof_depends_on_a_key_of_the_server(turn: ChatTurn, settings: Any) -> None:
    record, _ = records.write(turn, assembled(turn), PARAMETERS)
    settings.CHAT_PROOF_KEY = "another key"
    assert records.rebuild(record).proof == "mismatch"


def test_tool_calls_and_their_results_are_kept_whole(turn: ChatTurn) -> None:
    call = ToolCall("call_1", "search", '{"q": "青云"}')
    messages = (
        ContextMessage("assistant", "", None, "history", "session", tool_calls=(call,)),
        ContextMessage("tool", "found", None, "history", "session", tool_call_id="call_1"),
    )
    record, request = records.write(
        turn, Assembled(messages, {"encoding": "o200k_base"}, 20), PARAMETERS
    )
    assert request["messages"] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"q": "青云"}'},
                }
            ],
        },
        {"role": "tool", "content": "found", "tool_call_id": "call_1"},
    ]
    rebuilt = records.rebuild(record)
    assert (rebuilt.request, rebuilt.proof) == (request, "ok")


def test_equal_requests_have_equal_bytes_whatever_the_order_of_their_keys() -> None:
    assert records.canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert records.prove({"b": 1, "a": 2}) == records.prove({"a": 2, "b": 1})
