"""Images that were uploaded and not sent: removed by their owner, or after a day."""

from __future__ import annotations

import uuid

from django.db import transaction

from chat import attachments
from chat.models import Attachment, ChatSession
from chat.retention import receipts, removals


def remove_unsent(attachment_id: uuid.UUID) -> bool:
    """Remove an attachment and its file; False when it was sent meanwhile."""
    with transaction.atomic():
        session_id = Attachment.objects.filter(pk=attachment_id).values("chat_session")
        # A turn that binds it holds the same row.
        list(ChatSession.objects.select_for_update().filter(pk__in=session_id).only("pk"))
        rows = Attachment.objects.filter(pk=attachment_id, message=None)
        receipts.follow(removals.of_files(rows))
        return bool(rows.delete()[0])


def remove_forgotten() -> int:
    """Remove what nobody has sent for a day: how many went."""
    waiting = list(attachments.forgotten().values_list("pk", flat=True))
    return sum(remove_unsent(each) for each in waiting)
