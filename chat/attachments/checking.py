"""What a file really is: PNG, JPEG, GIF or WebP from its first byte to its last, or refused.

The name and the type that the sender states mean nothing here. Nothing is decoded, so no image can
be a bomb for this server; its structure is followed to the end, and whatever stands behind the end
(an archive, a page) is cut off and not kept.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory.images import size_in_file

LONGEST_SIDE = 10_000
MOST_PIXELS = 50_000_000

PNG = b"\x89PNG\r\n\x1a\n"
SOI, EOI = b"\xff\xd8", 0xD9
SOS = 0xDA
ALONE = {0x01, *range(0xD0, 0xD8)}  # JPEG markers without a length


class BadImage(Exception):
    """The file is not taken; `code` is stable, the text says what to do."""

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.more = more


class _Broken(Exception):
    """The file ends, or goes wrong, before its image does."""


@dataclass(frozen=True)
class Image:
    """An image as it will be stored: `data` ends where the image does."""

    data: bytes
    content_type: str
    width: int
    height: int


def check(data: bytes, most_bytes: int) -> Image:
    """The image in `data`; `BadImage` for everything else."""
    if not data:
        raise BadImage("empty_file", "The file is empty.")
    if len(data) > most_bytes:
        raise BadImage(
            "file_too_large",
            f"The image has {len(data):,} bytes; {most_bytes:,} are allowed. Make it smaller.",
            size=len(data),
            limit=most_bytes,
        )
    content_type, end_of = _kind(data)
    try:
        image = data[: end_of(data)]
    except (_Broken, struct.error, IndexError) as error:
        raise BadImage(
            "broken_image",
            f"The {_short(content_type)} image is damaged or not complete; send it again.",
        ) from error
    return Image(image, content_type, *_size(image, content_type))


def _kind(data: bytes) -> tuple[str, Callable[[bytes], int]]:
    if data.startswith(PNG):
        return "image/png", _end_of_png
    if data.startswith(SOI + b"\xff"):
        return "image/jpeg", _end_of_jpeg
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif", _end_of_gif
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", _end_of_webp
    raise BadImage(
        "unsupported_type",
        "Only PNG, JPEG, GIF and WebP images can be attached; this file is none of them,"
        " whatever its name says.",
    )


def _size(data: bytes, content_type: str) -> tuple[int, int]:
    size = size_in_file(data)
    if size is None:
        raise BadImage("broken_image", f"The {_short(content_type)} image does not state its size.")
    width, height = size
    if max(size) > LONGEST_SIDE or width * height > MOST_PIXELS:
        raise BadImage(
            "too_many_pixels",
            f"The image has {width:,} x {height:,} pixels; at most {LONGEST_SIDE:,} on a side and"
            f" {MOST_PIXELS:,} in all are allowed. Make it smaller.",
            width=width,
            height=height,
        )
    return size


def _short(content_type: str) -> str:
    return {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF"}.get(content_type, "WebP")


# --- Where each kind of image ends ----------------------------------------------------------------


def _end_of_png(data: bytes) -> int:
    """Chunks with their checksums, from IHDR over IDAT to IEND."""
    kinds: set[bytes] = set()
    position = len(PNG)
    while True:
        (length,) = struct.unpack_from(">I", data, position)
        kind = data[position + 4 : position + 8]
        end = position + 12 + length
        if end > len(data) or (not kinds and kind != b"IHDR"):
            raise _Broken
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        if zlib.crc32(data[position + 4 : end - 4]) != checksum:
            raise _Broken
        kinds.add(kind)
        position = end
        if kind == b"IEND":
            break
    if b"IDAT" not in kinds:
        raise _Broken
    return position


def _end_of_jpeg(data: bytes) -> int:
    """Segments by their lengths, and the coded data behind each start of scan."""
    position, has_scan = 2, False
    while True:
        if data[position] != 0xFF:
            raise _Broken
        while data[position] == 0xFF:  # fill bytes
            position += 1
        marker = data[position]
        position += 1
        if marker == EOI:
            if not has_scan:
                raise _Broken
            return position
        if marker in ALONE:
            continue
        (length,) = struct.unpack_from(">H", data, position)
        if length < 2:
            raise _Broken
        position += length
        if marker == SOS:
            has_scan = True
            position = _end_of_scan(data, position)


def _end_of_scan(data: bytes, position: int) -> int:
    """The next marker that is neither a stuffed 0xFF nor a restart."""
    while True:
        position = data.find(b"\xff", position)
        if position < 0:
            raise _Broken
        following = data[position + 1]
        if following not in (0x00, 0xFF) and not 0xD0 <= following <= 0xD7:
            return position
        position += 1 if following == 0xFF else 2


def _end_of_gif(data: bytes) -> int:
    """Blocks up to the trailer, with at least one image among them."""
    position, has_image = 13 + _color_table(data[10]), False
    while True:
        block = data[position]
        if block == 0x3B:
            if not has_image:
                raise _Broken
            return position + 1
        if block == 0x21:
            position += 2
        elif block == 0x2C:
            has_image = True
            position += 10 + _color_table(data[position + 9]) + 1  # and the size of a code
        else:
            raise _Broken
        position = _end_of_sub_blocks(data, position)


def _color_table(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _end_of_sub_blocks(data: bytes, position: int) -> int:
    while length := data[position]:
        position += 1 + length
    return position + 1


def _end_of_webp(data: bytes) -> int:
    """As long as its RIFF header says, with image data among its chunks."""
    (length,) = struct.unpack_from("<I", data, 4)
    end, position, has_image = 8 + length, 12, False
    if end > len(data):
        raise _Broken
    while position + 8 <= end:
        kind = data[position : position + 4]
        (size,) = struct.unpack_from("<I", data, position + 4)
        if position + 8 + size > end:
            raise _Broken
        has_image = has_image or kind in (b"VP8 ", b"VP8L", b"ANMF")
        position += 8 + size + size % 2
    if not has_image:
        raise _Broken
    return end
