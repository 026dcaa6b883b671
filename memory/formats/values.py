"""Values of other systems' JSON, taken as they come: texts, lists, media."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memory.formats.json_text import write
from memory.messages import Message, Role

_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def text_of(value: Any) -> str:
    """A text as it is, nothing as "", and anything else as its JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else write(value)


def objects_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; anything else is passed over."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def first_of(data: Mapping[str, Any], *names: str) -> Any:
    """The value of the first name that is there and not null."""
    return next((data[name] for name in names if data.get(name) is not None), None)


def content_of(texts: Sequence[str]) -> str:
    """The texts of one message as its content."""
    return "\n".join(texts)


def message_of(role: Role, text: str, parts: Sequence[Mapping[str, Any]], name: str) -> Message:
    return Message(role, text, parts=tuple(parts), name=name)


# --- Media


def data_url(mime_type: str, base64_data: str) -> str:
    return f"data:{mime_type};base64,{base64_data}"


def split_data_url(url: Any) -> tuple[str, str] | None:
    """MIME type and base64 data of a data URL, or None."""
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    return (found[1], found[2]) if found else None


def media_part(mime_type: str, base64_data: str) -> dict[str, Any] | None:
    """The part for media given as data: an image, a sound or a PDF, as OpenAI takes them."""
    if mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(mime_type, base64_data)}}
    if mime_type.startswith("audio/"):
        sound = {"data": base64_data, "format": mime_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": sound}
    if mime_type == "application/pdf":
        return {"type": "file", "file": {"file_data": data_url(mime_type, base64_data)}}
    return None


def media_of_part(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """MIME type and base64 data of a part that holds its data, or None."""
    if part.get("type") == "input_audio" and isinstance(part.get("input_audio"), Mapping):
        sound = part["input_audio"]
        if isinstance(sound.get("data"), str) and isinstance(sound.get("format"), str):
            return f"audio/{sound['format']}", sound["data"]
    if part.get("type") == "file" and isinstance(part.get("file"), Mapping):
        return split_data_url(part["file"].get("file_data"))
    return split_data_url(url_of_image(part))


def url_of_image(part: Mapping[str, Any]) -> str | None:
    image = part.get("image_url") if part.get("type") == "image_url" else None
    url = image.get("url") if isinstance(image, Mapping) else image
    return url if isinstance(url, str) else None
