"""Finished blocks of a running answer are told soon, and looked for seldom."""

from __future__ import annotations

import asyncio
import uuid
from itertools import pairwise
from typing import Any

from chat.running.feeds import Feed
from chat.running.local import BlockBreaker

SHORT = "# A title\n\nOne line, then a list:\n\n- one\n- two\n\nAnd the end of it.\n\nMore\n"


async def told(pieces: list[str]) -> tuple[list[dict[str, Any]], list[int]]:
    """The frames for a text that comes in pieces, and how far it had come at each."""
    frames: list[dict[str, Any]] = []
    ends: list[int] = []
    feed = Feed(uuid.uuid4())

    def emit(frame: dict[str, Any]) -> None:
        frames.append(frame)
        ends.append(feed.end)

    breaker = BlockBreaker(emit)
    for piece in pieces:
        feed.add(piece)
        breaker.grown(feed, piece)
        await breaker.close()  # the look that this piece gave rise to is over
    return frames, ends


def test_short_blocks_are_told_long_before_two_hundred_characters() -> None:
    frames, ends = asyncio.run(told([SHORT[at : at + 3] for at in range(0, len(SHORT), 3)]))
    assert frames[0]["html"].startswith("<h3")
    assert ends[0] <= 48
    assert frames[-1]["through"] > 30
    ranges = [(frame["from"], frame["through"]) for frame in frames]
    assert all(one[1] == two[0] for one, two in pairwise(ranges))


def test_nothing_is_looked_at_while_no_line_has_ended(monkeypatch: Any) -> None:
    looks: list[str] = []
    monkeypatch.setattr("chat.running.local.BlockStream.feed", lambda _, text: looks.append(text))
    asyncio.run(told(["word "] * 400))
    assert looks == []
