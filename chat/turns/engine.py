"""A turn from its order to its end: begin, stream, finish.

`run` is a coroutine that `chat.running` starts as a task of its own, so that nobody who watches
can end it by going away. No transaction is open while the model answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from chat import leases, llm
from chat.hops import hop, urgent_hop
from chat.models import ChatTurn
from chat.temporary import TextsUnavailable
from chat.turns import requests
from chat.turns.begin import begin
from chat.turns.endings import finish, flush
from chat.turns.orders import Begun, Order, Outcome, Refused, Repeated

logger = logging.getLogger(__name__)

Emit = Callable[[dict[str, Any]], None]
Status = ChatTurn.Status
Ask = Literal["stop", "interrupt", "lose"]

FLUSH_SECONDS = 1.0
FLUSH_GROWTH = 50_000  # characters that make the pause between two flushes one second longer
FINISH_PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds between tries to store a turn's end


class Control:
    """What the world outside asks of a running turn; the first wish stands, a lost lease wins."""

    def __init__(self) -> None:
        self.asked: Ask | None = None
        self.seen: int | None = None
        self._event = asyncio.Event()

    def stop(self, seen: int | None) -> None:
        """Stop by the user, who had painted `seen` code points."""
        self._ask("stop")
        if self.asked == "stop" and seen is not None:
            self.seen = seen

    def interrupt(self) -> None:
        """This process is going away."""
        self._ask("interrupt")

    def lose(self) -> None:
        """The lease is somebody else's: write nothing more."""
        self.asked = "lose"
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()

    def _ask(self, wish: Ask) -> None:
        self.asked = self.asked or wish
        self._event.set()


class Answer:
    """The text and the usage of one streamed answer as they come in."""

    def __init__(self, begun: Begun, emit: Emit) -> None:
        self.begun = begun
        self.emit = emit
        self.pieces: list[str] = []
        self.end = 0
        self.usage: llm.Usage | None = None
        self.finish_reason = ""
        self.first_token_at: datetime | None = None
        self.ended = asyncio.Event()

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    async def receive(self) -> None:
        """Take the stream in until its end; `LLMError` when it fails."""
        async for chunk in llm.stream(self.begun.spec, self.begun.request):
            if isinstance(chunk, llm.TextDelta):
                self.add(chunk.text)
            elif isinstance(chunk, llm.Usage):
                self.usage = chunk
            elif isinstance(chunk, llm.Finished):
                self.finish_reason = chunk.reason

    def add(self, piece: str) -> None:
        if self.first_token_at is None:
            self.first_token_at = timezone.now()
        offset, self.end = self.end, self.end + len(piece)
        self.pieces.append(piece)
        self.emit(
            {
                "type": "turn.delta",
                "turn": str(self.begun.turn_id),
                "offset": offset,
                "end": self.end,
                "text": piece,
            }
        )

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


async def run(order: Order, control: Control, emit: Emit) -> Begun | Repeated:
    """Run a turn to its end. `Refused` or `hops.Overloaded` before anything is stored.

    `emit` gets the frames of the protocol, each piece of text as a `turn.delta`. When this
    returns a `Begun`, the row of the turn says how it ended, unless the lease was lost.
    """
    begun = await hop(begin, order)
    if isinstance(begun, Repeated):
        return begun
    for frame in begun.frames:
        emit(frame)
    outcome = await _stream(begun, control, Answer(begun, emit))
    if outcome is not None and outcome.was_too_long and control.asked is None:
        begun, outcome = await _once_more(begun, outcome, control, emit)
    if outcome is not None:
        await asyncio.shield(_finish(begun, outcome))
    return begun


