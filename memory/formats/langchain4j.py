"""LangChain4j's messages, as its ChatMessageSerializer writes them (version 1.20).

Keys stand in the order of its fields, the type last; what is null is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.formats.values import (
    content_of,
    data_url,
    first_of,
    media_of_part,
    media_part,
    objects_in,
    text_of,
    url_of_image,
)
from memory.messages import Message, ToolCall

_DETAILS = {"LOW": "low", "HIGH": "high", "AUTO": "auto", "ULTRA_HIGH": "high"}
_CONTENT_KINDS = {"AUDIO": "audio", "VIDEO": "video", "PDF": "pdfFile"}


def read(data: Mapping[str, Any]) -> list[Message]:
    kind = data.get("type")
    text, parts = _contents(data)
    if kind == "SYSTEM":
        return [Message.system(text)]
    if kind == "AI":
        calls = tuple(_call(each) for each in objects_in(data.get("toolExecutionRequests")))
        return [Message.assistant(None if calls and data.get("text") is None else text, calls)]
    if kind == "TOOL_EXECUTION_RESULT":
        name, is_error = text_of(data.get("toolName")), data.get("isError") is True
        return [Message("tool", text, parts, (), text_of(data.get("id")), name, is_error)]
    return [Message.user(text, parts, text_of(data.get("name")))]


def write(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [_written(each) for each in messages]


# --- Reading


def _contents(data: Mapping[str, Any]) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Text and other parts, from "contents" or, as older versions wrote, from "text"."""
    if not isinstance(data.get("contents"), list):
        return text_of(first_of(data, "text", "content", "contents")), ()
    texts, parts = [], []
    for each in objects_in(data["contents"]):
        if part := _part(each):
            parts.append(part)
        elif "text" in each:
            texts.append(text_of(each["text"]))
    return content_of(texts), tuple(parts)


def _part(content: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = content.get("type")
    if kind == "IMAGE" and isinstance(content.get("image"), Mapping):
        return _image_part(content["image"], content.get("detailLevel"))
    media = content.get(_CONTENT_KINDS.get(str(kind), ""))
    if isinstance(media, Mapping) and isinstance(media.get("base64Data"), str):
        return media_part(text_of(media.get("mimeType")), media["base64Data"])
    return None


def _image_part(image: Mapping[str, Any], detail: Any) -> dict[str, Any] | None:
    url = image.get("url")
    if isinstance(image.get("base64Data"), str):
        url = data_url(text_of(image.get("mimeType")), image["base64Data"])
    if not isinstance(url, str):
        return None
    found = {"url": url, "detail": _DETAILS.get(str(detail), "auto")}
    return {"type": "image_url", "image_url": found}


def _call(request: Mapping[str, Any]) -> ToolCall:
    arguments = request.get("arguments")
    return ToolCall(
        text_of(request.get("id")),
        text_of(request.get("name")),
        "{}" if arguments is None else text_of(arguments),
    )


# --- Writing


def _written(message: Message) -> dict[str, Any]:
    text = message.content
    if message.role == "system":
        return {"text": text, "type": "SYSTEM"}
    if message.role == "assistant":
        return {
            **({} if text is None else {"text": text}),
            "toolExecutionRequests": [_request(each) for each in message.tool_calls],
            "attributes": {},
            "type": "AI",
        }
    contents = _written_contents(text or "", message.parts)
    if message.role == "user":
        name = {"name": message.name} if message.name else {}
        return {**name, "contents": contents, "type": "USER"}
    return {
        **({"id": message.tool_call_id} if message.tool_call_id else {}),
        **({"toolName": message.name} if message.name else {}),
        "contents": contents,
        **({"isError": True} if message.is_error else {}),
        "attributes": {},
        "type": "TOOL_EXECUTION_RESULT",
    }


def _request(call: ToolCall) -> dict[str, str]:
    """LangChain4j leaves an id out that is not there."""
    return {**({"id": call.id} if call.id else {}), "name": call.name, "arguments": call.arguments}


def _written_contents(text: str, parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    others = [content for part in parts if (content := _content(part))]
    return [{"text": text, "type": "TEXT"}, *others] if text or not others else others


def _content(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A part as LangChain4j's content; one that it has no kind for is left out."""
    media = media_of_part(part)
    data = {"base64Data": media[1], "mimeType": media[0]} if media else None
    if part.get("type") == "text":
        return {"text": text_of(part.get("text")), "type": "TEXT"}
    if url := url_of_image(part):
        detail = part["image_url"].get("detail") if isinstance(part["image_url"], Mapping) else None
        level = str(detail or "auto").upper()
        return {"image": data or {"url": url}, "detailLevel": level, "type": "IMAGE"}
    if data and part.get("type") == "input_audio":
        return {"audio": data, "type": "AUDIO"}
    return {"pdfFile": data, "type": "PDF"} if data else None
