"""The first half of a turn: one function, one transaction, committed before the model is called.

Take the lease, settle a dead predecessor, answer a repeated `client_id`, store the input with the
next `seq`, read what the request needs, assemble it, record it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from chat import events, leases, records
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns import policies
from chat.turns.history import SessionHistory, history_message
from chat.turns.orders import ANY_PARENT, Begun, Order, Refused, Repeated
from memory import context, recall, tokens
from memory.blocks import PreferenceText
from memory.context import HistoryMessage, Window
from memory.messages import Message
from memory.recall import MemoryPolicy, SessionState
from memory.text import clean, cleaning_notes

TITLE_LENGTH = 60  # characters of the first message that name a session nobody has named
TAKEOVERS = 3  # dead predecessors that one order may settle before it is refused


@dataclass(frozen=True)
class TurnMemory:
    """What the window was read from, so that the snapshot can be replaced when the turn ends."""

    state: SessionState
    policy: MemoryPolicy
    window: Window
    current: HistoryMessage


@dataclass(frozen=True)
class _Input:
    """The user message of a turn in its place: what stands before it on the branch."""

    message: ChatMessage
    previous_seq: int
    count: int  # messages before it on the branch
    notes: Sequence[str] = ()
    frames: tuple[dict[str, Any], ...] = ()


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
    placed = (
        _new_input(order, chat_session) if order.kind == "send" else _old_input(order, chat_session)
    )
    turn = _create_turn(order, turn_id, chat_session, placed.message)
    return _prepare(chat_session, turn, placed)


def _take(order: Order, turn_id: uuid.UUID) -> None:
    """Become the running turn; `_KnownClientId`, `Busy`, or `Refused` when the session is gone."""
    grown: dict[str, Any] = {"turn_count": F("turn_count") + 1}
    if order.kind == "send":
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


# --- The input ------------------------------------------------------------------------------------


def _new_input(order: Order, chat_session: ChatSession) -> _Input:
    head = chat_session.head
    _refuse_stale_parent(order, head)
    text, notes = clean(order.text), cleaning_notes(order.text)
    encoding = chat_session.assistant.endpoint.encoding
    message = ChatMessage.objects.create(
        chat_session=chat_session,
        parent=head,
        seq=chat_session.next_seq - 1,
        role=ChatMessage.Role.USER,
        content=text,
        token_count=tokens.counter_for(encoding)(Message.user(text)),
        token_encoding=encoding,
    )
    changes: dict[str, Any] = {"head": message}
    frames: tuple[dict[str, Any], ...] = ()
    if not chat_session.title:
        changes["title"] = chat_session.title = first_title(text)
        frames = (events.session_updated(chat_session, title=chat_session.title),)
    ChatSession.objects.filter(pk=chat_session.pk).update(**changes)
    return _Input(
        message=message,
        previous_seq=head.seq if head is not None else 0,
        count=chat_session.path_count - 1,
        notes=notes,
        frames=frames,
    )


def _refuse_stale_parent(order: Order, head: ChatMessage | None) -> None:
    """The sender must know the newest message, or have stopped the answer that became it."""
    if order.parent == ANY_PARENT or order.parent == (str(head.pk) if head is not None else None):
        return
    if head is not None and _was_stopped(head) and str(head.parent_id) == order.parent:
        return
    raise Refused(
        "stale_parent",
        "This conversation went on elsewhere; look at what is new, then send again.",
        head=str(head.pk) if head is not None else None,
    )


def _was_stopped(answer: ChatMessage) -> bool:
    return answer.turn is not None and answer.turn.status == ChatTurn.Status.STOPPED


def first_title(text: str) -> str:
    """A name for a session out of its first message: one line, cut at a word where there is one."""
    line = " ".join(text.split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[:TITLE_LENGTH]
    words = cut.rsplit(" ", 1)
    return (words[0] if len(words) == 2 and len(words[0]) > TITLE_LENGTH // 2 else cut) + "…"


def _old_input(order: Order, chat_session: ChatSession) -> _Input:
    """The input of an earlier turn again; what followed it on the branch leaves the branch."""
    earlier = (
        ChatTurn.objects.filter(chat_session=chat_session, pk=order.turn or uuid.UUID(int=0))
        .select_related("input")
        .first()
    )
    if earlier is None:
        raise Refused("no_such_turn", f"There is no turn {order.turn} in this session.")
    _refuse_rerun(order, chat_session, earlier)
    message = earlier.input
    branch = ChatMessage.objects.filter(chat_session=chat_session, is_on_path=True)
    left = branch.filter(seq__gt=message.seq).update(is_on_path=False)
    ChatSession.objects.filter(pk=chat_session.pk).update(
        head=message, path_count=F("path_count") - left
    )
    before = branch.filter(seq__lt=message.seq).order_by("-seq").values_list("seq", flat=True)
    return _Input(message, before.first() or 0, chat_session.path_count - left - 1)


def _refuse_rerun(order: Order, chat_session: ChatSession, earlier: ChatTurn) -> None:
    failed = {
        ChatTurn.Status.FAILED,
        ChatTurn.Status.INTERRUPTED,
        ChatTurn.Status.STOPPED,
    }
    if order.kind == "retry" and earlier.status not in failed:
        raise Refused(
            "not_retryable", f"Turn {earlier.number} is {earlier.status}; regenerate it instead."
        )
    if earlier.input.seq <= chat_session.memory_starts_after:
        raise Refused(
            "before_forget_line",
            f"Message {earlier.input.seq} lies before the point where memory was cleared"
            f" ({chat_session.memory_starts_after}); ask it anew.",
        )
    if not earlier.input.is_on_path:
        raise Refused(
            "other_branch", f"Message {earlier.input.seq} is not on the branch that is shown."
        )


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


def _prepare(chat_session: ChatSession, turn: ChatTurn, placed: _Input) -> Begun:
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
    chat_session: ChatSession, placed: _Input
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
