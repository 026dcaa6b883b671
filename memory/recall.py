"""All memory reads of one turn: the window, summary or digest, and the user's preferences."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from memory import digests, preferences, snapshots, summaries
from memory.awaiting import read_awaiting
from memory.blocks import DigestText, PreferenceText, SummaryText
from memory.context import IDLE, HistoryMessage, Window, sent_tokens
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
    """What the limits hold, a summary or not: the next snapshot is carried on from it."""
    preferences: tuple[PreferenceText, ...]
    summary: SummaryText | None = None
    digest: DigestText | None = None
    awaiting: tuple[HistoryMessage, ...] = ()
    """What the limits evicted and no summary covers yet, the newest of it."""


def recall(
    reader: HistoryReader,
    session: SessionState,
    owner: Owner,
    policy: MemoryPolicy,
    question: str = "",
    *,
    room: int | None = None,
) -> Recalled:
    """The window, from the snapshot if it is current and else from the history, and the rest.

    `question` is the current input, for which preferences are ranked; `room` is what a request may
    hold, in tokens. With memory off nothing is read.
    """
    if not policy.enabled:
        return Recalled(off(session, policy), ())
    window, why = snapshots.read(session, policy)
    if window is None:
        window = rebuild(reader, session, policy, why)
    summary, awaiting = _summarized(reader, session, policy, window, room)
    digest = None
    if policy.use_digest and summary is None and not _has_lost(window):
        digest = _digest(session, owner)
    remembered = preferences.active_for(owner, question) if policy.use_preferences else ()
    return Recalled(window, remembered, summary, digest, awaiting)


def _summarized(
    reader: HistoryReader,
    session: SessionState,
    policy: MemoryPolicy,
    window: Window,
    room: int | None,
) -> tuple[SummaryText | None, tuple[HistoryMessage, ...]]:
    """The summary that may be used, and what the window lost that it does not cover.

    That gets half of what the window leaves of `room`, so that a long backlog leaves some of it
    to preferences and passages.
    """
    if not policy.summarize:
        return None, ()
    summary = summaries.usable(session.id, forget_line=session.forget_line, reader=reader)
    covered = summary.covers_through if summary else 0
    share = None
    if room is not None:
        held = sum(sent_tokens(each, policy.encoding) for each in window.messages)
        share = max(room - held, 0) // 2
    return summary, read_awaiting(reader, window, session, policy, covered, share)


def _has_lost(window: Window) -> bool:
    """Whether the session is older than its window; a cleared one begins anew."""
    return bool(window.before_seq) or any(each.reason == IDLE for each in window.left_out)


def _digest(session: SessionState, owner: Owner) -> DigestText | None:
    """The user's digest, unless it holds words of this session, of which no summary stands."""
    found = digests.of(owner.tenant_id, owner.user_id)
    return None if found is None or str(session.id) in found.sources else found


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
