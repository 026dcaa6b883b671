"""The contract of a snapshot store: the current window of a memory id, replaced whole."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from memory.messages import Message

MEMORY_ID_LENGTH = 191

ATTEMPTS = 100
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds


@dataclass(frozen=True)
class Snapshot:
    """The stored window of one memory id; `revision` grows with every replacement."""

    memory_id: str
    messages: tuple[Message, ...]
    revision: int


class SnapshotStore(Protocol):
    """Where windows are kept.

    Errors of what lies beneath propagate: an unavailable store is never an empty history. A single
    message that cannot be read comes back as its plain text; a window that cannot be read at all
    raises RebuildNeeded.

    A store may have `async in_thread(call, *arguments)`, by which ChatMemory's async methods run
    what they do with it; without one that happens in asyncio's threads.
    """

    def load(self, memory_id: str) -> Snapshot | None:
        """The stored window, or None when there is none."""

    def replace(
        self,
        memory_id: str,
        messages: Iterable[Message],
        *,
        expected_revision: int | None = None,
    ) -> Snapshot:
        """Store `messages` in place of what is there; an empty list replaces too.

        With `expected_revision` (0: nothing stored) only if the store still has that revision,
        else RevisionConflict and nothing is written. Of two writers that expect the same revision
        one gets through.
        """

    def delete(self, memory_id: str) -> None:
        """Forget the window; deleting what is not there is fine."""


class RebuildNeeded(Exception):
    """What is stored for an id is no window that this version reads.

    Build the window again from the history and replace it. `why` is "version" or "unreadable", as
    in the source of a rebuilt window.
    """

    def __init__(self, memory_id: str, why: str) -> None:
        self.memory_id, self.why = memory_id, why
        problem = {"version": "is of another format version"}.get(why, "cannot be read")
        super().__init__(
            f"what is stored for memory {memory_id!r} {problem}; build it again from the history"
            " and replace it, or clear it"
        )


class RevisionConflict(Exception):
    """Somebody else replaced the window in between."""

    def __init__(self, memory_id: str, expected: int, found: int) -> None:
        self.memory_id, self.expected, self.found = memory_id, expected, found
        super().__init__(
            f"memory {memory_id!r} has revision {found}, expected {expected}: it was written"
            " meanwhile; load it again"
        )


def next_revision(found: int) -> int:
    """The revision that follows `found`, 0 being none.

    A new window begins at a random one: a writer that read an earlier window of the same id, which
    was deleted meanwhile, must not take the new one for it and bring cleared text back.
    """
    return found + 1 if found else secrets.randbelow(2**40) + 1


def attempts() -> Iterator[int]:
    """Count the attempts of a write that others may get ahead of: ATTEMPTS, with pauses between.

    The pauses grow and vary, so that many writers do not keep getting in each other's way.
    """
    for number in range(ATTEMPTS):
        if number:
            longest = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2 ** min(number, 10))
            time.sleep(random.uniform(0, longest))
        yield number


def require_memory_id(memory_id: object) -> str:
    """`memory_id` itself, or an error that says what is wrong with it."""
    if not isinstance(memory_id, str):
        raise TypeError(
            f"memory id must be a str, not {type(memory_id).__name__} {memory_id!r}:"
            ' 1 and "1" are different ids'
        )
    if not memory_id or memory_id != memory_id.strip():
        raise ValueError(f"memory id {memory_id!r} must not be blank or have blanks around it")
    if len(memory_id) > MEMORY_ID_LENGTH:
        raise ValueError(
            f"memory id has {len(memory_id)} characters; at most {MEMORY_ID_LENGTH} are allowed"
        )
    return memory_id
