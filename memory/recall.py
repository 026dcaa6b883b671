"""All memory reads of one turn: the window of the history and the user's preferences."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from memory import preferences, snapshots
from memory.blocks import PreferenceText
from memory.context import HistoryMessage, Window
from memory.history import HistoryReader, MemoryPolicy, SessionState, extend, off, rebuild
from memory.preferences import Owner

__all__ = [
    "HistoryReader",
    "MemoryPolicy",
    "Owner",
    "Recalled",
    "SessionState",
    "recall",
    "snapshot_after_turn",
]


@dataclass(frozen=True)
class Recalled:
    """What the next request may be given of the past."""

    window: Window
    preferences: tuple[PreferenceText, ...]


def recall(
    reader: HistoryReader, session: SessionState, owner: Owner, policy: MemoryPolicy
) -> Recalled:
    """The window, from the snapshot if it is current and else from the history, and preferences.

    With memory off nothing is read.
    """
    if not policy.enabled:
        return Recalled(off(session, policy), ())
    window, why = snapshots.read(session, policy)
    if window is None:
        window = rebuild(reader, session, policy, why)
    remembered = preferences.active_for(owner) if policy.use_preferences else ()
    return Recalled(window, remembered)


def snapshot_after_turn(
    session_id: uuid.UUID,
    state: SessionState,
    policy: MemoryPolicy,
    window: Window,
    added: Sequence[HistoryMessage],
) -> None:
    """Replace the snapshot by `window` carried on by `added`; inside the turn's last transaction.

    `state`, `policy` and `window` are those that the turn began with, `added` every message of
    the chosen branch since then, the input first. With memory off nothing is written.
    """
    if session_id != state.id:
        raise ValueError(f"session {session_id} is not the one of the state, {state.id}")
    if not policy.enabled:
        return
    through_seq = max([state.newest_seq, *(each.seq for each in added)])
    snapshots.save(state, policy, extend(window, added, state, policy), through_seq)
