"""The contract of a snapshot store: the current window of a memory id, replaced whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from memory.messages import Message

MEMORY_ID_LENGTH = 191


@dataclass(frozen=True)
class Snapshot:
    """The stored window of one memory id; `revision` grows with every replacement."""

    memory_id: str
    messages: tuple[Message, ...]
    revision: int


class SnapshotStore(Protocol):
    """Where windows are kept.

    Errors of what lies beneath propagate: an unavailable store is never an empty history.
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
        else RevisionConflict and nothing is written.
        """

    def delete(self, memory_id: str) -> None:
        """Forget the window; deleting what is not there is fine."""


class RevisionConflict(Exception):
    """Somebody else replaced the window in between."""

    def __init__(self, memory_id: str, expected: int, found: int) -> None:
        self.memory_id, self.expected, self.found = memory_id, expected, found
        super().__init__(
            f"memory {memory_id!r} has revision {found}, expected {expected}: it was written"
            " meanwhile; load it again"
        )


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