async def _once_more(
    begun: Begun, outcome: Outcome, control: Control, emit: Emit
) -> tuple[Begun, Outcome | None]:
    """The endpoint takes less than we thought: send less, once, and remember its limit."""
    try:
        begun = await urgent_hop(requests.shrink, begun, outcome.context_limit)
    except leases.Lost as lost:
        logger.info("%s", lost)
        return begun, None
    except Refused as refused:
        failed = replace(outcome, error_code=refused.code, error_detail=refused.detail)
        return begun, failed
    for frame in begun.frames:
        emit(frame)
    return begun, await _stream(begun, control, Answer(begun, emit))


async def _stream(begun: Begun, control: Control, answer: Answer) -> Outcome | None:
    """The model's part, until it ends or somebody asks for its end; None when the lease is lost."""
    model = asyncio.create_task(answer.receive())
    asked = asyncio.create_task(control.wait())
    keeper = asyncio.create_task(_keep_lease(begun, control, answer))
    try:
        await asyncio.wait({model, asked}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        control.interrupt()
    finally:
        asked.cancel()
        if not model.done():
            model.cancel()
        answer.ended.set()
        await asyncio.gather(model, asked, keeper, return_exceptions=True)
    return _judge(control, answer, model)


def _judge(control: Control, answer: Answer, model: asyncio.Task[None]) -> Outcome | None:
    if control.asked == "lose":
        return None
    if not model.cancelled():
        return _judge_ended(answer, model.exception())
    if control.asked == "stop":
        shown = answer.text[: control.seen]
        return replace(answer.outcome(Status.STOPPED, text=shown), stop_seen=control.seen)
    return answer.outcome(
        Status.INTERRUPTED, code="interrupted", detail="The server that was answering went away."
    )


def _judge_ended(answer: Answer, error: BaseException | None) -> Outcome:
    if isinstance(error, llm.LLMError):
        failed = answer.outcome(Status.FAILED, code=error.code, detail=error.detail)
        return replace(failed, context_limit=error.context_limit)
    if error is not None:
        logger.error("Turn %s failed.", answer.begun.turn_id, exc_info=error)
        return answer.outcome(
            Status.FAILED, code="internal_error", detail="The server failed; its log says why."
        )
    if not answer.text.strip():
        detail = f"The model ended with {answer.finish_reason!r} and without any text."
        return answer.outcome(Status.FAILED, text="", code="empty_answer", detail=detail)
    return answer.outcome(Status.COMPLETED)


async def _keep_lease(begun: Begun, control: Control, answer: Answer) -> None:
    """Renew the lease and store the partial text about once a second; hear what others ask."""
    stored = 0
    while not await _ended(answer):
        text = answer.text if answer.end > stored else ""
        try:
            wish = await urgent_hop(flush, begun, text)
        except leases.Lost as lost:
            logger.info("%s", lost)
            control.lose()
            return
        except (DatabaseError, TextsUnavailable):
            logger.exception("The partial text of turn %s was not stored.", begun.turn_id)
            continue
        stored = max(stored, len(text))
        if wish.stop:
            control.stop(wish.seen)


async def _ended(answer: Answer) -> bool:
    """Wait for the answer's end, at most until the next flush is due."""
    pause = min(FLUSH_SECONDS + answer.end / FLUSH_GROWTH, settings.CHAT_LEASE_SECONDS / 3)
    try:
        await asyncio.wait_for(answer.ended.wait(), pause)
    except TimeoutError:
        return False
    return True


async def _finish(begun: Begun, outcome: Outcome) -> None:
    """Store the end; a database that is away for a moment is tried again."""
    for pause in FINISH_PAUSES:
        try:
            await urgent_hop(finish, begun, outcome)
        except leases.Lost as lost:
            logger.info("%s", lost)
        except TextsUnavailable as unavailable:
            outcome = replace(
                outcome,
                status=Status.FAILED,
                text="",
                error_code="temporary_unavailable",
                error_detail=str(unavailable),
            )
            continue
        except DatabaseError:
            logger.exception("The end of turn %s was not stored; trying again.", begun.turn_id)
            await asyncio.sleep(pause)
            continue
        return
    await urgent_hop(finish, begun, outcome)
