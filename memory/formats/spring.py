"""Spring AI's messages: the documents of its Redis repository, which it reads back.

Reading also takes the rows of its JDBC repository, the documents of its MongoDB repository and
the JSON that Jackson makes of its message objects.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any

from memory.formats.values import (
    content_of,
    first_of,
    media_of_part,
    media_part,
    objects_in,
    text_of,
    url_of_image,
)
from memory.messages import Message, Role, ToolCall

_ROLES: dict[str, Role] = {
    "SYSTEM": "system",
    "USER": "user",
    "ASSISTANT": "assistant",
    "TOOL": "tool",
}
_TYPES = {role: name for name, role in _ROLES.items()}
_IMAGE = "image/png"  # for an address that does not say


def read(data: Mapping[str, Any]) -> list[Message]:
    if isinstance(data.get("message"), Mapping):
        data = data["message"]
    kind = text_of(first_of(data, "type", "messageType", "role")).upper()
    role = _ROLES.get(kind, "user")
    text = text_of(first_of(data, "content", "text", "textContent"))
    parts = _parts(data)
    if role == "tool":
        return _results(data, text)
    if role == "assistant":
        calls = tuple(_call(each) for each in objects_in(data.get("toolCalls")))
        return [Message(role, text or (None if calls else ""), parts, calls)]
    return [Message(role, text, parts)]


def write(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """One document for each message; results that follow each other share one."""
    written: list[dict[str, Any]] = []
    follows_result = False
    for message in messages:
        is_result = message.role == "tool"
        if is_result and follows_result:
            written[-1]["toolResponses"].append(_response(message))
        else:
            written.append(_written(message))
        follows_result = is_result
    return written


# --- Reading


def _results(data: Mapping[str, Any], text: str) -> list[Message]:
    responses = objects_in(first_of(data, "toolResponses", "responses"))
    found = [
        Message.tool(
            text_of(each.get("id")), text_of(each.get("responseData")), text_of(each.get("name"))
        )
        for each in responses
    ]
    return found or [Message.tool("", text)]


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = call.get("arguments")
    return ToolCall(
        text_of(call.get("id")),
        text_of(call.get("name")),
        "{}" if arguments is None else text_of(arguments),
    )


def _parts(data: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    return tuple(
        part for each in objects_in(data.get("media")) if (part := _part(each)) is not None
    )


def _part(media: Mapping[str, Any]) -> dict[str, Any] | None:
    mime_type, data = text_of(media.get("mimeType")), media.get("data")
    if not isinstance(data, str):
        return None
    if media.get("dataType") == "base64":
        return media_part(mime_type, data)
    if mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data}}
    return None


# --- Writing


def _written(message: Message) -> dict[str, Any]:
    kind = _TYPES[message.role]
    is_result = message.role == "tool"
    written: dict[str, Any] = {
        "type": kind,
        "content": "" if is_result else _text(message),
        "metadata": {"messageType": kind},
    }
    if message.tool_calls:
        written["toolCalls"] = [
            {"id": each.id, "type": "function", "name": each.name, "arguments": each.arguments}
            for each in message.tool_calls
        ]
    if is_result:
        written["toolResponses"] = [_response(message)]
    if media := [found for part in message.parts if (found := _media(part))]:
        written["media"] = media
    return written


def _text(message: Message) -> str:
    others = [text_of(part.get("text")) for part in message.parts if part.get("type") == "text"]
    return content_of([message.content or "", *others])


def _response(message: Message) -> dict[str, str]:
    return {"id": message.tool_call_id, "name": message.name, "responseData": _text(message)}


def _media(part: Mapping[str, Any]) -> dict[str, str] | None:
    if media := media_of_part(part):
        return {"mimeType": media[0], "data": media[1], "dataType": "base64"}
    url = url_of_image(part)
    if url is None:
        return None
    guessed = mimetypes.guess_type(url.split("?")[0])[0] or ""
    return {"mimeType": guessed if guessed.startswith("image/") else _IMAGE, "data": url}
