"""A session's stored messages as the values that memory works with."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import cast

from chat import attachments, temporary
from chat.models import ChatMessage
from memory.context import HistoryMessage
from memory.messages import ROLES, Message, Role, ToolCall
from memory.parts import PLAIN_TEXT

logger = logging.getLogger(__name__)

REDACTED = "redacted"  # the mark in the manifest
REDACTED_TEXT = "[This text was redacted.]"


def history_message(row: ChatMessage) -> HistoryMessage:
    """One stored message as a value; one that cannot be read becomes its plain text, and says so.

    Its calls of tools or its images are lost then, and never the turn or the session.
    """
    mark = ""
    try:
        message = _message(row)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        logger.warning(
            "message %s of session %s cannot be read (%r); its plain text is used",
            row.pk,
            row.chat_session_id,
            error,
        )
        message, mark = _plain(row), PLAIN_TEXT
    if row.redacted_at is not None and not message.tool_calls:
        message, mark = replace(message, content=REDACTED_TEXT), REDACTED
    return HistoryMessage(
        message=message,
        seq=row.seq,
        id=str(row.pk),
        turn=str(row.turn_id) if row.turn_id else None,
        is_partial=row.is_partial,
        tokens=None if mark else row.token_count,
        encoding=row.token_encoding,
        mark=mark,
    )


def _message(row: ChatMessage) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in row.tool_calls)
    return Message(
        role=cast(Role, row.role),
        content=row.content if row.content is not None or calls else "",
        parts=attachments.memory_parts(row.parts) if row.role == "user" else (),
        tool_calls=calls,
        tool_call_id=row.tool_call_id,
        name=row.name,
        is_error=row.is_error,
    )


def _plain(row: ChatMessage) -> Message:
    """The text alone; a role that is none is taken for the user's."""
    role = cast(Role, row.role if row.role in ROLES else "user")
    return Message(role, row.content or "", tool_call_id=row.tool_call_id)


class SessionHistory:
    """The chosen branch between the forget line and the current input, newest first."""

    def __init__(self, session_id: uuid.UUID, *, after: int, before: int) -> None:
        self.session_id = session_id
        self.after = after
        self.before = before

    def newest(self, before_seq: int | None, limit: int) -> list[HistoryMessage]:
        """At most `limit` messages with `seq` below `before_seq` (None: below the input)."""
        end = self.before if before_seq is None else min(before_seq, self.before)
        rows = ChatMessage.objects.filter(
            chat_session_id=self.session_id, is_on_path=True, seq__gt=self.after, seq__lt=end
        ).order_by("-seq")
        found = list(rows[:limit])
        temporary.fill(found)
        return [history_message(row) for row in found]

    def holds(self, message_id: str) -> bool:
        """Whether the message is on the branch before the input, on whatever side of `after`."""
        branch = ChatMessage.objects.filter(chat_session_id=self.session_id, is_on_path=True)
        return branch.filter(pk=message_id, seq__lt=self.before).exists()
