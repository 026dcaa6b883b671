"""A turn that runs in this process: it feeds the readers here and, on request, other processes."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from chat import events
from chat.hops import urgent_hop
from chat.rendering import BlockStream
from chat.running.feeds import Feed
from chat.turns import Begun, Control, Order, Repeated, run

logger = logging.getLogger(__name__)

Frame = dict[str, Any]
BATCH_SECONDS = 0.04  # between two batches of text for other processes
WATCHED_SECONDS = 12.0  # how long one request from another process keeps it fed
RENDER_GROWTH = 0.1  # of the unfinished part: when to look for finished blocks again
RENDER_LEAST = 40  # characters; a block ends where a line does, so one must have ended as well


class LocalTurn:
    """One task that runs a turn. `put` hands a frame, `follow` a feed, to the session's readers."""

    def __init__(
        self,
        order: Order,
        put: Callable[[Frame], None],
        follow: Callable[[Feed], None],
        begun: Callable[[LocalTurn], None],
    ) -> None:
        self.order = order
        self.control = Control()
        self.feed: Feed | None = None
        self.is_over = False  # its end was told to everyone here
        self.accepted: asyncio.Future[uuid.UUID] = asyncio.get_running_loop().create_future()
        self._put = put
        self._follow = follow
        self._begun = begun
        self._relay = Relay(order.session_id)
        self._blocks = BlockBreaker(self._emit_frame)
        self.task = asyncio.create_task(self._drive(), name=f"turn of {order.session_id}")

    @property
    def turn_id(self) -> uuid.UUID | None:
        return self.feed.turn_id if self.feed is not None else None

    @property
    def is_stopping(self) -> bool:
        return self.control.asked is not None

    def answer_remote(self) -> None:
        """Another process watches this turn: give it the whole text, then go on in batches."""
        if self.feed is not None:
            self._relay.watch(self.feed)

    def keep_remote(self) -> None:
        """Another process still watches."""
        self._relay.keep()

    async def _drive(self) -> Begun | Repeated:
        try:
            result = await run(self.order, self.control, self._emit)
            if isinstance(result, Begun):
                await self._announce_end(result.turn_id)
            return result
        finally:
            await self._blocks.close()
            await self._relay.close()

    async def _announce_end(self, turn_id: uuid.UUID) -> None:
        await self._blocks.close()
        frame = await urgent_hop(events.ended, turn_id)
        self.is_over = True
        if frame is not None:
            self._put(frame)
            self._relay.end(turn_id, self.feed)

    def _emit(self, frame: Frame) -> None:
        """What the engine tells: text goes to the feed, everything else on as it is."""
        if frame["type"] == "turn.delta":
            self._emit_text(frame["text"])
            return
        if frame["type"] == "turn.accepted":
            self.feed = Feed(uuid.UUID(frame["turn"]))
            self._begun(self)
            self._emit_frame(frame)
            self.accepted.set_result(self.feed.turn_id)
            return
        self._emit_frame(frame)

    def _emit_text(self, piece: str) -> None:
        if self.feed is None:
            raise RuntimeError("Text came before the turn was accepted.")
        self.feed.add(piece)
        self._follow(self.feed)
        self._relay.text(self.feed)
        self._blocks.grown(self.feed, piece)

    def _emit_frame(self, frame: Frame) -> None:
        if frame["type"] == "turn.html" and self.feed is not None:
            self.feed.html.append(frame)
        self._put(frame)
        self._relay.frame(frame, self.feed)


class BlockBreaker:
    """Renders finished markdown blocks in a thread while the text grows."""

    def __init__(self, emit: Callable[[Frame], None]) -> None:
        self._emit = emit
        self._stream = BlockStream()
        self._task: asyncio.Task[None] | None = None
        self._finished = 0  # where the last finished block ends
        self._seen = 0  # how far the text went when it was last looked at
        self._has_line = False  # whether a line has ended since

    def grown(self, feed: Feed, piece: str) -> None:
        self._has_line = self._has_line or "\n" in piece
        unfinished = self._seen - self._finished
        if feed.end - self._seen < max(RENDER_LEAST, unfinished * RENDER_GROWTH):
            return
        if self._has_line and (self._task is None or self._task.done()):
            self._seen = feed.end
            self._has_line = False
            self._task = asyncio.create_task(self._render(feed.turn_id, feed.text))

    async def _render(self, turn_id: uuid.UUID, text: str) -> None:
        try:
            blocks = await asyncio.to_thread(self._stream.feed, text)
        except Exception:
            logger.exception("Blocks of turn %s were not rendered; its text is shown.", turn_id)
            return
        for block in blocks:
            self._finished = block.through
            self._emit(
                {
                    "type": "turn.html",
                    "turn": str(turn_id),
                    "from": block.from_,
                    "through": block.through,
                    "html": block.html,
                }
            )

    async def close(self) -> None:
        if self._task is not None:
            await self._task


class Relay:
    """The way to other processes: one message after another, text in batches while they watch."""

    def __init__(self, session_id: uuid.UUID) -> None:
        self._session_id = session_id
        self._outbox: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._send_all())
        self._batch: asyncio.TimerHandle | None = None
        self._sent = 0
        self._until = 0.0

    def send(self, message: Frame) -> None:
        self._outbox.put_nowait(message)

    def frame(self, frame: Frame, feed: Feed | None) -> None:
        """A frame, after the text that came before it."""
        if feed is not None:
            self._send_batch(feed)
        self.send({"kind": "frame", "frame": frame})

    def end(self, turn_id: uuid.UUID, feed: Feed | None) -> None:
        """The turn is over: the last text, then word of it; the row says how it ended."""
        if feed is not None:
            self._send_batch(feed)
        self.send({"kind": "ended", "turn": str(turn_id)})

    def keep(self) -> None:
        self._until = time.monotonic() + WATCHED_SECONDS

    def watch(self, feed: Feed) -> None:
        self.keep()
        self._sent = feed.end
        self.send(
            {
                "kind": "snapshot",
                "turn": str(feed.turn_id),
                "text": feed.text,
                "end": feed.end,
                "html": list(feed.html),
            }
        )

    def text(self, feed: Feed) -> None:
        """There is new text: send it within BATCH_SECONDS if anybody watches elsewhere."""
        if self._batch is None and time.monotonic() < self._until:
            loop = asyncio.get_running_loop()
            self._batch = loop.call_later(BATCH_SECONDS, self._send_batch, feed)

    def _send_batch(self, feed: Feed) -> None:
        if self._batch is not None:
            self._batch.cancel()
            self._batch = None
        if time.monotonic() >= self._until or feed.end <= self._sent:
            return
        offset, self._sent = self._sent, feed.end
        self.send(
            {
                "kind": "text",
                "turn": str(feed.turn_id),
                "offset": offset,
                "end": feed.end,
                "text": feed.since(offset),
            }
        )

    async def _send_all(self) -> None:
        while (message := await self._outbox.get()) is not None:
            await events.relay(self._session_id, message)

    async def close(self) -> None:
        """Send what waits, then end."""
        if self._batch is not None:
            self._batch.cancel()
        self._outbox.put_nowait(None)
        await self._task
