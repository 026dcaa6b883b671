"""Everything of one session in this process: who reads it, and what runs in it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings
from redis.exceptions import RedisError

from chat import events
from chat.running.feeds import ENDED, Feed, Reader
from chat.running.local import LocalTurn
from chat.running.remote import RemoteTurn
from chat.turns import Order

logger = logging.getLogger(__name__)

Frame = dict[str, Any]

JOIN_TRIES = 8
JOIN_SECONDS = 0.25  # for a message of our own to come back


class Hub:
    def __init__(self, session_id: uuid.UUID) -> None:
        self.session_id = session_id
        self.readers: set[Reader] = set()
        self.turns: set[LocalTurn] = set()  # that run here, from their order to their end
        self.local: LocalTurn | None = None  # the one among them that was accepted last
        self.remote: RemoteTurn | None = None
        self.starting = 0  # orders whose callers wait for a word
        self._joined: asyncio.Future[None] | None = None
        self._heard = asyncio.Event()  # this process's own word on the session's channel

    @property
    def is_idle(self) -> bool:
        return not self.readers and not self.turns and not self.starting

    @property
    def feed(self) -> Feed | None:
        """The text that readers can be shown at once."""
        if self.local is not None and not self.local.is_over:
            return self.local.feed
        if self.remote is not None and self.remote.feed.is_synced:
            return self.remote.feed
        return None

    # --- Readers ------------------------------------------------------------------------------

    def attach(self, reader: Reader) -> None:
        """From here on the reader misses nothing: all text so far, then everything new."""
        self.readers.add(reader)
        if self.feed is not None:
            reader.show(self.feed)

    def put(self, frame: Frame) -> None:
        for reader in self.readers:
            reader.put(frame)

    def follow(self, feed: Feed) -> None:
        for reader in self.readers:
            reader.follow(feed)

    def show(self, feed: Feed) -> None:
        for reader in self.readers:
            reader.show(feed)

    # --- Turns --------------------------------------------------------------------------------

    def run(self, order: Order) -> LocalTurn:
        turn = LocalTurn(order, self.put, self.follow, self._begun)
        self.turns.add(turn)
        return turn

    def end(self, turn: LocalTurn) -> None:
        """The turn's task is over."""
        self.turns.discard(turn)
        if self.local is turn:
            self.local = None

    def _begun(self, turn: LocalTurn) -> None:
        self.local = turn
        self.leave_remote()
        if turn.feed is not None:
            for reader in self.readers:
                reader.begin(turn.feed)

    def watch(self, turn_id: uuid.UUID) -> None:
        """Follow a turn that does not run in this process."""
        if self.local is not None and self.local.turn_id == turn_id:
            return
        if self.remote is not None:
            if self.remote.turn_id == turn_id:
                return
            self.leave_remote()
        self.remote = RemoteTurn(self.session_id, turn_id, self.show, self.follow, self._end_remote)

    def _end_remote(self, turn_id: uuid.UUID, frame: Frame | None) -> None:
        if self.remote is not None and self.remote.turn_id == turn_id:
            self.remote = None
            if frame is not None:
                self.put(frame)

    def _watches(self, turn: str | None) -> bool:
        return self.remote is not None and turn == str(self.remote.turn_id)

    def leave_remote(self) -> None:
        if self.remote is not None:
            self.remote.task.cancel()
            self.remote = None

    def deliver(self, frame: Frame) -> None:
        """A frame from this process or another, for the readers here."""
        if frame["type"] == "session.deleted":
            if self.local is not None:
                self.local.control.lose()
            self.leave_remote()
        elif frame["type"] in ENDED and self._watches(frame["turn"]):
            self.leave_remote()
        self.put(frame)

    # --- Other processes ----------------------------------------------------------------------

    async def join(self, channel: str | None) -> None:
        """Hear what other processes tell about this session; returns when it is heard.

        Without Redis nothing is heard: what happens in this process goes on, the sweep finds what
        happens elsewhere, and joins again.
        """
        if channel is None or not settings.REDIS_URL:
            return
        joined = self._joined
        if joined is None:
            joined = self._joined = asyncio.ensure_future(self._subscribe(channel))
        try:
            await asyncio.shield(joined)
        except Exception as error:
            if self._joined is joined:
                self._joined = None  # so that the sweep tries again
            if not isinstance(error, OSError | RedisError):
                raise
            events.note_outage(str(error))

    async def _subscribe(self, channel: str) -> None:
        """Subscribe, and wait until a message of our own comes back: only then nothing is missed.

        A layer answers before the subscription holds. Without an answer the sweep of the registry
        finds what was missed.
        """
        await get_channel_layer().group_add(events.group_of(self.session_id), channel)
        for _ in range(JOIN_TRIES):
            await events.relay(self.session_id, {"kind": "joined"})
            try:
                async with asyncio.timeout(JOIN_SECONDS):
                    await self._heard.wait()
            except TimeoutError:
                if self._joined is None:
                    return  # everybody has left meanwhile
                continue
            return
        logger.warning("Session %s is watched, but its channel is silent.", self.session_id)

    def on_own_word(self) -> None:
        """What this process said on the session's channel has come back to it."""
        self._heard.set()

    async def leave(self, channel: str | None) -> None:
        self.leave_remote()
        if channel is not None and self._joined is not None:
            self._joined = None
            self._heard.clear()
            try:
                await get_channel_layer().group_discard(events.group_of(self.session_id), channel)
            except (OSError, RedisError) as error:
                events.note_outage(str(error))

    async def on_relay(self, message: Frame) -> None:
        """A message of another process about this session."""
        kind = message["kind"]
        if kind == "joined":
            return
        if kind == "frame":
            self._on_frame(message["frame"])
            return
        turn_id = uuid.UUID(message["turn"])
        if self.local is not None and self.local.turn_id == turn_id:
            self._on_local(kind, message)
        elif self.remote is not None and self.remote.turn_id == turn_id:
            await self._on_remote(self.remote, kind, message)

    def _on_frame(self, frame: Frame) -> None:
        if self.remote is not None and self._watches(frame.get("turn")):
            self.remote.on_frame(frame)
        self.deliver(frame)
        if frame["type"] == "turn.accepted" and self.readers:
            self.watch(uuid.UUID(frame["turn"]))

    def _on_local(self, kind: str, message: Frame) -> None:
        if self.local is None:
            return
        if kind == "ask":
            self.local.answer_remote()
        elif kind == "watch":
            self.local.keep_remote()
        elif kind == "stop":
            self.local.control.stop(message["seen"])

    async def _on_remote(self, remote: RemoteTurn, kind: str, message: Frame) -> None:
        if kind == "snapshot":
            remote.on_snapshot(message["text"], message["html"])
        elif kind == "text":
            remote.on_text(message["offset"], message["text"])
        elif kind == "ended":
            await remote.on_ended()
