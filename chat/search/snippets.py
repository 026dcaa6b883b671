"""A few words of a message around what was found in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from memory.words import places

LENGTH = 200  # characters
BEFORE = 40  # of them, at most, before the first hit
LOOKED_AT = 50_000  # characters of a message
MOST_PLACES = 500
CUT = "…"
JOINERS = "\u200c\u200d"


@dataclass(frozen=True)
class Piece:
    """A stretch of the text, and whether it is what was asked for."""

    text: str
    hit: bool


def snippet(text: str, words: Collection[str], length: int = LENGTH) -> list[Piece]:
    """The stretch of `text` with the most of `words`, the words marked; else its beginning.

    It has about `length` characters.

    The pieces put together are a part of `text` as it stands, but for "…" where it was cut.
    """
    found = _joined(islice(places(text[:LOOKED_AT], words), MOST_PLACES))
    start, end = _window(text, found, length)
    pieces = [Piece(CUT, hit=False)] if start else []
    at = start
    for first, last in found:
        first, last = max(first, at), min(last, end)
        if first >= last:
            continue
        pieces += [Piece(text[at:first], hit=False), Piece(text[first:last], hit=True)]
        at = last
    pieces.append(Piece(text[at:end], hit=False))
    if end < len(text):
        pieces.append(Piece(CUT, hit=False))
    return _compact(pieces)


def _joined(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places that touch or overlap as one."""
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _window(text: str, found: Sequence[tuple[int, int]], length: int) -> tuple[int, int]:
    """Where to cut: the `length` characters that hold the most places."""
    best, most = 0, 0
    last = 0
    for first, (start, _) in enumerate(found):
        while last < len(found) and found[last][0] < start + length - BEFORE:
            last += 1
        if last - first > most:
            best, most = start, last - first
    start = _boundary(text, max(0, best - BEFORE), best)
    return start, _boundary(
        text, min(len(text), start + length), min(len(text), start + 2 * length)
    )


def _boundary(text: str, at: int, latest: int) -> int:
    """The first place from `at` on, up to 20 characters, where a word begins; else near `at`."""
    if at == 0 or at >= len(text):
        return at
    for place in range(at, min(at + 20, latest)):
        if text[place - 1].isspace():
            return place
    while at < latest and _is_inside_character(text, at):
        at += 1
    return at


def _is_inside_character(text: str, at: int) -> bool:
    """Whether a cut here would part a sign from its accents, or join two by halves."""
    following = text[at]
    return (
        unicodedata.category(following).startswith("M")
        or following in JOINERS
        or text[at - 1] in JOINERS
        or "\U0001f3fb" <= following <= "\U0001f3ff"  # colours of skin
    )


def _compact(pieces: Sequence[Piece]) -> list[Piece]:
    """Without empty pieces, and neighbours of a kind as one."""
    kept: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if kept and kept[-1].hit == piece.hit:
            kept[-1] = Piece(kept[-1].text + piece.text, piece.hit)
        else:
            kept.append(piece)
    return kept
