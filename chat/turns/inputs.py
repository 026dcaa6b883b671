"""The input of a turn in its place: a new message, an edited one, an earlier one again, or the
wish that an answer goes on.

Everything here happens inside the transaction that has just taken the session's lease.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from chat import attachments, events, temporary
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.search import messages
from chat.turns import going_on, images
from chat.turns.orders import ANY_PARENT, Order, Refused
from memory import tokens
from memory.messages import Message
from memory.text import clean, cleaning_notes, one_line

FAILED = {ChatTurn.Status.FAILED, ChatTurn.Status.INTERRUPTED, ChatTurn.Status.STOPPED}
NO_ID = uuid.UUID(int=0)
KEPT_EXCHANGES = 2  # that a session left for long is still sent with
WITH_TEXT = {"send", "edit"}  # the orders that bring the text of a message
STORED = {*WITH_TEXT, "continue"}  # the orders that store a message
TITLE_LENGTH = 60  # characters of the first message that name a session nobody has named


@dataclass(frozen=True)
class Input:
    """The user message of a turn, and what stands before it on the branch."""

    message: ChatMessage
    previous_seq: int
    count: int  # messages before it on the branch
    notes: Sequence[str] = ()
    frames: tuple[dict[str, Any], ...] = ()


def place(order: Order, chat_session: ChatSession) -> Input:
    """Store or find the input of an order; `Refused` when it has no place."""
    if order.kind == "send":
        return _new(order, chat_session)
    if order.kind == "edit":
        return _edited(order, chat_session)
    if order.kind == "continue":
        return _new(_as_message(order, chat_session), chat_session)
    return _again(order, chat_session)


# --- A new message --------------------------------------------------------------------------------


def _new(order: Order, chat_session: ChatSession) -> Input:
    head = chat_session.head
    _refuse_stale_parent(order, head)
    uploads = images.uploaded(order, chat_session)
    parts = [attachments.message_part(each) for each in uploads]
    message = _store(order, chat_session, head, parts)
    attachments.bind(uploads, message)
    changes: dict[str, Any] = {"head": message, **_after_pause(chat_session, head)}
    frames: tuple[dict[str, Any], ...] = ()
    if not chat_session.title and not chat_session.is_temporary:
        changes["title"] = chat_session.title = first_title(_named_by(message))
        frames = (events.session_updated(chat_session, title=chat_session.title),)
    ChatSession.objects.filter(pk=chat_session.pk).update(**changes)
    return Input(
        message=message,
        previous_seq=head.seq if head is not None else 0,
        count=chat_session.path_count - 1,
        notes=cleaning_notes(order.text),
        frames=frames,
    )


def _after_pause(chat_session: ChatSession, head: ChatMessage | None) -> dict[str, int]:
    """What changes in a session that was left for CHAT_MEMORY_IDLE_DAYS: its window begins anew.

    The last exchanges stay; the line stays too, so that every later turn has the same rule.
    """
    pause = timedelta(days=settings.CHAT_MEMORY_IDLE_DAYS)
    if head is None or not pause or timezone.now() - head.created_at < pause:
        return {}
    asked = _branch(chat_session).filter(role=ChatMessage.Role.USER, seq__lte=head.seq)
    starts = list(asked.order_by("-seq").values_list("seq", flat=True)[:KEPT_EXCHANGES])
    if len(starts) < KEPT_EXCHANGES or starts[-1] - 1 <= chat_session.idle_line:
        return {}
    chat_session.idle_line = starts[-1] - 1
    chat_session.memory_epoch += 1  # the snapshot was taken under another rule
    return {
        "idle_line": chat_session.idle_line,
        "memory_epoch": chat_session.memory_epoch,
    }


def _named_by(message: ChatMessage) -> str:
    return message.content or " ".join(part["name"] for part in message.parts)


def _store(
    order: Order,
    chat_session: ChatSession,
    parent: ChatMessage | None,
    parts: Sequence[Mapping[str, Any]],
) -> ChatMessage:
    text = clean(order.text)
    encoding = chat_session.assistant.endpoint.encoding
    message = ChatMessage.objects.create(
        chat_session=chat_session,
        parent=parent,
        seq=chat_session.next_seq - 1,
        role=ChatMessage.Role.USER,
        content="" if chat_session.is_temporary else text,
        parts=list(parts),
        token_count=tokens.counter_for(encoding)(
            Message.user(text, attachments.memory_parts(parts))
        ),
        token_encoding=encoding,
    )
    if chat_session.is_temporary:
        temporary.keep(chat_session.pk, message.pk, text)
        message.content = text  # for the request; it is not saved
    else:
        messages.index(
            message, parent, tenant_id=chat_session.tenant_id, user_id=chat_session.user_id
        )
    return message


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
    line = one_line(text)
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[:TITLE_LENGTH]
    words = cut.rsplit(" ", 1)
    return (words[0] if len(words) == 2 and len(words[0]) > TITLE_LENGTH // 2 else cut) + "…"


# --- An earlier one -------------------------------------------------------------------------------


def _edited(order: Order, chat_session: ChatSession) -> Input:
    """Another wording beside an earlier message; the earlier one leaves the branch."""
    edited = (
        ChatMessage.objects.filter(chat_session=chat_session, role=ChatMessage.Role.USER)
        .filter(pk=order.message or NO_ID)
        .select_related("parent")
        .first()
    )
    if edited is None:
        raise Refused("no_such_message", f"There is no message {order.message} of yours here.")
    _refuse_before_line(chat_session, edited)
    _refuse_unseen(chat_session, edited)
    left = _branch(chat_session).filter(seq__gte=edited.seq).update(is_on_path=False)
    message = _store(order, chat_session, edited.parent, attachments.attachments_in(edited.parts))
    count = chat_session.path_count - 1 - left
    ChatSession.objects.filter(pk=chat_session.pk).update(head=message, path_count=count + 1)
    previous = edited.parent.seq if edited.parent is not None else 0
    return Input(message, previous, count, cleaning_notes(order.text))


def _again(order: Order, chat_session: ChatSession) -> Input:
    """The input of an earlier turn again; what followed it on the branch leaves the branch."""
    earlier = _earlier_turn(order, chat_session)
    if order.kind == "retry" and earlier.status not in FAILED:
        raise Refused(
            "not_retryable", f"Turn {earlier.number} is {earlier.status}; regenerate it instead."
        )
    message = earlier.input
    temporary.fill([message])
    _refuse_before_line(chat_session, message)
    _refuse_unseen(chat_session, message)
    left = _branch(chat_session).filter(seq__gt=message.seq).update(is_on_path=False)
    count = chat_session.path_count - left - 1
    ChatSession.objects.filter(pk=chat_session.pk).update(head=message, path_count=count + 1)
    return Input(message, message.parent.seq if message.parent is not None else 0, count)


def _as_message(order: Order, chat_session: ChatSession) -> Order:
    """The wish to go on as the next message behind the answer that was cut."""
    cut = _earlier_turn(order, chat_session)
    end = going_on.end_of(cut, chat_session)
    _refuse_before_line(chat_session, end)
    return replace(order, text=going_on.wish(cut), parent=str(end.pk))


def _earlier_turn(order: Order, chat_session: ChatSession) -> ChatTurn:
    turns = ChatTurn.objects.filter(chat_session=chat_session, pk=order.turn or NO_ID)
    turn = turns.select_related("input__parent__turn__input").first()
    if turn is None:
        raise Refused("no_such_turn", f"There is no turn {order.turn} in this session.")
    return turn


def _refuse_unseen(chat_session: ChatSession, message: ChatMessage) -> None:
    """The images of a message that is asked again want a model that sees them."""
    if attachments.attachments_in(message.parts):
        images.require_vision(chat_session)


def _branch(chat_session: ChatSession) -> QuerySet[ChatMessage]:
    return ChatMessage.objects.filter(chat_session=chat_session, is_on_path=True)


def _refuse_before_line(chat_session: ChatSession, message: ChatMessage) -> None:
    if message.seq <= chat_session.memory_starts_after:
        raise Refused(
            "before_forget_line",
            f"Message {message.seq} lies before the point where memory was cleared"
            f" ({chat_session.memory_starts_after}); ask it anew.",
        )
    if not message.is_on_path:
        raise Refused(
            "other_branch",
            f"Message {message.seq} is not on the branch that is shown; select its branch first.",
        )
