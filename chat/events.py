"""What happens in a session, told to everyone who watches it: the frames of the protocol.

Frames are built from rows here, for sockets and REST alike. `publish` hands a frame to the
watchers of this process and, over the channel layer, to other processes. The database is the
record: a frame may be lost, and whoever missed it finds the same in the rows.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db.models import Count, F
from redis.exceptions import RedisError

from chat import attachments, failures, rendering, siblings, temporary
from chat.models import ChatMessage, ChatSession, ChatTurn, Feedback
from chat.siblings import Siblings
from memory.blocks import PreferenceText
from memory.messages import ToolCall
from memory.models import UserPreference

logger = logging.getLogger(__name__)

Frame = dict[str, Any]
Deliver = Callable[[uuid.UUID, Frame], None]

PROCESS = uuid.uuid4().hex  # so that a process knows its own messages on the layer
TERMINAL = {
    f"turn.{status}" for status in ChatTurn.Status.values if status != ChatTurn.Status.RUNNING
}
REDACTED_HTML = "<p><em>This text was redacted.</em></p>"
SHOWN_OF_A_CALL = 500  # characters

_outage = ""  # why other processes are not told at this moment
_local: tuple[asyncio.AbstractEventLoop, Deliver] | None = None


# --- Publishing -----------------------------------------------------------------------------------


def listen_locally(deliver: Deliver | None) -> None:
    """Who hands frames to the watchers of this process; called on their event loop."""
    global _local
    _local = (asyncio.get_running_loop(), deliver) if deliver is not None else None


def group_of(session_id: uuid.UUID) -> str:
    return f"session.{session_id.hex}"


async def publish(session_id: uuid.UUID, frame: Frame) -> None:
    """Tell everyone who watches the session, in this process and in others."""
    if _local is not None:
        _local[1](session_id, frame)
    await relay(session_id, {"kind": "frame", "frame": frame})


async def relay(session_id: uuid.UUID, message: Frame) -> None:
    """Send to the other processes that watch the session; nothing without Redis."""
    if not settings.REDIS_URL:
        return
    body = {"type": "relay", "session": str(session_id), "from": PROCESS, **message}
    try:
        await get_channel_layer().group_send(group_of(session_id), body)
    except (OSError, RedisError) as error:
        note_outage(str(error))
    else:
        note_outage("")


def note_outage(error: str) -> None:
    """One line when the layer goes away, and one when it is back."""
    global _outage
    if error and not _outage:
        logger.warning("Other processes are not told what happens here: %s", error)
    elif _outage and not error:
        logger.warning("Other processes are told again what happens here.")
    _outage = error


def publish_from_thread(session_id: uuid.UUID, frame: Frame) -> None:
    """`publish` from synchronous code: a view, a command, a database step."""
    if _local is not None and _local[0].is_running():
        asyncio.run_coroutine_threadsafe(publish(session_id, frame), _local[0])
    else:
        async_to_sync(relay)(session_id, {"kind": "frame", "frame": frame})


# --- Frames ---------------------------------------------------------------------------------------


def turn_error(turn: ChatTurn) -> Frame | None:
    if not turn.error_code:
        return None
    return {
        "code": turn.error_code,
        "detail": failures.said(turn.error_code, turn.error_detail),
        "retryable": turn.error_code not in failures.NOT_RETRYABLE,
    }


def output_schema(turn: ChatTurn) -> Frame | None:
    """Whether the answer follows its schema; None: none was asked for, or it is unfinished."""
    if turn.follows_schema is None:
        return None
    return {"follows": turn.follows_schema, "error": turn.schema_error}


def turn_payload(turn: ChatTurn, answers: int = 1, feedback: int | None = None) -> Frame:
    """A turn as sockets and REST show it; `answers` counts the runs for the same input.

    `feedback` is what the session's holder thinks of it, 1 or -1.
    """
    took = turn.finished_at - turn.started_at if turn.finished_at else None
    return {
        "id": str(turn.pk),
        "input": str(turn.input_id),
        "number": turn.number,
        "status": turn.status,
        "finish_reason": turn.finish_reason,
        "error": turn_error(turn),
        "output_schema": output_schema(turn),
        "model": turn.model_name,
        "ms": round(took.total_seconds() * 1000) if took is not None else None,
        "usage": {
            "input": turn.input_tokens,
            "cached_input": turn.cached_input_tokens,
            "output": turn.output_tokens,
        },
        "answers": answers,
        "feedback": feedback,
    }


def message_html(message: ChatMessage) -> str:
    text = message.content or ""
    if message.redacted_at is not None:
        return REDACTED_HTML
    if message.role == ChatMessage.Role.ASSISTANT:
        return rendering.render(text)
    return rendering.render_plain(text)


def message_payload(
    message: ChatMessage, turn: Frame | None = None, places: Siblings = siblings.NONE
) -> Frame:
    """A message as sockets and REST show it, with `turn_payload` of the turn it belongs to."""
    return {
        "id": str(message.pk),
        "parent": str(message.parent_id) if message.parent_id else None,
        "seq": message.seq,
        "role": message.role,
        "content": message.content,
        "html": message_html(message),
        "is_partial": message.is_partial,
        "tool_calls": message.tool_calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "is_error": message.is_error,
        "is_redacted": message.redacted_at is not None,
        "created_at": message.created_at.isoformat(),
        "token_count": message.token_count,
        "attachments": attachments.described(message.parts),
        "siblings": places.beside(message),
        "continuations": places.hidden_after(message),
        "turn": turn,
    }


def message_payloads(messages: list[ChatMessage]) -> list[Frame]:
    """Messages with the turns they belong to: an answer its own, an input its newest one."""
    temporary.fill(messages)
    inputs = [message.pk for message in messages if message.role == ChatMessage.Role.USER]
    own = [message.turn_id for message in messages if message.turn_id]
    turns = ChatTurn.objects.filter(input__in=inputs) | ChatTurn.objects.filter(pk__in=own)
    by_id: dict[uuid.UUID, ChatTurn] = {}
    newest: dict[uuid.UUID, ChatTurn] = {}
    count: dict[uuid.UUID, int] = {}
    for turn in turns.distinct().order_by("number"):
        by_id[turn.pk] = newest[turn.input_id] = turn
        count[turn.input_id] = count.get(turn.input_id, 0) + 1

    ratings = feedback_of(by_id)
    places = siblings.of(messages)

    def payload(message: ChatMessage) -> Frame:
        turn = by_id.get(message.turn_id) if message.turn_id else newest.get(message.pk)
        if turn is None:
            return message_payload(message, None, places)
        shown = turn_payload(turn, count[turn.input_id], ratings.get(turn.pk))
        return message_payload(message, shown, places)

    return [payload(message) for message in messages]


def feedback_of(turn_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """What the holders of their sessions think of turns, where they said so."""
    rated = Feedback.objects.filter(turn__in=list(turn_ids), user=F("turn__chat_session__user"))
    return dict(rated.values_list("turn", "value"))


def accepted(turn: ChatTurn, message: ChatMessage, notes: Sequence[str] = ()) -> Frame:
    """`notes` tell the sender what was changed in the text before it was stored."""
    return {
        "type": "turn.accepted",
        "turn": str(turn.pk),
        "client_id": str(turn.client_id),
        "number": turn.number,
        "message": {
            "id": str(message.pk),
            "parent": str(message.parent_id) if message.parent_id else None,
            "seq": message.seq,
            "html": message_html(message),
            "content": message.content,
            "created_at": message.created_at.isoformat(),
            "token_count": message.token_count,
            "attachments": attachments.described(message.parts),
            "siblings": siblings.of_new(message).beside(message),
        },
        "notes": list(notes),
    }


def accepted_again(turn_id: uuid.UUID) -> Frame | None:
    """`turn.accepted` of a turn that began earlier."""
    turn = ChatTurn.objects.filter(pk=turn_id).select_related("input__parent").first()
    if turn is None:
        return None
    temporary.fill([turn.input])
    return accepted(turn, turn.input)


def ended(turn_id: uuid.UUID) -> Frame | None:
    """The terminal frame of a turn, from what the rows say; None while it runs or is gone."""
    turn = ChatTurn.objects.filter(pk=turn_id).first()
    if turn is None or turn.status == ChatTurn.Status.RUNNING:
        return None
    answers = ChatTurn.objects.filter(input=turn.input_id).aggregate(n=Count("pk"))["n"]
    rows = list(ChatMessage.objects.filter(turn=turn).order_by("seq"))
    temporary.fill(rows)
    answer = rows.pop() if rows and not (rows[-1].tool_calls or rows[-1].tool_call_id) else None
    payload = turn_payload(turn, answers)
    places = siblings.of([*rows, *([answer] if answer else [])]) if answers > 1 else siblings.NONE
    return {
        "type": f"turn.{turn.status}",
        "turn": str(turn.pk),
        "message": message_payload(answer, payload, places) if answer is not None else None,
        "steps": [message_payload(row, None, places) for row in rows],
        "error": payload["error"],
        "summary": payload,
    }


def session_updated(chat_session: ChatSession, **changes: Any) -> Frame:
    return {"type": "session.updated", "session": str(chat_session.pk), **changes}


def preference_told(kind: str, preference: UserPreference) -> Frame:
    """A preference that was proposed or saved, for everyone who watches the session."""
    return {
        "type": f"preference.{kind}",
        "preference": {
            "id": preference.pk,
            "key": preference.key,
            "text": preference.text,
            "status": preference.status,
            "quote": preference.quote,
            "origin": preference.origin,
            "scope": preference.scope,
        },
    }


def preference_forgotten(preference_id: int) -> Frame:
    return {"type": "preference.forgotten", "id": preference_id}


def error(code: str, detail: str, client_id: str | None = None, **more: Any) -> Frame:
    return {"type": "error", "code": code, "detail": detail, "client_id": client_id, **more}


def tool_used(
    turn_id: uuid.UUID, asked: ToolCall, result: str | None = None, is_error: bool = False
) -> Frame:
    """A call of a tool that begins, or that has its result."""
    status = "failed" if is_error else "done"
    return {
        "type": "turn.tool",
        "turn": str(turn_id),
        "call": asked.id,
        "name": asked.name,
        "status": "running" if result is None else status,
        "arguments": asked.arguments[:SHOWN_OF_A_CALL],
        "result": None if result is None else result[:SHOWN_OF_A_CALL],
    }


def turn_context(
    turn: ChatTurn, manifest: Frame, remembered: Sequence[PreferenceText] = ()
) -> Frame:
    """What the request of a turn holds, out of its manifest; `of` counts the whole branch.

    `remembered` are the preferences that it was chosen from.
    """
    texts = {each.id: each.text for each in remembered}
    summary = manifest.get("summary")
    left_out: dict[str, int] = {}
    for gap in manifest["left_out"]:
        reason = gap["reason"]
        left_out[reason] = left_out.get(reason, 0) + gap["through"] - gap["from"] + 1
    return {
        "type": "turn.context",
        "turn": str(turn.pk),
        "tokens": manifest["tokens"],
        "budget": manifest["budget"],
        "window": manifest["window"],
        "of": manifest["of"],
        "left_out": left_out,
        "preferences": [
            {**each, "text": texts.get(each["id"], "")} for each in manifest["preferences"]
        ],
        "summary": summary
        and {"version": summary["version"], "covers_through": summary["covers_through"]},
        "digest": bool(manifest.get("digest")),
        "evidence": manifest.get("evidence"),
        "references": [
            {"source": each["source"], "rank": each["rank"]} for each in manifest["references"]
        ],
    }
