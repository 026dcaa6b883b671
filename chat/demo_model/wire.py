"""The demo model's answers in OpenAI's wire format."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chat.demo_model.script import Reply, pieces
from memory.messages import Message, ToolCall
from memory.tokens import REQUEST_OVERHEAD, count_message, count_text

MODEL = "demo"
FINGERPRINT = "scripted-not-an-ai"
ENCODING = "o200k_base"
LABEL = {"X-Demo-Model": "scripted, not an AI"}


@dataclass(frozen=True)
class Delivery:
    """A reply ready to send: its deltas in order, why it ends, and what it cost."""

    deltas: tuple[dict[str, Any], ...]
    finish: str
    usage: dict[str, Any] | None
    id: str = field(default_factory=lambda: f"chatcmpl-demo-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._envelope("chat.completion.chunk"), "choices": [choice]}

    def usage_chunk(self) -> dict[str, Any]:
        envelope = self._envelope("chat.completion.chunk")
        return {**envelope, "choices": [], "usage": self.usage}

    def whole(self) -> dict[str, Any]:
        """The reply unstreamed."""
        texts = [delta["content"] for delta in self.deltas if "content" in delta]
        calls = [call for delta in self.deltas for call in delta.get("tool_calls", ())]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if calls:
            message |= {"content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish}
        usage = {"usage": self.usage} if self.usage else {}
        return {**self._envelope("chat.completion"), "choices": [choice], **usage}

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": MODEL,
            "system_fingerprint": FINGERPRINT,
        }


def deliver(reply: Reply, body: Mapping[str, Any], max_tokens: int | None) -> Delivery:
    """Cut a reply into deltas, at most `max_tokens` of them, and count its tokens exactly."""
    parts, finish = within(pieces(reply.text), max_tokens, reply.finish)
    deltas: list[dict[str, Any]] = [{"content": part} for part in parts]
    deltas += tool_deltas(reply)
    output = count_text("".join(parts), ENCODING)
    output += sum(count_text(call.name + call.arguments, ENCODING) for call in reply.tools)
    given = count_request(body)
    usage = {
        "prompt_tokens": given,
        "completion_tokens": output,
        "total_tokens": given + output,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    return Delivery(tuple(deltas), finish, usage if reply.usage else None)


def within(parts: list[str], limit: int | None, finish: str) -> tuple[list[str], str]:
    """As many whole pieces as `limit` tokens hold; fewer than all finish with `length`."""
    if limit is None or count_text("".join(parts), ENCODING) <= limit:
        return parts, finish
    low, high = 0, len(parts)
    while low < high:  # the largest number of pieces that still fits
        middle = (low + high + 1) // 2
        if count_text("".join(parts[:middle]), ENCODING) <= limit:
            low = middle
        else:
            high = middle - 1
    return parts[:low], "length"


def tool_deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(reply.tools):
        function = {"name": call.name, "arguments": call.arguments}
        identity = {"index": index, "id": f"call_demo_{index + 1}", "type": "function"}
        yield {"tool_calls": [{**identity, "function": function}]}


def count_request(body: Mapping[str, Any]) -> int:
    """Tokens of a request: its messages, its tool definitions and the reply's primer."""
    tools = body.get("tools")
    definitions = count_text(json.dumps(tools, ensure_ascii=False), ENCODING) if tools else 0
    messages = (as_message(message) for message in body["messages"])
    return (
        REQUEST_OVERHEAD
        + definitions
        + sum(count_message(message, ENCODING) for message in messages)
    )


def as_message(message: Mapping[str, Any]) -> Message:
    """A message of the wire as memory counts it."""
    content = message.get("content")
    asked = message.get("tool_calls")
    calls = tuple(as_call(call) for call in asked) if isinstance(asked, list) else ()
    role = message["role"]
    return Message(
        role=role if role in ("user", "assistant", "tool") else "system",
        content=content if isinstance(content, str) else "",
        parts=tuple(content) if isinstance(content, list) else (),
        tool_calls=calls if role == "assistant" else (),
        tool_call_id=str(message.get("tool_call_id") or ""),
        name=str(message.get("name") or ""),
    )


def as_call(call: Any) -> ToolCall:
    call = call if isinstance(call, Mapping) else {}
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    name, arguments = function.get("name"), function.get("arguments")
    return ToolCall(str(call.get("id") or ""), str(name or ""), str(arguments or ""))


def error(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    """An error object."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def event(value: Mapping[str, Any]) -> bytes:
    """One server-sent event; ASCII, so that any text survives."""
    return f"data: {json.dumps(value)}\n\n".encode()


DONE = b"data: [DONE]\n\n"
