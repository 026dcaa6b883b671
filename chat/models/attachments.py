"""Files that people send along with a message: images, kept outside of the tables."""

import uuid

from django.conf import settings
from django.db import models

from chat.models.sessions import ChatMessage, ChatSession


def random_place(attachment: models.Model, filename: str) -> str:
    """Where the file lies below MEDIA_ROOT: nothing of the name that it came with."""
    name = uuid.uuid4().hex
    return f"attachments/{name[:2]}/{name}"


class Attachment(models.Model):
    """One image. The row leaves with its session, the file through a PendingRemoval."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    chat_session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="attachments"
    )
    uploader = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="chat_attachments"
    )
    message = models.ForeignKey(
        ChatMessage,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="attachments",
        help_text="The message that it was first sent with; empty = not sent.",
    )
    file = models.FileField(upload_to=random_place, max_length=100)
    name = models.CharField(max_length=150)
    content_type = models.CharField(max_length=20, help_text="As found in the content.")
    size = models.PositiveIntegerField(help_text="Bytes.")
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return str(self.pk)
