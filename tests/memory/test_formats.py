from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.formats import DIALECTS, FormatError, dumps, loads, without_kept
from memory.formats.json_text import parse, write
from memory.messages import Message, ToolCall, from_data, to_data

U = Message.user
A = Message.assistant

SAMPLES: dict[str, str] = {
    sample["id"]: sample["text"]
    for sample in json.loads(
        Path(__file__).with_name("langchain4j_samples.json").read_text(encoding="utf-8")
    )
}

# What else LangChain4j's own serializer writes, and what its older versions wrote.
MORE_LANGCHAIN4J = [
    '{"text":"hello","type":"SYSTEM"}',
    '{"contents":[{"image":{"url":"http://image.url"},"detailLevel":"LOW","type":"IMAGE"}],"type":"USER"}',
    '{"contents":[{"image":{"base64Data":"aGVs","mimeType":"image/png","revisedPrompt":"x"},'
    '"detailLevel":"ULTRA_HIGH","type":"IMAGE"},{"text":"and?","type":"TEXT"}],"type":"USER"}',
    '{"contents":[{"audio":{"base64Data":"bXAz","mimeType":"audio/mp3"},"type":"AUDIO"}],"type":"USER"}',
    '{"contents":[{"video":{"base64Data":"bXA0","mimeType":"video/mp4"},"type":"VIDEO"}],"type":"USER"}',
    '{"contents":[{"pdfFile":{"base64Data":"cGRm","mimeType":"application/pdf"},"type":"PDF"}],"type":"USER"}',
    '{"contents":[{"pdfFile":{"url":"http://x/a.pdf"},"type":"PDF"}],"type":"USER"}',
    '{"contents":[{"text":"a","type":"TEXT"},{"text":"b","type":"TEXT"}],"type":"USER"}',
    '{"toolExecutionRequests":[{"name":"weather","arguments":"{\\"city\\": \\"Munich\\"}"}],'
    '"attributes":{},"type":"AI"}',
    '{"text":"t","thinking":"hm","toolExecutionRequests":[{"id":"1","name":"w","arguments":"{}"}],'
    '"attributes":{"age":42,"score":1.0E10,"extra":["one","two"]},"type":"AI"}',
    '{"toolExecutionRequests":[],"attributes":{},"type":"AI"}',
    '{"contents":[{"text":"sunny","type":"TEXT"}],"attributes":{},"type":"TOOL_EXECUTION_RESULT"}',
    '{"id":"","toolName":"","contents":[{"text":"sunny","type":"TEXT"}],"attributes":{},'
    '"type":"TOOL_EXECUTION_RESULT"}',
    '{"id":"1","toolName":"w","contents":[{"text":"x","type":"TEXT"}],"isError":false,'
    '"attributes":{},"type":"TOOL_EXECUTION_RESULT"}',
    '{"id":"12345","toolName":"weather","text":"sunny","type":"TOOL_EXECUTION_RESULT"}',
    '{"type":"AI"}',
    '{"text":"hello","type":"USER"}',
    '{"text":"from a later version","mood":{"a":[null,true,0.001]},"type":"REASONING"}',
]


# --- LangChain4j


@pytest.mark.parametrize("text", [*SAMPLES.values(), *MORE_LANGCHAIN4J])
def test_langchain4js_json_is_written_back_byte_for_byte(text: str) -> None:
    if text.startswith("["):
        assert dumps(loads(text)) == text
    else:
        (message,) = loads(text)
        assert dumps(message) == text
        assert dumps(loads(f"[{text},{text}]")) == f"[{text},{text}]"
        in_a_table = json.dumps(to_data(message), sort_keys=True)  # JSONB has an order of its own
        assert dumps(from_data(json.loads(in_a_table))) == text


