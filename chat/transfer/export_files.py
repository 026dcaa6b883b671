"""The files of exports: below MEDIA_ROOT, readable by the server alone, under names that say
nothing."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncIterator, Collection
from io import BufferedWriter
from pathlib import Path
from typing import BinaryIO

from asgiref.sync import sync_to_async
from django.conf import settings

FOLDER = "exports"
PIECE = 256 * 1024  # bytes
ORPHANED_SECONDS = 3_600.0


def new_name() -> str:
    """A place below MEDIA_ROOT that nobody can guess."""
    name = uuid.uuid4().hex
    return f"{FOLDER}/{name[:2]}/{name}"


def path_of(name: str) -> Path:
    return Path(settings.MEDIA_ROOT) / name


def create(name: str) -> BufferedWriter:
    """A new file with mode 0600, open for writing."""
    path = path_of(name)
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def remove(name: str) -> None:
    """What is gone already is no error."""
    if name:
        path_of(name).unlink(missing_ok=True)


async def stream(name: str) -> AsyncIterator[bytes]:
    """The file in pieces; read in threads, so that nobody else waits for the disk."""
    in_thread = sync_to_async(_open, thread_sensitive=False)
    file = await in_thread(name)
    try:
        while piece := await sync_to_async(file.read, thread_sensitive=False)(PIECE):
            yield piece
    finally:
        file.close()


def _open(name: str) -> BinaryIO:
    return path_of(name).open("rb")


def remove_orphans(known: Collection[str]) -> int:
    """Remove files that no job names and that nobody has written to for a while."""
    before = time.time() - ORPHANED_SECONDS
    removed = 0
    for path in path_of(FOLDER).glob("*/*"):
        name = path.relative_to(settings.MEDIA_ROOT).as_posix()
        if name not in known and path.stat().st_mtime < before:
            path.unlink(missing_ok=True)
            removed += 1
    return removed
