"""What an image costs: its size, read from the first bytes of its file, and what models charge.

OpenAI's rule (GPT-4o) goes by tiles: fitted into 2048 x 2048, then to 768 on the shorter side, and
170 tokens for every 512 x 512 that this takes, 85 besides. Others go by area: a token for about
750 pixels (Claude) or 784 (Qwen-VL), with about 1,600 as the largest.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Mapping
from typing import Any

Size = tuple[int, int]

LOW_DETAIL = 85
_TILE = 170
_LARGEST_TILED = 85 + 8 * _TILE  # 2048 x 768
_PIXELS_OF_A_TOKEN = 750
_LARGEST_BY_AREA = 1_600
_HEAD = 350_000  # characters of base64 that are looked at: a JPEG's size stands behind its profiles
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)


def tokens_by_tiles(size: Size | None, detail: str = "auto") -> int:
    """Tokens by OpenAI's rule; without a size, or a detail that is known, the most there can be."""
    if detail == "low":
        return LOW_DETAIL
    if size is None:
        return _LARGEST_TILED
    width, height = size
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return LOW_DETAIL + _TILE * max(tiles, 1)


def tokens_by_area(size: Size | None) -> int:
    """Tokens of a model that goes by the area of an image."""
    if size is None:
        return _LARGEST_BY_AREA
    return min(math.ceil(size[0] * size[1] / _PIXELS_OF_A_TOKEN), _LARGEST_BY_AREA)


def size_of_part(part: Mapping[str, Any]) -> Size | None:
    """Width and height of a message's image: as they are given beside it, else from its data."""
    image = part.get("image_url")
    fields = image if isinstance(image, Mapping) else {"url": image}
    for given in (fields, part):
        if size := _given_size(given):
            return size
    url = fields.get("url")
    return size_in_data_url(url) if isinstance(url, str) else None


def _given_size(fields: Mapping[str, Any]) -> Size | None:
    width, height = fields.get("width"), fields.get("height")
    if not isinstance(width, int) or not isinstance(height, int):
        return None
    return (width, height) if min(width, height) > 0 else None


def detail_of_part(part: Mapping[str, Any]) -> str:
    image = part.get("image_url")
    detail = image.get("detail") if isinstance(image, Mapping) else None
    return detail if isinstance(detail, str) else "auto"


def size_in_data_url(url: str) -> Size | None:
    """Width and height of the image in a data URL; None when it is none or cannot be read."""
    start = _DATA_URL.match(url)
    if start is None:
        return None
    head = url[start.end() : start.end() + _HEAD]
    try:
        data = base64.b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return None
    return size_in_file(data)


def size_in_file(data: bytes) -> Size | None:
    """Width and height that the beginning of a PNG, JPEG, GIF or WebP file states."""
    try:
        size = _stated_size(data)
    except (struct.error, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _stated_size(data: bytes) -> Size | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data[:6] in (b"GIF87a", b"GIF89a"):
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _size_in_webp(data)
    if data.startswith(b"\xff\xd8"):
        return _size_in_jpeg(data)
    return None


def _size_in_webp(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        return 1 + width, 1 + height
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _size_in_jpeg(data: bytes) -> Size | None:
    """The size in the frame header, which stands behind any number of other segments."""
    position = 2
    while position + 9 <= len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        position += 2 + struct.unpack(">H", data[position + 2 : position + 4])[0]
    return None
