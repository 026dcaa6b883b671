"""The text of a running answer and readers at their own pace."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chat.running.feeds import BEHIND_FRAMES, Behind, Feed, Reader


def waiting(reader: Reader, ends_with: type[Exception] = TimeoutError) -> list[dict[str, Any]]:
    """Everything that the reader would be sent now, until `ends_with`."""

    async def drain() -> list[dict[str, Any]]:
        frames = []
        try:
            while True:
                frames.append(await asyncio.wait_for(reader.next(), 0.01))
        except ends_with:
            return frames

    return asyncio.run(drain())


def painted(frames: list[dict[str, Any]]) -> str:
    """What a client that follows the offsets has on its page; it fails on any gap."""
    text = ""
    for frame in frames:
        if frame["type"] == "turn.snapshot":
            text = frame["text"]
        elif frame["type"] == "turn.delta":
            assert frame["offset"] == len(text)
            text += frame["text"]
            assert frame["end"] == len(text)
    return text


@given(st.lists(st.text(min_size=1, max_size=5), max_size=20), st.integers(0, 100))
def test_what_comes_after_any_offset_is_the_rest_of_the_text(
    pieces: list[str], offset: int
) -> None:
    feed = Feed(uuid.uuid4())
    for piece in pieces:
        feed.add(piece)
    whole = "".join(pieces)
    assert feed.text == whole
    assert feed.end == len(whole)
    assert feed.since(min(offset, feed.end)) == whole[offset:]


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=4), st.sampled_from("ntsr")), max_size=30),
)
def test_a_reader_has_the_whole_text_whatever_its_pace(steps: list[tuple[str, str]]) -> None:
    async def follow() -> None:
        feed, reader = Feed(uuid.uuid4()), Reader()
        frames: list[dict[str, Any]] = []
        reader.show(feed)
        for piece, pace in steps:
            feed.add(piece)
            reader.follow(feed)
            if pace == "n":
                frames.append(await reader.next())
            elif pace == "s":
                reader.show(feed)
            elif pace == "t":
                reader.put({"type": "turn.tool"})
        reader.put({"type": "turn.completed", "turn": str(feed.turn_id)})
        while not frames or frames[-1]["type"] != "turn.completed":
            frames.append(await reader.next())
        assert painted(frames) == feed.text

    asyncio.run(follow())


def test_a_slow_reader_gets_one_delta_for_everything_that_waited() -> None:
    feed, reader = Feed(uuid.uuid4()), Reader()
    reader.begin(feed)
    for number in range(1000):
        feed.add(f"{number} ")
        reader.follow(feed)
    frames = waiting(reader)
    assert [frame["type"] for frame in frames] == ["turn.delta"]
    assert painted(frames) == feed.text


def test_offsets_count_code_points() -> None:
    feed, reader = Feed(uuid.uuid4()), Reader()
    reader.begin(feed)
    feed.add("😄中")
    reader.follow(feed)
    assert waiting(reader)[0] == {
        "type": "turn.delta",
        "turn": str(feed.turn_id),
        "offset": 0,
        "end": 2,
        "text": "😄中",
    }


def test_text_comes_before_the_frame_that_was_put_after_it() -> None:
    feed, reader = Feed(uuid.uuid4()), Reader()
    reader.begin(feed)
    feed.add("done")
    reader.follow(feed)
    reader.put({"type": "turn.completed", "turn": str(feed.turn_id)})
    assert [frame["type"] for frame in waiting(reader)] == [
        "turn.delta",
        "turn.completed",
    ]


def test_a_reader_that_lost_frames_is_told_so_after_what_it_still_has() -> None:
    reader = Reader()
    for number in range(BEHIND_FRAMES + 1):
        reader.put({"type": "turn.html", "number": number})

    assert len(waiting(reader, ends_with=Behind)) == BEHIND_FRAMES
