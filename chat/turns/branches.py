"""Choosing which branch of a conversation is shown and remembered."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import F

from chat import leases
from chat.models import ChatMessage, ChatSession
from chat.turns.orders import Refused


def select(session_id: uuid.UUID, message_id: uuid.UUID) -> uuid.UUID:
    """Show the branch through a message, down to its newest end; the id of that end.

    Raises the memory epoch, so that nothing that was read of the old branch is saved. `Refused`
    while a turn runs; `leases.Gone` when the session was deleted.
    """
    try:
        with transaction.atomic():
            leases.lock_idle(session_id, memory_epoch=F("memory_epoch") + 1)
            return _select(session_id, message_id)
    except leases.Busy:
        raise Refused(
            "turn_in_progress",
            "An answer is still being written; stop it or wait before choosing a branch.",
        ) from None


def _select(session_id: uuid.UUID, message_id: uuid.UUID) -> uuid.UUID:
    messages = ChatMessage.objects.filter(chat_session=session_id)
    chosen = messages.filter(pk=message_id).first()
    if chosen is None:
        raise Refused("no_such_message", f"There is no message {message_id} in this session.")
    down = _newest_descendants(session_id, chosen)
    up, fork_seq = _ancestors_off_path(chosen)
    left = messages.filter(is_on_path=True, seq__gt=fork_seq).update(is_on_path=False)
    joined = messages.filter(pk__in=[*up, *down]).update(is_on_path=True)
    ChatSession.objects.filter(pk=session_id).update(
        head=down[-1], path_count=F("path_count") - left + joined
    )
    return down[-1]


def _newest_descendants(session_id: uuid.UUID, chosen: ChatMessage) -> list[uuid.UUID]:
    """The chosen message, its newest child, that one's newest child, and so on."""
    later = ChatMessage.objects.filter(chat_session=session_id, seq__gt=chosen.seq).order_by("seq")
    newest_child = dict(later.values_list("parent", "pk"))  # a later row replaces an earlier one
    chain = [chosen.pk]
    while (child := newest_child.get(chain[-1])) is not None:
        chain.append(child)
    return chain


def _ancestors_off_path(chosen: ChatMessage) -> tuple[list[uuid.UUID], int]:
    """The ancestors that the shown branch lacks, and the seq of the first one that it has."""
    found = []
    parent = chosen.parent
    while parent is not None and not parent.is_on_path:
        found.append(parent.pk)
        parent = parent.parent
    return found, parent.seq if parent is not None else 0
