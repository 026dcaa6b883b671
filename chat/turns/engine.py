"""A turn from its order to its end: begin, stream, finish.

`run` is a coroutine that `chat.running` starts as a task of its own, so that nobody who watches
can end it by going away. No transaction is open while the model answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError

from chat import leases, llm
from chat.hops import hop, urgent_hop
from chat.models import ChatTurn
from chat.temporary import TextsUnavailable
from chat.turns import requests, rounds
from chat.turns.answers import Answer, Emit
from chat.turns.begin import begin
from chat.turns.endings import finish, flush
from chat.turns.orders import Begun, Order, Outcome, Refused, Repeated
from chat.turns.tools import Result
from memory.messages import ToolCall

logger = logging.getLogger(__name__)

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
    begun, outcome = await _converse(begun, control, emit)
    if outcome is not None:
        await asyncio.shield(_finish(begun, outcome))
    return begun


class _Over(Exception):
    """The turn has come to its end between two requests; without an outcome the lease is lost."""

    def __init__(self, begun: Begun, outcome: Outcome | None) -> None:
        self.begun = begun
        self.outcome = outcome


async def _converse(begun: Begun, control: Control, emit: Emit) -> tuple[Begun, Outcome | None]:
    """One request after another, until an answer asks for no tools; no outcome: lease lost."""
    earlier: Answer | None = None
    try:
        while True:
            answer = Answer(begun, emit, earlier)
            outcome = await _stream(begun, control, answer)
            if outcome is None:
                return begun, None
            calls = _calls(begun, answer, outcome)
            if calls:
                begun = await _use_tools(begun, control, answer, outcome, calls)
                earlier = answer
            elif outcome.was_too_long and control.asked is None and not begun.was_shrunk:
                begun = await _step(begun, outcome, requests.shrink, outcome.context_limit)
            else:
                return begun, outcome
            for frame in begun.frames:
                emit(frame)
    except _Over as over:
        return over.begun, over.outcome


async def _step(begun: Begun, outcome: Outcome, step: Callable[..., Begun], *args: Any) -> Begun:
    """Store what came and prepare what follows; `_Over` when nothing can follow."""
    try:
        return await urgent_hop(step, begun, *args)
    except leases.Lost as lost:
        logger.info("%s", lost)
        raise _Over(begun, None) from None
    except Refused as refused:
        failed = replace(
            outcome, status=Status.FAILED, error_code=refused.code, error_detail=refused.detail
        )
        raise _Over(begun, failed) from None


def _calls(begun: Begun, answer: Answer, outcome: Outcome) -> tuple[ToolCall, ...]:
    """The calls of a whole answer, where tools were offered."""
    if not begun.tools or outcome.status != Status.COMPLETED:
        return ()
    return answer.calls.whole()


async def _use_tools(
    begun: Begun, control: Control, answer: Answer, outcome: Outcome, calls: tuple[ToolCall, ...]
) -> Begun:
    """Carry out the calls, store them with their results in any case, and prepare what follows."""
    if control.asked is not None:
        raise _Over(begun, _cut_off(control, answer))
    if begun.rounds > settings.CHAT_TOOL_ROUNDS:
        detail = f"The model went on asking for tools after {settings.CHAT_TOOL_ROUNDS} times."
        failed = answer.outcome(Status.FAILED, code="too_many_tool_calls", detail=detail)
        raise _Over(begun, failed)
    results: list[Result] = []
    work = rounds.carry_out(begun, calls, results, answer.emit)
    task = await _watched(work, begun, control, answer)
    if control.asked == "lose":
        raise _Over(begun, None)
    used = rounds.Round(outcome, calls, rounds.completed(calls, results))
    begun = await _step(begun, outcome, rounds.store, used)
    nothing_more = Answer(begun, answer.emit, answer)
    if control.asked is not None:
        raise _Over(begun, _cut_off(control, nothing_more))
    if error := task.exception():
        raise _Over(begun, _failed(nothing_more, error))
    return await _step(begun, nothing_more.outcome(Status.FAILED), requests.follow)


async def _stream(begun: Begun, control: Control, answer: Answer) -> Outcome | None:
    """The model's part, until it ends or somebody asks for its end; None when the lease is lost."""
    task = await _watched(answer.receive(), begun, control, answer)
    if control.asked == "lose":
        return None
    return _cut_off(control, answer) if task.cancelled() else _ended(answer, task.exception())


async def _watched(
    work: Coroutine[Any, Any, None], begun: Begun, control: Control, answer: Answer
) -> asyncio.Task[None]:
    """Do `work` while the lease is kept, until it ends or somebody asks for its end."""
    task = asyncio.create_task(work)
    ended = asyncio.Event()
    asked = asyncio.create_task(control.wait())
    keeper = asyncio.create_task(_keep_lease(begun, control, answer, ended))
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        control.interrupt()
    finally:
        asked.cancel()
        if not task.done():
            task.cancel()
        ended.set()
        await asyncio.gather(task, asked, keeper, return_exceptions=True)
    return task


def _cut_off(control: Control, answer: Answer) -> Outcome:
    """The outcome of a turn that somebody asked to end."""
    if control.asked == "stop":
        shown = answer.seen(control.seen)
        return replace(answer.outcome(Status.STOPPED, text=shown), stop_seen=control.seen)
    return answer.outcome(
        Status.INTERRUPTED, code="interrupted", detail="The server that was answering went away."
    )


def _ended(answer: Answer, error: BaseException | None) -> Outcome:
    """The outcome of an answer that came to its end by itself."""
    if isinstance(error, llm.LLMError):
        failed = answer.outcome(Status.FAILED, code=error.code, detail=error.detail)
        return replace(failed, context_limit=error.context_limit)
    if error is not None:
        return _failed(answer, error)
    asks_for_tools = bool(answer.begun.tools and answer.calls)
    if not answer.text.strip() and not asks_for_tools:
        detail = f"The model ended with {answer.finish_reason!r} and without any text."
        return answer.outcome(Status.FAILED, text="", code="empty_answer", detail=detail)
    return answer.outcome(Status.COMPLETED)


def _failed(answer: Answer, error: BaseException) -> Outcome:
    logger.error("Turn %s failed.", answer.begun.turn_id, exc_info=error)
    return answer.outcome(
        Status.FAILED, code="internal_error", detail="The server failed; its log says why."
    )


async def _keep_lease(begun: Begun, control: Control, answer: Answer, ended: asyncio.Event) -> None:
    """Renew the lease and store the partial text about once a second; hear what others ask."""
    stored = 0
    while not await _has_ended(ended, answer.end):
        text = answer.text if len(answer.text) > stored else ""
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


async def _has_ended(ended: asyncio.Event, length: int) -> bool:
    """Wait for the end, at most until the next flush is due."""
    pause = min(FLUSH_SECONDS + length / FLUSH_GROWTH, settings.CHAT_LEASE_SECONDS / 3)
    try:
        async with asyncio.timeout(pause):
            await ended.wait()
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