def test_what_langchain4js_json_says() -> None:
    assert loads(SAMPLES["L01"]) == [
        Message.system("Be kind."),
        U("2+3?"),
        A(None, [ToolCall("c1", "add", '{"a":2,"b":3}')]),
        Message.tool("c1", "5", "add"),
        A("5"),
    ]
    assert loads(SAMPLES["J15"]) == [U('Grüße 👋 "quoted" \\ back\nnew\ttab')]
    assert loads(SAMPLES["J13"]) == [A("")]
    (image,) = loads(SAMPLES["J04"])
    assert image == U(
        "Compare these two photos.",
        [
            {
                "type": "image_url",
                "image_url": {"url": "https://img.example.test/a.png", "detail": "high"},
            },
            {
                "type": "image_url",
                "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
            },
        ],
    )
    (failed,) = loads(SAMPLES["J10"])
    assert without_kept(failed) == Message.tool(
        "call_8", "carrier timed out", "track_parcel", is_error=True
    )
    (named,) = loads(SAMPLES["J03"])
    assert without_kept(named) == U("Where is my parcel?", name="Ana")


def test_messages_of_ours_are_written_as_langchain4j_would() -> None:
    call = A("Let me look.", [ToolCall("c1", "f", "{}"), ToolCall("", "g", "{}")])
    assert dumps([call, Message.tool("c1", "x")]) == (
        '[{"text":"Let me look.","toolExecutionRequests":[{"id":"c1","name":"f","arguments":"{}"},'
        '{"name":"g","arguments":"{}"}],"attributes":{},"type":"AI"},'
        '{"id":"c1","contents":[{"text":"x","type":"TEXT"}],"attributes":{},'
        '"type":"TOOL_EXECUTION_RESULT"}]'
    )
    assert dumps([]) == "[]"


def test_a_message_that_was_changed_is_written_as_it_is_now() -> None:
    (message,) = loads(SAMPLES["J03"])
    redacted = Message.user("[redacted]", message.parts)
    assert dumps(redacted) == '{"contents":[{"text":"[redacted]","type":"TEXT"}],"type":"USER"}'


def test_control_characters_and_lone_surrogates_are_escaped_as_jackson_does() -> None:
    text = dumps(U("\x00\x1f\x7f\u2028/é\ud83d 😄"))
    assert text == (
        '{"contents":[{"text":"\\u0000\\u001F\x7f\u2028/é\\uD83D 😄","type":"TEXT"}],"type":"USER"}'
    )
    assert text.encode()
    assert loads(text) == [U("\x00\x1f\x7f\u2028/é\ud83d 😄")]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("1e10", "1.0E10"),
        ("12345678.9", "1.23456789E7"),
        ("9999999.5", "9999999.5"),
        ("0.001", "0.001"),
        ("0.0001", "1.0E-4"),
        ("-2.5e-7", "-2.5E-7"),
        ("100000.0", "100000.0"),
        ("1e6", "1000000.0"),
        ("0.0", "0.0"),
        ("-0.0", "-0.0"),
        ("3", "3"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1e999", '"1e999"'),
        ("NaN", '"NaN"'),
    ],
)
def test_numbers_are_written_as_java_writes_them(given: str, written: str) -> None:
    assert write(parse(given)) == written


# --- Spring AI

SPRING = [
    {"type": "SYSTEM", "content": "Be kind.", "metadata": {"messageType": "SYSTEM"}},
    {"type": "USER", "content": "2+3?", "metadata": {"messageType": "USER"}},
    {
        "type": "ASSISTANT",
        "content": "",
        "metadata": {"messageType": "ASSISTANT"},
        "toolCalls": [
            {"id": "c1", "type": "function", "name": "add", "arguments": '{"a":2}'},
            {"id": "c2", "type": "function", "name": "sub", "arguments": "{}"},
        ],
    },
    {
        "type": "TOOL",
        "content": "",
        "metadata": {"messageType": "TOOL"},
        "toolResponses": [
            {"id": "c1", "name": "add", "responseData": "5"},
            {"id": "c2", "name": "sub", "responseData": "1"},
        ],
    },
    {"type": "ASSISTANT", "content": "5", "metadata": {"messageType": "ASSISTANT"}},
]
SPRING_MESSAGES = [
    Message.system("Be kind."),
    U("2+3?"),
    A(None, [ToolCall("c1", "add", '{"a":2}'), ToolCall("c2", "sub", "{}")]),
    Message.tool("c1", "5", "add"),
    Message.tool("c2", "1", "sub"),
    A("5"),
]


