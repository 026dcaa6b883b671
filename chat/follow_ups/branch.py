"""A session as follow-ups read it: its row with everything that decides, and its chosen branch."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet

from chat.models import ChatMessage, ChatSession
from chat.turns.history import SessionHistory, history_message
from memory.context import HistoryMessage

NEVER = 2**62  # a seq that no message reaches


class Branch(SessionHistory):
    """The chosen branch after a seq, read from either end."""

    def __init__(self, session_id: uuid.UUID, after: int) -> None:
        super().__init__(session_id, after=after, before=NEVER)

    @property
    def rows(self) -> QuerySet[ChatMessage]:
        return ChatMessage.objects.filter(
            chat_session_id=self.session_id, is_on_path=True, seq__gt=self.after
        )

    def newest_seq(self) -> int:
        """0: there is no message."""
        newest = self.rows.order_by("-seq").values_list("seq", flat=True).first()
        return newest or 0

    def oldest(self, limit: int) -> list[HistoryMessage]:
        """At most `limit` messages, oldest first."""
        return [history_message(row) for row in self.rows.order_by("seq")[:limit]]

    def holds(self, message_id: str) -> bool:
        """Whether the message is on the chosen branch, anywhere."""
        return ChatMessage.objects.filter(
            pk=uuid.UUID(message_id), chat_session_id=self.session_id, is_on_path=True
        ).exists()


def session_of(session_id: uuid.UUID | None) -> ChatSession | None:
    """The session with its assistant and endpoint; None when it is gone, or keeps no text."""
    if session_id is None:
        return None
    rows = ChatSession.objects.filter(pk=session_id, is_temporary=False)
    return rows.select_related("assistant__endpoint").first()


def lock(chat_session: ChatSession, **changes: Any) -> bool:
    """Update the session's row under the epoch that was read; False when that one has passed.

    The first statement of every transaction by which a follow-up writes about a session.
    """
    epoch = chat_session.memory_epoch
    row = ChatSession.objects.filter(pk=chat_session.pk, memory_epoch=epoch)
    return bool(row.update(**{"memory_epoch": epoch, **changes}))
