"""A turn that runs in another process, or whose process may be dead, followed from here.

Subscribe, then ask: the owner answers on the same channel with the full text and goes on in
batches. While it is silent the stored partial text is shown, and its lease is looked at: a turn
whose owner is gone is ended here as interrupted.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError

from chat import events, leases, temporary
from chat.hops import Overloaded, hop
from chat.models import ChatMessage, ChatTurn
from chat.running.feeds import Feed

logger = logging.getLogger(__name__)

Frame = dict[str, Any]
ASK_SECONDS = 0.3  # until the owner is asked again
SILENT_SECONDS = 1.0  # after which the stored text is shown
WATCH_SECONDS = 5.0  # between two looks at the lease of a silent owner


@dataclass(frozen=True)
class Look:
    """What the rows say about a turn that is followed from outside."""

    ended: Frame | None
    is_gone: bool
    text: str


def look(session_id: uuid.UUID, turn_id: uuid.UUID) -> Look:
    """Read a turn's state; end it as interrupted when its owner is dead."""
    found = leases.holder(session_id)
    if found is not None and found.turn == turn_id and leases.can_take_over(found):
        leases.settle(session_id, found)
    ended = events.ended(turn_id)
    if ended is not None:
        return Look(ended, False, "")
    answers = list(ChatMessage.objects.filter(turn=turn_id, role=ChatMessage.Role.ASSISTANT))
    temporary.fill(answers)
    text = (answers[0].content or "") if answers else ""
    return Look(None, not ChatTurn.objects.filter(pk=turn_id).exists(), text)


class RemoteTurn:
    """Follows one turn for the readers of this process until it ends or nobody reads it."""

    def __init__(
        self,
        session_id: uuid.UUID,
        turn_id: uuid.UUID,
        show: Callable[[Feed], None],
        follow: Callable[[Feed], None],
        end: Callable[[uuid.UUID, Frame | None], None],
    ) -> None:
        self.session_id = session_id
        self.feed = Feed(turn_id)
        self.feed.is_synced = False
        self._show = show
        self._follow = follow
        self._end = end
        self._heard_at = time.monotonic()
        self._synced = asyncio.Event()
        self.task = asyncio.create_task(self._watch(), name=f"watch {turn_id}")

    @property
    def turn_id(self) -> uuid.UUID:
        return self.feed.turn_id

    # --- What the owner sends -----------------------------------------------------------------

    def on_snapshot(self, text: str, html: list[Frame]) -> None:
        """The whole text from the owner."""
        self._heard_at = time.monotonic()
        was_synced, self.feed.is_synced = self.feed.is_synced, True
        self.feed.html = html
        if len(text) >= self.feed.end:
            self.feed.reset(text)
        if was_synced:
            self._follow(self.feed)
        else:
            self._show(self.feed)
        self._synced.set()

    def on_text(self, offset: int, text: str) -> None:
        """A batch: appended where it fits; a gap is healed by asking again."""
        self._heard_at = time.monotonic()
        if not self.feed.is_synced:
            return
        if offset > self.feed.end:
            self.feed.is_synced = False
            self._synced.clear()
            return
        if new := text[self.feed.end - offset :]:
            self.feed.add(new)
            self._follow(self.feed)

    def on_frame(self, frame: Frame) -> None:
        self._heard_at = time.monotonic()
        if frame["type"] == "turn.html":
            self.feed.html.append(frame)

    async def on_ended(self) -> None:
        """The owner says that it is over: tell what the row says."""
        frame = await hop(events.ended, self.turn_id)
        self.task.cancel()
        self._end(self.turn_id, frame)

    # --- Watching -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            if self.feed.is_synced:
                await self._send("watch")
                await asyncio.sleep(WATCH_SECONDS)
                if time.monotonic() - self._heard_at < WATCH_SECONDS:
                    continue
            elif await self._ask():
                continue
            if await self._look():
                return

    async def _ask(self) -> bool:
        """Ask the owner for the text until it answers; False after a second of silence."""
        deadline = time.monotonic() + SILENT_SECONDS
        while time.monotonic() < deadline:
            await self._send("ask")
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    await self._synced.wait()
            except TimeoutError:
                continue
            return True
        return False

    async def _send(self, kind: str) -> None:
        await events.relay(self.session_id, {"kind": kind, "turn": str(self.turn_id)})

    async def _look(self) -> bool:
        """Look at the rows for a silent owner; True when the turn is over."""
        try:
            seen = await hop(look, self.session_id, self.turn_id)
        except (DatabaseError, Overloaded, temporary.TextsUnavailable) as error:
            logger.warning("Turn %s could not be looked at: %s", self.turn_id, error)
            await asyncio.sleep(SILENT_SECONDS)
            return False
        if seen.ended is not None or seen.is_gone:
            self._end(self.turn_id, seen.ended)
            await self._send("ended")
            return True
        if not self.feed.is_synced:
            self._show_stored(seen.text)
            await asyncio.sleep(SILENT_SECONDS)
        return False

    def _show_stored(self, text: str) -> None:
        if len(text) >= self.feed.end:
            self.feed.reset(text)
            self._follow(self.feed)
