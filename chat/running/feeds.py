"""The text of one running answer, and the readers that follow it at their own pace."""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Any

Frame = dict[str, Any]
ENDED = {"turn.completed", "turn.stopped", "turn.failed", "turn.interrupted"}
BEHIND_FRAMES = 500  # control frames that a reader may be behind before it is closed


class Feed:
    """The text of a turn so far, in pieces; offsets count Unicode code points."""

    def __init__(self, turn_id: uuid.UUID) -> None:
        self.turn_id = turn_id
        self.pieces: list[str] = []
        self.ends: list[int] = []  # the offset at which each piece ends
        self.html: list[Frame] = []  # finished blocks, so that a late reader gets them too
        self.is_synced = True  # False: it runs in another process and its start is not known yet

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, piece: str) -> None:
        self.ends.append(self.end + len(piece))
        self.pieces.append(piece)

    def reset(self, text: str) -> None:
        """Replace everything: the owner's full text."""
        self.pieces, self.ends = ([text], [len(text)]) if text else ([], [])

    def since(self, offset: int) -> str:
        """The text from `offset` on; costs what it returns, not what came before."""
        first = bisect_right(self.ends, offset)
        if first == len(self.pieces):
            return ""
        begin = self.ends[first - 1] if first else 0
        return self.pieces[first][offset - begin :] + "".join(self.pieces[first + 1 :])


class Behind(Exception):
    """A reader takes its frames too slowly."""


@dataclass(frozen=True)
class _Whole:
    """In a reader's queue: all the text that there is when it is sent, and its finished blocks."""

    feed: Feed
    html: tuple[Frame, ...]


class Reader:
    """What one socket has still to be sent, in order.

    Text waits as one mark, however much of it there is: the reader that is slow gets one large
    delta, and nobody waits for it.
    """

    def __init__(self) -> None:
        self._queue: deque[Frame | Feed | _Whole] = deque()
        self._wake = asyncio.Event()
        self._known: set[uuid.UUID] = set()  # turns that this reader follows
        self._sent: dict[uuid.UUID, int] = {}  # how far each of them was sent
        self.is_behind = False

    def put(self, frame: Frame) -> None:
        """Send a frame after everything that waits already."""
        if len(self._queue) >= BEHIND_FRAMES:
            self.is_behind = True
        else:
            self._queue.append(frame)
        self._wake.set()

    def begin(self, feed: Feed) -> None:
        """Follow a turn from its first piece on."""
        self._known.add(feed.turn_id)
        self._sent[feed.turn_id] = 0

    def show(self, feed: Feed) -> None:
        """Send all of the text so far, and go on from there: the answer to an attach or a sync."""
        self._known.add(feed.turn_id)
        self._queue.append(_Whole(feed, tuple(feed.html)))
        self._wake.set()

    def follow(self, feed: Feed) -> None:
        """There is new text: send what this reader lacks of it."""
        if feed.turn_id not in self._known:
            self.show(feed)
        elif not self._queue or self._queue[-1] is not feed:
            self._queue.append(feed)
        self._wake.set()

    async def next(self) -> Frame:
        """The next frame to send; `Behind` when the reader has lost frames."""
        while True:
            while self._queue:
                frame = self._frame(self._queue.popleft())
                if frame is not None:
                    return frame
            if self.is_behind:
                raise Behind(f"{BEHIND_FRAMES} frames were waiting for this reader.")
            self._wake.clear()
            await self._wake.wait()

    def _frame(self, item: Frame | Feed | _Whole) -> Frame | None:
        if isinstance(item, Feed):
            return self._delta(item)
        if isinstance(item, _Whole):
            return self._snapshot(item)
        if item["type"] in ENDED:
            self._known.discard(uuid.UUID(item["turn"]))
            self._sent.pop(uuid.UUID(item["turn"]), None)
        return item

    def _snapshot(self, whole: _Whole) -> Frame:
        feed = whole.feed
        self._sent[feed.turn_id] = feed.end
        self._queue.extendleft(reversed(whole.html))
        return {
            "type": "turn.snapshot",
            "turn": str(feed.turn_id),
            "text": feed.text,
            "end": feed.end,
        }

    def _delta(self, feed: Feed) -> Frame | None:
        offset = self._sent.get(feed.turn_id)
        if offset is None or offset >= feed.end:
            return None
        self._sent[feed.turn_id] = feed.end
        return {
            "type": "turn.delta",
            "turn": str(feed.turn_id),
            "offset": offset,
            "end": feed.end,
            "text": feed.since(offset),
        }
