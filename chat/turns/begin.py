"""The first half of a turn: one function, one transaction, committed before the model is called.

Take the lease, settle a dead predecessor, answer a repeated `client_id`, store the input with the
next `seq`, read what the request needs, assemble it, record it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from chat import events, leases, records
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns import inputs, policies
from chat.turns.history import SessionHistory, history_message
from chat.turns.orders import Begun, Order, Refused, Repeated
from memory import context, recall
from memory.blocks import PreferenceText
from memory.context import HistoryMessage, Window
from memory.recall import MemoryPolicy, SessionState

TAKEOVERS = 3  # dead predecessors that one order may settle before it is refused


@dataclass(frozen=True)
class TurnMemory:
    """What the window was read from, so that the snapshot can be replaced when the turn ends."""

    state: SessionState
    policy: MemoryPolicy
    window: Window
    current: HistoryMessage


class _KnownClientId(Exception):
    def __init__(self, turn_id: uuid.UUID) -> None:
        self.turn_id = turn_id


def begin(order: Order) -> Begun | Repeated:
    """Begin a turn, or find the one that this `client_id` began; `Refused` stores nothing."""
    for _ in range(TAKEOVERS):
        try:
            with transaction.atomic():
                return _begin(order)
        except _KnownClientId as known:
            return Repeated(known.turn_id)
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


def _begin(order: Order) -> Begun:
    turn_id = uuid.uuid4()
    _take(order, turn_id)
    chat_session = ChatSession.objects.select_related("assistant__endpoint", "head__turn").get(
        pk=order.session_id
    )
    placed = inputs.place(order, chat_session)
    turn = _create_turn(order, turn_id, chat_session, placed.message)
    return _prepare(chat_session, turn, placed)


def _take(order: Order, turn_id: uuid.UUID) -> None:
    """Become the running turn; `_KnownClientId`, `Busy`, or `Refused` when the session is gone."""
    grown: dict[str, Any] = {"turn_count": F("turn_count") + 1}
    if order.kind in inputs.WITH_TEXT:
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


# --- The request ----------------------------------------------------------------------------------


def _prepare(chat_session: ChatSession, turn: ChatTurn, placed: inputs.Input) -> Begun:
    """Read memory, assemble the request and record it."""
    assistant, message = chat_session.assistant, placed.message
    memory = _recall(chat_session, placed)
    endpoint = assistant.endpoint
    try:
        assembled = context.assemble(
            prompt=assistant.system_prompt,
            window=memory[0].window,
            current=memory[0].current,
            preferences=memory[1],
            budget=policies.request_budget(endpoint),
            encoding=endpoint.encoding,
            correction=endpoint.token_correction,
        )
    except (context.InputTooLong, context.PromptTooLong) as too_long:
        raise Refused(
            too_long.code, str(too_long), tokens=too_long.tokens, limit=too_long.limit
        ) from None
    record, request = records.write(turn, assembled, policies.request_parameters(assistant))
    return Begun(
        turn_id=turn.pk,
        session_id=chat_session.pk,
        record_id=record.pk,
        spec=policies.endpoint_spec(endpoint),
        request=request,
        memory=memory[0],
        frames=(
            events.accepted(turn, message, placed.notes),
            events.turn_context(turn, assembled.manifest, placed.count),
            *placed.frames,
        ),
    )


def _recall(
    chat_session: ChatSession, placed: inputs.Input
) -> tuple[TurnMemory, tuple[PreferenceText, ...]]:
    state = SessionState(
        id=chat_session.pk,
        memory_epoch=chat_session.memory_epoch,
        forget_line=chat_session.memory_starts_after,
        newest_seq=placed.previous_seq,
    )
    policy = policies.memory_policy(chat_session)
    reader = SessionHistory(
        chat_session.pk, after=chat_session.memory_starts_after, before=placed.message.seq
    )
    recalled = recall.recall(reader, state, policies.owner_of(chat_session), policy)
    current = history_message(placed.message)
    return TurnMemory(state, policy, recalled.window, current), recalled.preferences
