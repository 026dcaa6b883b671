"""The documents of assistants: checked when they come in, split into pieces, searched by words.

`passages` is a source of references (memory.references). The pieces of an assistant's documents
are indexed in this process at their first search, and anew when a document came or went.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath

from django.conf import settings
from django.db.models import Sum

from chat.models import Assistant, AssistantDocument
from chat.search.pieces import WordIndex
from memory.references import Passage, Question
from memory.text import clean

ENDINGS = (".txt", ".md", ".markdown")
NAME_LENGTH = 200
PIECE_LENGTH = 1_200  # characters at most
MOST_PASSAGES = 20
KEPT_INDEXES = 16  # assistants whose pieces stay in memory

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_CUTS = re.compile(r"\n|(?<=[.!?;])\s|(?<=[。！？；])|\s")


class BadDocument(ValueError):
    """A file that is not taken; the text says why and what to do."""


# --- Coming in ------------------------------------------------------------------------------------


def add(assistant: Assistant, name: str, data: bytes) -> AssistantDocument:
    """Attach a file to an assistant; `BadDocument` when it is not one of readable text."""
    name, text = checked(assistant, name, data)
    content = text.encode()
    return AssistantDocument.objects.create(
        assistant=assistant,
        name=name,
        text=text,
        sha256=sha256(content).hexdigest(),
        size=len(content),
    )


def checked(assistant: Assistant, name: str, data: bytes) -> tuple[str, str]:
    """The name and the text of an upload; `BadDocument` when it is not taken."""
    name = " ".join(clean(PurePath(name.replace("\\", "/")).name).split())
    if not name.lower().endswith(ENDINGS):
        raise BadDocument(f"{name!r} is not a text: its name must end in {', '.join(ENDINGS)}.")
    if len(name) > NAME_LENGTH:
        raise BadDocument(f"The name has {len(name)} characters; at most {NAME_LENGTH} are taken.")
    require_size(len(data))
    _require_room(assistant, len(data))
    text = _decoded(name, data)
    if AssistantDocument.objects.filter(assistant=assistant, name=name).exists():
        raise BadDocument(f"{assistant.slug} already has a document {name!r}; delete it first.")
    return name, text


def require_size(size: int) -> None:
    """`BadDocument` for a file of too many bytes; to be asked before they are read."""
    limit = settings.CHAT_DOCUMENT_MAX_BYTES
    if size > limit:
        raise BadDocument(f"The file has {size:,} bytes; at most {limit:,} are taken.")


def _require_room(assistant: Assistant, size: int) -> None:
    total = AssistantDocument.objects.filter(assistant=assistant).aggregate(n=Sum("size"))["n"] or 0
    limit = settings.CHAT_DOCUMENTS_MAX_BYTES
    if total + size > limit:
        raise BadDocument(
            f"The file has {size:,} bytes and the assistant's other documents {total:,};"
            f" together at most {limit:,} are taken. Delete others first."
        )


def _decoded(name: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadDocument(
            f"{name!r} is not UTF-8: byte {error.start:,} is 0x{data[error.start]:02x}."
            " Save it as UTF-8 and upload it again."
        ) from None
    if "\0" in text:
        raise BadDocument(f"{name!r} holds NUL characters; it is not a text file.")
    if not text.strip():
        raise BadDocument(f"{name!r} holds no text.")
    return text


# --- Pieces ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A stretch of a document below its headings, the outermost first."""

    headings: tuple[str, ...]
    text: str


def split(text: str) -> Iterator[Piece]:
    """The document in pieces of whole paragraphs, as long as PIECE_LENGTH allows.

    A piece never spans two headings; a paragraph that is too long is cut between sentences, else
    between words, else anywhere.
    """
    for headings, paragraphs in _sections(text):
        held = ""
        for paragraph in paragraphs:
            for part in _cut(paragraph):
                if held and len(held) + len(part) + 2 > PIECE_LENGTH:
                    yield Piece(headings, held)
                    held = ""
                held = f"{held}\n\n{part}" if held else part
        if held:
            yield Piece(headings, held)


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The paragraphs below each heading of markdown; what is fenced as code holds none."""
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        level = len(heading[1])
        yield _headings(path), _paragraphs(lines) or _bare(path, level)
        lines = []
        path = [*(each for each in path if each[0] < level), (level, heading[2])]
    yield _headings(path), _paragraphs(lines) or _bare(path, 1)


def _bare(path: Sequence[tuple[int, str]], next_level: int) -> list[str]:
    """A heading that has nothing below it, neither text nor other headings, is text itself."""
    return [path[-1][1]] if path and next_level <= path[-1][0] else []


def _headings(path: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(title for _, title in path)


def _paragraphs(lines: Sequence[str]) -> list[str]:
    found = re.split(r"\n[ \t]*\n", "\n".join(lines))
    return [each.strip("\n") for each in found if each.strip()]


def _cut(paragraph: str) -> Iterator[str]:
    start = 0
    while len(paragraph) - start > PIECE_LENGTH:
        end = start + PIECE_LENGTH
        cuts = [cut.end() for cut in _CUTS.finditer(paragraph, start + PIECE_LENGTH // 2, end)]
        end = cuts[-1] if cuts else end
        if part := paragraph[start:end].strip():
            yield part
        start = end
    if part := paragraph[start:].strip():
        yield part


# --- Searching ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Library:
    """The pieces of one assistant's documents as passages, and their index."""

    version: tuple[tuple[int, str, str], ...]
    passages: tuple[Passage, ...]
    index: WordIndex


_libraries: OrderedDict[str, Library] = OrderedDict()
_lock = threading.Lock()


def passages(question: Question) -> list[Passage] | None:
    """The pieces of the assistant's documents that match, best first; None: it has none."""
    rows = AssistantDocument.objects.filter(assistant__slug=question.assistant).order_by("pk")
    version = tuple(rows.values_list("pk", "name", "sha256"))
    if not version:
        return None
    library = _library(question.assistant, version)
    hits = library.index.search(question.text, MOST_PASSAGES)
    return [library.passages[hit.piece] for hit in hits]


def _library(slug: str, version: tuple[tuple[int, str, str], ...]) -> Library:
    with _lock:
        known = _libraries.get(slug)
        if known is not None and known.version == version:
            _libraries.move_to_end(slug)
            return known
    made = _build(version)
    with _lock:
        _libraries[slug] = made
        _libraries.move_to_end(slug)
        while len(_libraries) > KEPT_INDEXES:
            _libraries.popitem(last=False)
    return made


def _build(version: tuple[tuple[int, str, str], ...]) -> Library:
    """The documents of `version`; one that goes meanwhile is found missing at the next search."""
    found: list[Passage] = []
    indexed: list[str] = []
    for pk, name, _ in version:
        text = AssistantDocument.objects.filter(pk=pk).values_list("text", flat=True).first()
        for number, piece in enumerate(split(text or ""), start=1):
            source = " › ".join([name, *piece.headings])
            found.append(Passage(f"{pk}:{number}", source, piece.text))
            indexed.append(f"{source}\n{piece.text}")
    return Library(version, tuple(found), WordIndex(indexed))