def test_spring_ais_documents_are_read_and_written() -> None:
    text = write(SPRING)
    assert loads(text, "spring") == SPRING_MESSAGES
    assert dumps(SPRING_MESSAGES, "spring") == text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"conversation_id": "c", "content": "x", "type": "USER", "timestamp": 7}, U("x")),
        ({"conversationId": "c", "message": {"content": "x", "type": "USER"}}, U("x")),
        ({"messageType": "ASSISTANT", "text": "x", "toolCalls": [], "media": []}, A("x")),
        ({"messageType": "USER", "textContent": "x", "properties": {}}, U("x")),
        ({"messageType": "TOOL", "responses": [{"id": "1", "name": "f", "responseData": "x"}]},
         Message.tool("1", "x", "f")),
        ({"type": "TOOL", "content": "x"}, Message.tool("", "x")),
        ({"type": "ASSISTANT", "content": None}, A("")),
    ],
)  # fmt: skip
def test_spring_ais_other_shapes_are_read_and_kept(data: dict[str, Any], message: Message) -> None:
    text = write([data])
    (found,) = loads(text, "spring")
    assert without_kept(found) == message
    assert dumps([found], "spring") == text


def test_media_go_both_ways() -> None:
    media = [
        {"mimeType": "image/png", "data": "iVBO", "dataType": "base64"},
        {"mimeType": "image/jpeg", "data": "https://x.test/a.jpeg"},
        {"mimeType": "audio/mp3", "data": "bXAz", "dataType": "base64"},
    ]
    data = {"type": "USER", "content": "x", "metadata": {"messageType": "USER"}, "media": media}
    (found,) = loads(write(data), "spring")
    assert [part["type"] for part in found.parts] == ["image_url", "image_url", "input_audio"]
    assert dumps(found, "spring") == write(data)
    assert dumps(loads(dumps(found)), "spring") == write([data])


# --- OpenAI

OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "2+3?", "name": "Ana"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "content": "5", "tool_call_id": "c1"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "and this?"},
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
            {"type": "file", "file": {"file_id": "f1"}},
        ],
    },
    {"role": "assistant", "content": "5"},
]


def test_openais_messages_are_read_and_written() -> None:
    text = write(OPENAI)
    found = loads(text, "openai")
    assert found == [
        Message.system("Be kind."),
        U("2+3?", name="Ana"),
        A(None, [ToolCall("c1", "add", "{}")]),
        Message.tool("c1", "5"),
        U("and this?", OPENAI[4]["content"][1:]),
        A("5"),
    ]
    assert dumps(found, "openai") == text
    assert loads(write({"model": "m", "messages": OPENAI}), "openai") == found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"role": "developer", "content": "x"}, Message.system("x")),
        ({"role": "function", "name": "f", "content": "x"}, Message.tool("", "x", "f")),
        ({"role": "assistant", "content": None, "refusal": "no"}, A("no")),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, A("no")),
        ({"role": "assistant", "content": None}, A("")),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}, "tool_calls": None}, A("x")),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
         A(None, [ToolCall("", "f", "{}")])),
        ({"role": "critic", "content": "x"}, U("x")),
        ({"content": "x"}, U("x")),
        ({"role": ["user"], "content": {"a": 1}}, U('{"a":1}')),
        ({"role": "user", "content": ["a", {"type": "input_text", "text": "b"}, 7]}, U("a\nb")),
    ],
)  # fmt: skip
def test_openais_other_shapes_are_read_and_kept(data: dict[str, Any], message: Message) -> None:
    text = write([data])
    (found,) = loads(text, "openai")
    assert without_kept(found) == message
    assert dumps([found], "openai") == text


# --- From one to the other


def test_a_conversation_goes_from_any_dialect_to_any_other() -> None:
    for first in DIALECTS:
        for second in DIALECTS:
            there = loads(dumps(SPRING_MESSAGES, first), first)
            assert loads(dumps(there, second), second) == SPRING_MESSAGES


def test_what_is_kept_for_one_dialect_is_not_written_in_another() -> None:
    found = loads(SAMPLES["J03"])
    assert dumps(found, "openai") == (
        '[{"role":"user","content":"Where is my parcel?","name":"Ana"}]'
    )
    assert "channel" not in dumps(found, "spring")


# --- Never fatal


@pytest.mark.parametrize("text", ["", "{", "[1,", "nope", '{"a":1}x', "[" * 100_000])
def test_what_is_no_json_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(FormatError, match=r"line|deep"):
        loads(text)


