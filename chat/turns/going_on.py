"""An answer that was cut goes on: where it ends, and the wish as the person's next message."""

from __future__ import annotations

from chat import temporary
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns.orders import Refused
from chat.turns.policies import memory_policy
from memory.text import CHINESE

IN_ENGLISH = "Go on exactly where you stopped."
IN_CHINESE = "请从中断的地方接着写。"
WISHES = {IN_ENGLISH, IN_CHINESE}
BROKEN_OFF = {ChatTurn.Status.STOPPED, ChatTurn.Status.INTERRUPTED}
CUT_BY_LENGTH = "length"  # the finish reason of an answer that reached the model's limit


def wish(turn: ChatTurn) -> str:
    """What the person says, in the language of the question that was answered."""
    return IN_CHINESE if CHINESE.search(question_of(turn.input)) else IN_ENGLISH


def question_of(message: ChatMessage) -> str:
    """What an input asks: for a wish to go on, it is the question whose answer goes on."""
    temporary.fill([message])
    while message.content in WISHES and (turn := _followed_turn(message)) is not None:
        message = turn.input
        temporary.fill([message])
    return message.content or ""


def _followed_turn(message: ChatMessage) -> ChatTurn | None:
    return message.parent.turn if message.parent is not None else None


def end_of(turn: ChatTurn, chat_session: ChatSession) -> ChatMessage:
    """The last row of a cut answer, which the wish follows; `Refused` where nothing can go on."""
    if not memory_policy(chat_session).enabled:
        raise Refused(
            "memory_off",
            "Memory is off in this session: the model would not be sent what it is to go on with.",
        )
    if not _is_cut(turn):
        raise Refused(
            "not_continuable",
            f"Turn {turn.number} is {turn.status}; only an answer that was stopped, interrupted or"
            " cut by the model's limit of length goes on.",
        )
    rows = list(turn.messages.order_by("seq"))
    temporary.fill(rows)
    if not any(_has_text(row) for row in rows):
        raise Refused(
            "not_continuable", f"Turn {turn.number} has no text to go on with; ask it anew."
        )
    return rows[-1]


def _is_cut(turn: ChatTurn) -> bool:
    is_whole = turn.status == ChatTurn.Status.COMPLETED
    return turn.status in BROKEN_OFF or (is_whole and turn.finish_reason == CUT_BY_LENGTH)


def _has_text(row: ChatMessage) -> bool:
    """Whether a row is an answer whose text is there: redaction empties it, a cache forgets it."""
    is_gone = not row.content or row.content == temporary.EXPIRED
    return row.role == ChatMessage.Role.ASSISTANT and not is_gone
