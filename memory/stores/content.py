"""What stores keep of messages: JSON-able data, read back message by message."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from memory.messages import ROLES, Message, from_data
from memory.stores.base import RebuildNeeded

FORMAT_VERSION = 1

logger = logging.getLogger(__name__)


def read_messages(memory_id: str, version: Any, data: Any) -> tuple[Message, ...]:
    """The messages of a stored window; RebuildNeeded when it is none, or of another version."""
    if version != FORMAT_VERSION:
        raise RebuildNeeded(memory_id, "version")
    if not isinstance(data, list):
        raise RebuildNeeded(memory_id, "unreadable")
    return tuple(read_message(memory_id, each) for each in data)


def read_message(memory_id: str, data: Any) -> Message:
    """The stored message; one that cannot be read becomes its plain text, with a warning."""
    try:
        return from_data(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        logger.warning(
            "a stored message of %s cannot be read (%s); its plain text is used",
            memory_id,
            type(error).__name__,
        )
    fields: Mapping[str, Any] = data if isinstance(data, dict) else {"content": data}
    role = fields.get("role")
    text = str(fields.get("content") or "")
    return Message("user" if role == "tool" or role not in ROLES else role, text)
