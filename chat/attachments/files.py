"""The files of attachments and their rows: stored, bound to a message, read, discarded."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import uuid
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from chat.attachments.checking import BadImage, check
from chat.models import Attachment, ChatMessage, ChatSession, PendingRemoval
from memory.text import clean

logger = logging.getLogger(__name__)

MOST_PER_MESSAGE = 4
MOST_WAITING = 40  # that one person has uploaded and not sent
UNSENT_HOURS = 24  # after which an upload that was not sent may go
NAME_LENGTH = 150
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


class Unreadable(Exception):
    """The file of an attachment is gone, or the disk refuses to give it."""


# --- Storing --------------------------------------------------------------------------------------


def store(chat_session: ChatSession, uploader: Any, name: str, data: bytes) -> Attachment:
    """Check an image and keep it for a message to come; `BadImage` says why not.

    `ChatSession.DoesNotExist` when the session is deleted meanwhile.
    """
    image = check(data, settings.CHAT_MAX_ATTACHMENT_BYTES)
    made = Attachment(
        chat_session=chat_session,
        uploader=uploader,
        name=clean_name(name),
        content_type=image.content_type,
        size=len(image.data),
        width=image.width,
        height=image.height,
        sha256=hashlib.sha256(image.data).hexdigest(),
    )
    made.file.save("", ContentFile(image.data), save=False)
    try:
        with transaction.atomic():
            _insert(made)
    except BaseException:
        made.file.delete(save=False)
        raise
    return made


def _insert(made: Attachment) -> None:
    """Beside the session's locked row, so that a deletion at the same time sees the upload."""
    ChatSession.objects.select_for_update().only("pk").get(pk=made.chat_session_id)
    waiting = Attachment.objects.filter(uploader=made.uploader_id, message=None)
    if waiting.count() >= MOST_WAITING:
        raise BadImage(
            "too_many_attachments",
            f"{MOST_WAITING} images wait to be sent already; send or remove some first.",
            limit=MOST_WAITING,
        )
    made.save(force_insert=True)


def clean_name(name: str) -> str:
    """The last part of a file's name as one line of visible text, its ending kept."""
    text = UNSEEN.sub(" ", clean(name).replace("\\", "/")).rsplit("/", 1)[-1]
    text = " ".join(text.split()) or "image"
    ending = PurePosixPath(text).suffix[:12]
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - len(ending)] + ending


# --- Binding --------------------------------------------------------------------------------------


def waiting(chat_session: ChatSession) -> QuerySet[Attachment]:
    """What the session's holder has uploaded into it and not sent."""
    return Attachment.objects.filter(
        chat_session=chat_session, uploader=chat_session.user_id, message=None
    )


def bind(attachments: Sequence[Attachment], message: ChatMessage) -> None:
    """The message has been stored with them; inside the transaction that locked the session."""
    Attachment.objects.filter(pk__in=[each.pk for each in attachments]).update(message=message)


# --- Reading --------------------------------------------------------------------------------------


def read(attachment: Attachment) -> bytes:
    try:
        with attachment.file.open("rb") as file:
            return bytes(file.read())
    except OSError as error:
        raise Unreadable(f"The file of attachment {attachment.pk} cannot be read.") from error


def data_url(attachment: Attachment) -> str:
    """The image as endpoints take it; `Unreadable`."""
    data = base64.b64encode(read(attachment)).decode("ascii")
    return f"data:{attachment.content_type};base64,{data}"


def data_urls(session_id: uuid.UUID, ids: Collection[str]) -> dict[str, str]:
    """By attachment of a session; those whose row or file is gone are not among them."""
    found: dict[str, str] = {}
    if not ids:
        return found
    for attachment in Attachment.objects.filter(chat_session=session_id, pk__in=set(ids)):
        try:
            found[str(attachment.pk)] = data_url(attachment)
        except Unreadable as unreadable:
            logger.warning("%s", unreadable)
    return found


# --- Leaving --------------------------------------------------------------------------------------


def pending_removals(rows: QuerySet[Attachment]) -> list[PendingRemoval]:
    """What must still go from the disk once `rows` are deleted; in their transaction."""
    return [
        PendingRemoval.objects.create(kind=PendingRemoval.Kind.FILE, name=name)
        for name in rows.values_list("file", flat=True)
    ]


def forgotten() -> QuerySet[Attachment]:
    """Uploads that nobody has sent for UNSENT_HOURS."""
    before = timezone.now() - timedelta(hours=UNSENT_HOURS)
    return Attachment.objects.filter(message=None, created_at__lt=before)