def test_other_misuse_is_named() -> None:
    with pytest.raises(
        ValueError, match="unknown dialect 'gemini'; use one of langchain4j, spring"
    ):
        loads("[]", "gemini")
    with pytest.raises(TypeError, match="must be a str, not bytes"):
        loads(b"[]")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"messages\[0\] must be a Message"):
        dumps([None])  # type: ignore[list-item]
    with pytest.raises(FormatError, match="nested deeper than 200"):
        loads("[" * 300 + "]" * 300)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text",
    ["null", "[]", "[null]", "7", '"text"', '["a",null,3.5,true]', "{}", "[{}]", '\ufeff[{"a":1}]'],
)
def test_odd_values_are_read_and_written_back(text: str, dialect: str) -> None:
    found = loads(text, dialect)
    assert all(isinstance(each, Message) for each in found)
    value = parse(text)
    items = value if isinstance(value, list) else [] if value is None else [value]
    assert dumps(found, dialect) == write(items)


@pytest.mark.parametrize("text", [None, 7, "", "{", "null", "[1]", '{"text":"other","type":"AI"}'])
def test_a_kept_part_that_is_not_of_our_making_changes_nothing(text: Any) -> None:
    message = A("x", ())
    forged = Message("assistant", "x", ({"type": "kept", "dialect": "langchain4j", "json": text},))
    assert dumps(forged) == dumps(message)


def test_a_bare_line_break_inside_a_text_breaks_nothing() -> None:
    assert loads('{"text":"a\nb","type":"SYSTEM"}') == [Message.system("a\nb")]


def seconds_to_write(count: int) -> float:
    messages = [U("Hello")] * count
    started = time.process_time()
    dumps(messages, "openai")
    return time.process_time() - started


def test_ten_times_as_many_messages_take_about_ten_times_as_long_to_write() -> None:
    few = min(seconds_to_write(4_000) for _ in range(3))
    assert seconds_to_write(40_000) < 30 * few


def test_long_texts_are_kept_whole() -> None:
    for dialect in DIALECTS:
        for text in ("的" * 500_000, '"\\\n' * 100_000, "x" * 1_000_000):
            assert loads(dumps([U(text)], dialect), dialect) == [U(text)]


# fmt: off
keys = st.sampled_from(
    [
        "type", "role", "content", "contents", "text", "messageType", "toolCalls",
        "tool_calls", "toolExecutionRequests", "name", "id", "function", "arguments",
        "toolName", "isError", "image", "audio", "base64Data", "mimeType", "url",
        "detailLevel", "media", "data", "message", "metadata", "attributes", "image_url",
        "responses", "responseData", "kept", "dialect", "parts",
    ]
)
words = st.sampled_from(
    [
        "USER", "AI", "SYSTEM", "TOOL", "TOOL_EXECUTION_RESULT", "CUSTOM", "ASSISTANT", "user",
        "assistant", "system", "tool", "function", "TEXT", "IMAGE", "AUDIO", "PDF", "text",
        "image_url", "kept", "x", "的", "\ud83d",
    ]
)
# fmt: on
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(keys, values, max_size=6) | scalars, max_size=4))
def test_any_json_is_read_and_written_back(items: list[Any]) -> None:
    text = write(items)
    for dialect in ("langchain4j", "openai"):
        assert dumps(loads(text, dialect), dialect) == text
    found = loads(text, "spring")  # where results that follow each other come to share a document
    again = loads(dumps(found, "spring"), "spring")
    assert [without_kept(each) for each in again] == [without_kept(each) for each in found]


text = st.text(max_size=20)
calls = st.lists(st.builds(ToolCall, text, text, text), max_size=2)
messages = st.lists(
    st.builds(U, text, name=text)
    | st.builds(lambda content, found: A(content if content or found else "", found),
                st.none() | text, calls)
    | st.builds(Message.tool, text, text, text)
    | st.builds(Message.system, text),
    max_size=5,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(messages)
def test_messages_of_ours_come_back_from_langchain4j_and_openai(given_messages: Any) -> None:
    for dialect in ("langchain4j", "openai"):
        found = loads(dumps(given_messages, dialect), dialect)
        assert [without_kept(each) for each in found] == given_messages
