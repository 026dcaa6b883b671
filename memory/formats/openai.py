"""The messages of OpenAI's Chat Completions requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.formats.values import content_of, objects_in, text_of
from memory.messages import Message, Role, ToolCall

_ROLES: dict[Any, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


def read(data: Mapping[str, Any]) -> list[Message]:
    role = _ROLES.get(_hashable(data.get("role")), "user")
    text, parts = _content(data.get("content"))
    name = text_of(data.get("name"))
    if role == "assistant":
        calls = _calls(data)
        content = None if calls and data.get("content") is None else text
        if not text and not calls and isinstance(data.get("refusal"), str):
            content = data["refusal"]
        return [Message(role, content, parts, calls, name=name)]
    if role == "tool":
        return [Message(role, text, parts, (), text_of(data.get("tool_call_id")), name)]
    return [Message(role, text, parts, name=name)]


def write(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [_written(each) for each in messages]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _content(content: Any) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The text of a message's content, and the parts of it that are no text."""
    if not isinstance(content, list):
        return text_of(content), ()
    texts, parts = [], []
    for each in content:
        field = _TEXTS.get(str(each.get("type"))) if isinstance(each, dict) else None
        if isinstance(each, str):
            texts.append(each)
        elif field and isinstance(each.get(field), str):
            texts.append(each[field])
        elif isinstance(each, dict):
            parts.append(each)
    return content_of(texts), tuple(parts)


def _calls(data: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = [_call(each, each.get("function")) for each in objects_in(data.get("tool_calls"))]
    if isinstance(data.get("function_call"), dict):  # before there were tools
        calls.append(_call({}, data["function_call"]))
    return tuple(calls)


def _call(call: Mapping[str, Any], function: Any) -> ToolCall:
    fields = function if isinstance(function, Mapping) else {}
    arguments = fields.get("arguments")
    return ToolCall(
        text_of(call.get("id")),
        text_of(fields.get("name")),
        "{}" if arguments is None else text_of(arguments),
    )


def _written(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": _written_content(message)}
    if message.name:
        written["name"] = message.name
    if message.tool_calls:
        written["tool_calls"] = [_written_call(each) for each in message.tool_calls]
    if message.role == "tool":
        written["tool_call_id"] = message.tool_call_id
    return written


def _written_content(message: Message) -> str | list[dict[str, Any]] | None:
    if not message.parts:
        return message.content
    texts = [{"type": "text", "text": message.content}] if message.content else []
    return [*texts, *(dict(part) for part in message.parts)]


def _written_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}
