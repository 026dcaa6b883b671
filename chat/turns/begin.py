"""The first half of a turn: one function, one transaction, committed before the model is called.

Take the lease, settle a dead predecessor, answer a repeated `client_id`, store the input with the
next `seq`, read what the request needs, assemble it, record it. Only passages are found before.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction
from django.db.models import F

from chat import leases, temporary
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns import inputs, references, requests
from chat.turns.orders import Begun, Order, Refused, Repeated
from memory.references import References

TAKEOVERS = 3  # dead predecessors that one order may settle before it is refused


class _KnownClientId(Exception):
    def __init__(self, turn_id: uuid.UUID) -> None:
        self.turn_id = turn_id


def begin(order: Order) -> Begun | Repeated:
    """Begin a turn, or find the one that this `client_id` began; `Refused` stores nothing."""
    try:
        passages = references.look_up(order)
    except temporary.TextsUnavailable as unavailable:
        raise Refused("temporary_unavailable", str(unavailable)) from unavailable
    for _ in range(TAKEOVERS):
        try:
            with transaction.atomic():
                return _begin(order, passages)
        except _KnownClientId as known:
            return Repeated(known.turn_id)
        except temporary.TextsUnavailable as unavailable:
            raise Refused("temporary_unavailable", str(unavailable)) from unavailable
        except leases.Busy as busy:
            found = leases.holder(order.session_id)
            if found is not None and found.turn == busy.turn:
                if not leases.can_take_over(found):
                    break
                leases.settle(order.session_id, found)
    raise Refused(
        "turn_in_progress",
        "An answer is still being written in this session; stop it or wait for its end.",
    )


def _begin(order: Order, passages: References) -> Begun:
    turn_id = uuid.uuid4()
    _take(order, turn_id)
    chat_session = ChatSession.objects.select_related("assistant__endpoint", "head__turn").get(
        pk=order.session_id
    )
    placed = inputs.place(order, chat_session)
    turn = _create_turn(order, turn_id, chat_session, placed.message)
    begun = requests.prepare(chat_session, turn, placed, passages)
    if not begun.memory.policy.enabled:
        _leave_unsearched(order.session_id, placed.message.seq)
    return begun


def _leave_unsearched(session_id: uuid.UUID, seq: int) -> None:
    """What is said while memory is off is not searched for preferences, when it is on again
    neither."""
    row = ChatSession.objects.filter(pk=session_id, extracted_through__lt=seq)
    row.update(extracted_through=seq)


def _take(order: Order, turn_id: uuid.UUID) -> None:
    """Become the running turn; `_KnownClientId`, `Busy`, or `Refused` when the session is gone."""
    grown: dict[str, Any] = {"turn_count": F("turn_count") + 1}
    if order.kind in inputs.STORED:
        counters = ("next_seq", "message_count", "path_count")
        grown |= {name: F(name) + 1 for name in counters}
    taken = leases.take(order.session_id, turn_id, **grown)
    known = ChatTurn.objects.filter(chat_session=order.session_id, client_id=order.client_id)
    if (known_id := known.values_list("pk", flat=True).first()) is not None:
        raise _KnownClientId(known_id)
    if taken:
        return
    found = leases.holder(order.session_id)
    if found is not None:
        raise leases.Busy(found.turn, found.owner)
    if not ChatSession.objects.filter(pk=order.session_id).exists():
        raise Refused("session_deleted", "This conversation was deleted.")
    raise leases.Busy(turn_id, "")  # it ended between the two statements: try again


def _create_turn(
    order: Order, turn_id: uuid.UUID, chat_session: ChatSession, message: ChatMessage
) -> ChatTurn:
    endpoint = chat_session.assistant.endpoint
    return ChatTurn.objects.create(
        pk=turn_id,
        chat_session=chat_session,
        input=message,
        number=chat_session.turn_count,
        client_id=order.client_id,
        endpoint_name=endpoint.name,
        model_name=endpoint.model,
    )
