from __future__ import annotations

import base64
import struct
import time
import zlib
from typing import Any

import pytest

from memory.images import (
    size_in_data_url,
    size_in_file,
    size_of_part,
    tokens_by_area,
    tokens_by_tiles,
)
from memory.messages import Message
from memory.tokens import MESSAGE_OVERHEAD, count_part, counter_for


def png(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(3)


def jpeg(width: int, height: int, profile: int = 0) -> bytes:
    segments = b"".join(
        b"\xff\xe2" + struct.pack(">H", size + 2) + bytes(size)
        for size in [60_000] * (profile // 60_000)
    )
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + bytes(10)
    app = b"\xff\xe0" + struct.pack(">H", 16) + bytes(14)
    tables = b"\xff\xff\xc4" + struct.pack(">H", 5) + bytes(3)
    return b"\xff\xd8" + app + segments + tables + frame


def webp(kind: bytes, width: int, height: int) -> bytes:
    if kind == b"VP8X":
        body = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\x2f" + ((height - 1) << 14 | (width - 1)).to_bytes(4, "little") + bytes(5)
    else:
        body = b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + bytes(4) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(address: str, **fields: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address, **fields}}


@pytest.mark.parametrize(
    "data",
    [
        png(1024, 768),
        gif(1024, 768),
        jpeg(1024, 768),
        jpeg(1024, 768, profile=180_000),
        webp(b"VP8X", 1024, 768),
        webp(b"VP8L", 1024, 768),
        webp(b"VP8 ", 1024, 768),
    ],
)
def test_the_size_is_read_from_the_beginning_of_the_file(data: bytes) -> None:
    assert size_in_file(data) == (1024, 768)
    assert size_in_data_url(url(data)) == (1024, 768)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        png(0, 768),
        png(1024, 768)[:20],
        b"GIF89a\x01",
        b"\xff\xd8\xff",
        jpeg(1, 1)[:12],
        b"\xff\xd8\xff\xe0\x00\x00" * 5,
        b"RIFF\x00\x00\x00\x00WEBPVP8?" + bytes(20),
        b"RIFF\x00\x00\x00\x00WEBPVP8X",
        b"<svg/>",
    ],
)
def test_what_states_no_size_has_none(data: bytes) -> None:
    assert size_in_file(data) is None


@pytest.mark.parametrize(
    "address", ["https://x.test/a.png", "data:image/svg+xml,<svg/>", "data:image/png;base64,@@@@@"]
)
def test_an_address_without_readable_data_has_no_size(address: str) -> None:
    assert size_in_data_url(address) is None


@pytest.mark.parametrize(
    ("size", "detail", "tokens"),
    [
        ((1024, 1024), "high", 765),  # OpenAI's own examples
        ((2048, 4096), "high", 1105),
        ((4096, 8192), "low", 85),
        ((512, 512), "auto", 255),
        ((513, 10), "auto", 425),
        ((1, 1), "high", 255),
        ((100_000, 1), "high", 765),
        ((2048, 768), "high", 1445),
        (None, "high", 1445),
        (None, "low", 85),
        ((1024, 1024), "no such detail", 765),
    ],
)
def test_tiles_are_charged_by_openais_rule(
    size: tuple[int, int] | None, detail: str, tokens: int
) -> None:
    assert tokens_by_tiles(size, detail) == tokens


@pytest.mark.parametrize(
    ("size", "tokens"), [((750, 1), 1), ((1000, 750), 1000), ((9_999, 9_999), 1600), (None, 1600)]
)
def test_areas_are_charged_by_the_pixel(size: tuple[int, int] | None, tokens: int) -> None:
    assert tokens_by_area(size) == tokens


def test_a_size_given_beside_the_image_wins() -> None:
    assert size_of_part(image(url(png(9, 9)), width=1024, height=768)) == (1024, 768)
    assert size_of_part({**image("https://x.test/a"), "width": 4, "height": 5}) == (4, 5)
    assert size_of_part(image(url(png(9, 8)), width=0, height=7)) == (9, 8)
    assert size_of_part({"type": "image_url", "image_url": url(png(9, 8))}) == (9, 8)
    assert size_of_part({"type": "image_url"}) is None


def test_an_image_costs_its_tiles_and_not_its_base64() -> None:
    count = counter_for("o200k_base")
    part = image(url(png(1024, 1024) + bytes(3_000_000)), detail="high")
    count(Message.user("warm up"))
    started = time.process_time()
    assert count(Message.user("what is it?", [part])) == MESSAGE_OVERHEAD + 4 + 765
    assert time.process_time() - started < 0.1
    assert count_part({**part, "image_url": {"url": "https://x.test/a.png"}}, "o200k_base") == 1445


def test_an_estimate_takes_the_dearer_of_both_rules() -> None:
    assert count_part(image(url(png(1024, 1024))), "estimate") == 1399
    assert count_part(image(url(png(30, 30))), "estimate") == 255
    assert count_part(image("https://x.test/a.png"), "estimate") == 1600
