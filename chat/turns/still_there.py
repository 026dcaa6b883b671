"""What a turn was given to say, as far as it is still there when its next request is written.

Somebody may forget a preference, a digest or another conversation while a model answers or a tool
runs: what was read before is not sent again then, and no copy of it is stored.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import F, Q

from chat import leases
from chat.models import ChatMessage, ChatSession
from chat.turns.history import history_message
from chat.turns.tools import Caller, Source
from memory import digests, preferences
from memory.context import HistoryMessage

if TYPE_CHECKING:
    from chat.turns.orders import Begun
    from chat.turns.requests import TurnMemory


def held(memory: TurnMemory, caller: Caller) -> TurnMemory:
    """Without the preferences and the digest that are gone; the others stay until the transaction
    ends, so that whoever deletes one then finds the copies that it makes."""
    digest, kept = memory.digest, set[int]()
    if memory.preferences:
        kept = preferences.hold([int(each.id) for each in memory.preferences])
    if digest is not None:
        now = digests.of(caller.tenant_id, caller.user_id, hold=True)
        digest = digest if now == digest else None
    told = tuple(each for each in memory.preferences if each.id in kept)
    return replace(memory, preferences=told, digest=digest)


def refreshed(memory: TurnMemory) -> TurnMemory:
    """What the turn began with and did, without texts that were taken out of their rows since."""
    emptied = _emptied([*memory.window.messages, *memory.awaiting, *memory.running])
    return replace(
        memory,
        window=replace(memory.window, messages=_as_stored(memory.window.messages, emptied)),
        awaiting=_as_stored(memory.awaiting, emptied),
        running=_as_stored(memory.running, emptied),
    )


def _emptied(messages: Iterable[HistoryMessage]) -> dict[str, HistoryMessage]:
    """Those of the messages whose text was taken out, as they are now, by their ids."""
    ids = [uuid.UUID(each.id) for each in messages]
    rows = ChatMessage.objects.filter(pk__in=ids).exclude(redacted_at=None)
    return {str(row.pk): history_message(row) for row in rows}


def _as_stored(
    messages: Sequence[HistoryMessage], emptied: dict[str, HistoryMessage]
) -> tuple[HistoryMessage, ...]:
    return tuple(emptied.get(each.id, each) for each in messages)


def hold_with_sources(begun: Begun, sources: Collection[Source], **changes: object) -> None:
    """Claim the session of a turn, and those that are quoted, in the order of everybody who claims
    several: whoever deletes of them waits, or was before us. `leases.Lost`."""
    for each in sorted({begun.session_id, *(source.session_id for source in sources)}):
        if each == begun.session_id:
            leases.hold(begun.session_id, begun.turn_id, **changes)
        else:
            ChatSession.objects.filter(pk=each).update(last_active_at=F("last_active_at"))


def are_there(sources: Collection[Source]) -> bool:
    """Whether every message that is quoted still has its text."""
    if not sources:
        return True
    wanted = Q()
    for each in set(sources):
        wanted |= Q(chat_session=each.session_id, seq=each.seq)
    return ChatMessage.objects.filter(wanted, redacted_at=None).count() == len(set(sources))
