"""A session's stored messages as the values that memory works with."""

from __future__ import annotations

import uuid
from typing import cast

from chat import attachments, temporary
from chat.models import ChatMessage
from memory.context import HistoryMessage
from memory.messages import Message, Role, ToolCall


def history_message(row: ChatMessage) -> HistoryMessage:
    """One stored message as a value."""
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in row.tool_calls)
    return HistoryMessage(
        message=Message(
            role=cast(Role, row.role),
            content=row.content if row.content is not None or calls else "",
            parts=attachments.memory_parts(row.parts) if row.role == "user" else (),
            tool_calls=calls,
            tool_call_id=row.tool_call_id,
            name=row.name,
            is_error=row.is_error,
        ),
        seq=row.seq,
        id=str(row.pk),
        turn=str(row.turn_id) if row.turn_id else None,
        is_partial=row.is_partial,
        tokens=row.token_count,
        encoding=row.token_encoding,
    )


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
