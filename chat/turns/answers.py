"""One streamed answer as it comes in: its text, the tools that it asks for, its usage."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from chat import llm
from chat.turns.orders import Begun, Outcome
from memory.messages import ToolCall

Emit = Callable[[dict[str, Any]], None]
BETWEEN = "\n\n"  # the texts of two requests of one turn, as a reader gets them


@dataclass
class _Call:
    id: str
    name: str
    arguments: str


class Calls:
    """Tool calls put together from their pieces, in the order in which they were begun."""

    def __init__(self) -> None:
        self._found: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def add(self, piece: llm.ToolCallDelta) -> None:
        known = self._at.get(piece.index)
        if known is None or (piece.id and known.id and piece.id != known.id):
            known = self._at[piece.index] = _Call("", "", "")
            self._found.append(known)
        known.id = known.id or piece.id
        known.name += piece.name
        known.arguments += piece.arguments

    def __bool__(self) -> bool:
        return bool(self._found)

    def whole(self) -> tuple[ToolCall, ...]:
        """The calls; one without an id of its own, or with another's, is given one."""
        calls, ids = [], set()
        for each in self._found:
            id_ = each.id if each.id and each.id not in ids else f"call_{uuid.uuid4().hex}"
            ids.add(id_)
            calls.append(ToolCall(id_, each.name, each.arguments or "{}"))
        return tuple(calls)


class Answer:
    """What one request of a turn is answered with. Offsets count the text of the whole turn."""

    def __init__(self, begun: Begun, emit: Emit, earlier: Answer | None = None) -> None:
        self.begun = begun
        self.emit = emit
        self.pieces: list[str] = []
        self.calls = Calls()
        self.usage: llm.Usage | None = None
        self.finish_reason = ""
        self.first_token_at: datetime | None = earlier.first_token_at if earlier else None
        self.start: int = earlier.end if earlier else 0
        self.end: int = self.start

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    async def receive(self) -> None:
        """Take the stream in until its end; `LLMError` when it fails."""
        async for chunk in llm.stream(self.begun.spec, self.begun.request):
            if isinstance(chunk, llm.TextDelta):
                self.add(chunk.text)
            elif isinstance(chunk, llm.ToolCallDelta):
                self.calls.add(chunk)
            elif isinstance(chunk, llm.Usage):
                self.usage = chunk
            elif isinstance(chunk, llm.Finished):
                self.finish_reason = chunk.reason

    def add(self, piece: str) -> None:
        if self.first_token_at is None:
            self.first_token_at = timezone.now()
        if not self.pieces and self.start:
            self._tell(BETWEEN)
            self.start = self.end
        self.pieces.append(piece)
        self._tell(piece)

    def _tell(self, piece: str) -> None:
        offset, self.end = self.end, self.end + len(piece)
        self.emit(
            {
                "type": "turn.delta",
                "turn": str(self.begun.turn_id),
                "offset": offset,
                "end": self.end,
                "text": piece,
            }
        )

    def seen(self, end: int | None) -> str:
        """The text up to `end` of the whole turn's; None: all of it."""
        return self.text if end is None else self.text[: max(0, end - self.start)]

    def outcome(
        self, status: str, *, text: str | None = None, code: str = "", detail: str = ""
    ) -> Outcome:
        usage = self.usage
        return Outcome(
            status=status,
            text=self.text if text is None else text,
            finish_reason=self.finish_reason,
            error_code=code,
            error_detail=detail,
            input_tokens=usage.input if usage else None,
            cached_input_tokens=usage.cached_input if usage else None,
            output_tokens=usage.output if usage else None,
            first_token_at=self.first_token_at,
        )
