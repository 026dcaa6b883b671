"""Stored messages for tests of memory, and a history reader over a list."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from memory.context import HistoryMessage
from memory.history import MemoryPolicy, SessionState
from memory.messages import Message

SESSION_ID = uuid.UUID("00000000-0000-4000-8000-000000000001")


def stored(seq: int, message: Message, **fields: Any) -> HistoryMessage:
    """A stored message; its id is its seq as a UUID."""
    return HistoryMessage(message, seq, str(uuid.UUID(int=seq)), None, **fields)


def asked(seq: int, text: str = "") -> HistoryMessage:
    return stored(seq, Message.user(text or f"question {seq}"))


def answered(seq: int, text: str | None = None, **fields: Any) -> HistoryMessage:
    return stored(seq, Message.assistant(f"answer {seq}" if text is None else text), **fields)


def talk(exchanges: int, first: int = 1) -> list[HistoryMessage]:
    """Questions and answers, seqs without gaps from `first` on."""
    return [
        each(seq)
        for seq in range(first, first + 2 * exchanges, 2)
        for each in (asked, lambda number: answered(number + 1))
    ]


def seqs(messages: Iterable[HistoryMessage]) -> list[int]:
    return [each.seq for each in messages]


def policy(**fields: Any) -> MemoryPolicy:
    values: dict[str, Any] = {
        "enabled": True,
        "max_messages": 20,
        "max_tokens": None,
        "stride": 0,
        "use_preferences": True,
        "encoding": "o200k_base",
    }
    return MemoryPolicy(**{**values, **fields})


def state(newest_seq: int, forget_line: int = 0, **fields: Any) -> SessionState:
    return SessionState(
        **{"id": SESSION_ID, "memory_epoch": 0, **fields},
        forget_line=forget_line,
        newest_seq=newest_seq,
    )


@dataclass
class ListReader:
    """A HistoryReader over a list in ascending order; it notes how much was asked for."""

    messages: list[HistoryMessage]
    forget_line: int = 0
    read: list[int] = field(default_factory=list)

    def newest(self, before_seq: int | None, limit: int) -> list[HistoryMessage]:
        end = before_seq if before_seq is not None else 10**12
        found = [each for each in self.messages if self.forget_line < each.seq < end]
        page = found[::-1][:limit]
        self.read.append(len(page))
        return page

    def holds(self, message_id: str) -> bool:
        return any(each.id == message_id for each in self.messages)
