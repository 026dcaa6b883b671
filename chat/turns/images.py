"""The images of a turn: taken from what was uploaded, and left out where they cannot be sent.

A request holds images of at most CHAT_MAX_REQUEST_IMAGE_BYTES: those of the input, then the
newest of the window. A message whose images are left out says so in its text.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from django.conf import settings

from chat import attachments
from chat.models import Attachment, ChatSession
from chat.turns.orders import Order, Refused
from memory.context import HistoryMessage, Window

LEFT_OUT = "images_left_out"  # the mark in the manifest
NO_VISION = "the model cannot see images"
NO_ROOM = "there was no room in the request"
GONE = "the file is gone"


# --- With the input -------------------------------------------------------------------------------


def uploaded(order: Order, chat_session: ChatSession) -> list[Attachment]:
    """The attachments that an order names, in its order; `Refused` when one cannot be sent."""
    if not order.attachments:
        return []
    if chat_session.is_temporary:
        raise Refused("no_attachments", "Temporary conversations take no attachments.")
    require_vision(chat_session)
    waiting = attachments.waiting(chat_session).filter(pk__in=order.attachments)
    found = {each.pk: each for each in waiting}
    for wanted in order.attachments:
        if wanted not in found:
            raise Refused(
                "no_such_attachment",
                f"There is no unsent attachment {wanted} of yours in this conversation; upload the"
                " image again.",
                attachment=str(wanted),
            )
    return [found[wanted] for wanted in order.attachments]


def require_vision(chat_session: ChatSession) -> None:
    if not chat_session.assistant.endpoint.supports_vision:
        raise Refused(
            "no_vision",
            "The model of this conversation cannot see images; send the message without them, or"
            " begin a conversation with another assistant.",
        )


# --- In the request -------------------------------------------------------------------------------


def for_request(
    session_id: uuid.UUID, window: Window, current: HistoryMessage, *, sees: bool
) -> tuple[Window, dict[str, str]]:
    """The window without the images that cannot be sent, and the others by attachment.

    `Refused` when an image of the current input itself cannot be read.
    """
    kept = _limited(window, current, sees)
    urls = attachments.data_urls(session_id, _ids([*kept.messages, current]))
    if any(attachments.attachment_of(part) not in urls for part in current.message.parts):
        raise Refused(
            "attachment_gone", "An image of this message cannot be read any more; send it anew."
        )
    messages = tuple(
        each if all(one in urls for one in _ids([each])) else _without_images(each, GONE)
        for each in kept.messages
    )
    return replace(kept, messages=messages), urls


def _limited(window: Window, current: HistoryMessage, sees: bool) -> Window:
    room = settings.CHAT_MAX_REQUEST_IMAGE_BYTES - _bytes(current)
    kept: list[HistoryMessage] = []
    for message in reversed(window.messages):
        room -= _bytes(message)
        is_sent = not message.message.parts or (sees and room >= 0)
        why = NO_ROOM if sees else NO_VISION
        kept.append(message if is_sent else _without_images(message, why))
    return replace(window, messages=tuple(reversed(kept)))


def _ids(messages: Iterable[HistoryMessage]) -> list[str]:
    return [
        attachments.attachment_of(part) for message in messages for part in message.message.parts
    ]


def _bytes(message: HistoryMessage) -> int:
    return sum(int(part["bytes"]) for part in message.message.parts)


def _without_images(message: HistoryMessage, why: str) -> HistoryMessage:
    count = len(message.message.parts)
    what = "1 image was left out" if count == 1 else f"{count} images were left out"
    text = f"{message.message.content or ''}\n\n[{what}: {why}.]".lstrip("\n")
    plain = replace(message.message, content=text, parts=())
    return replace(message, message=plain, tokens=None, mark=LEFT_OUT)
