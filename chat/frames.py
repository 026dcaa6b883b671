"""Frames that come in by a websocket, read with care; and the first one that goes out."""

from __future__ import annotations

import json
import uuid
from typing import Any, NoReturn

from django.conf import settings

from chat.attachments import MOST_PER_MESSAGE
from chat.models import ChatSession
from chat.turns import ANY_PARENT, Kind, Order, Refused
from chat.turns.policies import memory_policy
from memory.text import clean, is_blank

Frame = dict[str, Any]

OF_A_TURN: dict[str, Kind] = {
    "turn.retry": "retry",
    "turn.regenerate": "regenerate",
    "turn.continue": "continue",
}
UUID_LENGTH = 45  # characters of the longest spelling: urn:uuid: and 36


class BadFrame(Exception):
    """A frame that cannot be understood; the socket stays open."""

    code = "bad_frame"


def parse(text: str | None) -> Frame:
    """A JSON object with a `type`; `BadFrame` for everything else."""
    if text is None:
        raise BadFrame("Frames are JSON text; this one was binary.")
    try:
        frame = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"The frame is not JSON: {error}.") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise BadFrame("A frame is a JSON object with a text `type`.")
    return frame


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def named_by(frame: Frame) -> str | None:
    """The frame's `client_id` as an error repeats it: only what can be one, and be sent."""
    value = frame.get("client_id")
    is_id = isinstance(value, str) and value.isascii() and len(value) <= UUID_LENGTH
    return value if is_id else None


def order(frame: Frame, session_id: uuid.UUID) -> Order:
    """`message.send`, `message.edit`, and the orders that name an earlier turn."""
    client_id = _uuid(frame, "client_id")
    if frame["type"] == "message.send":
        images = attachment_ids(frame.get("attachments"))
        return Order(
            kind="send",
            session_id=session_id,
            client_id=client_id,
            text=message_text(frame.get("text"), may_be_empty=bool(images)),
            parent=_parent(frame),
            attachments=images,
        )
    if frame["type"] == "message.edit":
        return Order(
            kind="edit",
            session_id=session_id,
            client_id=client_id,
            text=message_text(frame.get("text")),
            message=message_id(frame),
        )
    kind = OF_A_TURN[frame["type"]]
    return Order(kind=kind, session_id=session_id, client_id=client_id, turn=turn_id(frame))


def message_text(text: Any, *, may_be_empty: bool = False) -> str:
    """The text of a message: at most CHAT_MAX_MESSAGE_CHARS code points, and not blank."""
    if not isinstance(text, str):
        raise BadFrame(f"`text` must be text; it is {type(text).__name__}.")
    limit = settings.CHAT_MAX_MESSAGE_CHARS
    if len(text) > limit:
        raise Refused(
            "input_too_long",
            f"The message has {len(text):,} characters; {limit:,} are allowed.",
            characters=len(text),
            limit=limit,
        )
    if not may_be_empty and is_blank(clean(text)):
        raise Refused("empty_message", "The message is empty.")
    return text


def attachment_ids(value: Any) -> tuple[uuid.UUID, ...]:
    """Ids of uploaded images in their order, each once, and not too many."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadFrame(f"`attachments` must be a list of ids; it is {type(value).__name__}.")
    ids = tuple(dict.fromkeys(_uuid({"attachments": each}, "attachments") for each in value))
    if len(ids) > MOST_PER_MESSAGE:
        raise Refused(
            "too_many_attachments",
            f"The message has {len(ids)} images; {MOST_PER_MESSAGE} are allowed.",
            limit=MOST_PER_MESSAGE,
        )
    return ids


def _parent(frame: Frame) -> str | None:
    if "parent" not in frame:
        return ANY_PARENT
    return str(_uuid(frame, "parent")) if frame["parent"] is not None else None


def turn_id(frame: Frame) -> uuid.UUID:
    return _uuid(frame, "turn")


def message_id(frame: Frame) -> uuid.UUID:
    return _uuid(frame, "message")


def preference_answer(frame: Frame) -> tuple[int, bool]:
    """The proposal that is answered, and whether it is kept."""
    number, keep = frame.get("id"), frame.get("keep")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
        raise BadFrame(f"`id` must be the number of a preference; it is {number!r:.50}.")
    if not isinstance(keep, bool):
        raise BadFrame(f"`keep` must be true or false; it is {keep!r:.50}.")
    return number, keep


def seen(frame: Frame) -> int | None:
    """Code points that the reader had painted, or None when it does not say."""
    value = frame.get("seen")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise BadFrame(f"`seen` must be a whole number from 0; it is {value!r:.50}.")
    return value


def _uuid(frame: Frame, name: str) -> uuid.UUID:
    value = frame.get(name)
    try:
        return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        raise BadFrame(f"`{name}` must be a UUID; it is {value!r:.50}.") from None


def session_ready(session_id: uuid.UUID) -> Frame | None:
    """The first frame of a socket; None when the session is gone."""
    row = ChatSession.objects.select_related("assistant__endpoint").filter(pk=session_id).first()
    if row is None:
        return None
    return {
        "type": "session.ready",
        "session": str(row.pk),
        "title": row.title,
        "head": str(row.head_id) if row.head_id else None,
        "limits": {
            "max_message_chars": settings.CHAT_MAX_MESSAGE_CHARS,
            "max_frame_bytes": settings.CHAT_MAX_FRAME_BYTES,
            "max_attachments": MOST_PER_MESSAGE,
            "max_attachment_bytes": settings.CHAT_MAX_ATTACHMENT_BYTES,
        },
        "memory": {
            "enabled": memory_policy(row).enabled,
            "starts_after": row.memory_starts_after,
        },
        "running": str(row.running_turn) if row.running_turn else None,
    }
