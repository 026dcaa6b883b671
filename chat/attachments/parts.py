"""Attachments inside a message: as its row keeps them, as memory counts them, as people see them.

A row's `parts` hold what is needed to show and to count an image, so that neither asks for its
attachment's row. Memory gets each as an `image_url` whose address names the attachment: the image
itself is put in its place when the request is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from chat.models import Attachment

IMAGE = "image"
FIELDS = {"attachment", "name", "content_type", "size", "width", "height"}
ADDRESS = "attachment:"
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def message_part(attachment: Attachment) -> dict[str, Any]:
    """What `ChatMessage.parts` keeps of an attachment."""
    return {
        "type": IMAGE,
        "attachment": str(attachment.pk),
        "name": attachment.name,
        "content_type": attachment.content_type,
        "size": attachment.size,
        "width": attachment.width,
        "height": attachment.height,
    }


def attachments_in(parts: Iterable[Any]) -> list[Mapping[str, Any]]:
    """The parts that are our own attachments; what was imported from elsewhere is not."""
    return [
        part
        for part in parts
        if isinstance(part, Mapping)
        and part.get("type") == IMAGE
        and part.keys() >= FIELDS
        and ID.fullmatch(str(part["attachment"]))
    ]


def memory_parts(parts: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """The attachments among `parts` as parts of a message of memory, with the size to count by."""
    return tuple(
        {
            "type": "image_url",
            "image_url": {"url": f"{ADDRESS}{part['attachment']}"},
            "bytes": part["size"],
            "width": part["width"],
            "height": part["height"],
        }
        for part in attachments_in(parts)
    )


def attachment_of(part: Mapping[str, Any]) -> str:
    """The id of the attachment that a part of a message of memory names."""
    return str(part["image_url"]["url"]).removeprefix(ADDRESS)


def described(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """The attachments among `parts` as the API shows them."""
    return [
        {
            "id": part["attachment"],
            "name": part["name"],
            "content_type": part["content_type"],
            "size": part["size"],
            "width": part["width"],
            "height": part["height"],
            "url": file_url(part["attachment"]),
        }
        for part in attachments_in(parts)
    ]


def file_url(attachment_id: Any) -> str:
    return f"/api/v1/attachments/{attachment_id}/file/"
