"""What was sent to the model: one record a request, exact and provable."""

import uuid

from django.db import models

from chat.models.sessions import ChatMessage, ChatSession, ChatTurn


class ContextPart(models.Model):
    """A text that was sent and is not the plain content of a stored message.

    Operator text (prompts, tool definitions, schemas) has no session and is shared by `digest`;
    text that derives from a user belongs to the session and leaves with it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    chat_session = models.ForeignKey(
        ChatSession, null=True, blank=True, on_delete=models.CASCADE, related_name="context_parts"
    )
    digest = models.CharField(
        max_length=64, null=True, blank=True, unique=True, help_text="SHA-256 of operator text."
    )
    text = models.TextField(blank=True)

    class Meta:
        verbose_name = "context part"

    def __str__(self) -> str:
        return str(self.pk)


class ContextRecord(models.Model):
    """One model request: committed before the call, completed with the usage after it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    chat_session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="context_records"
    )
    turn = models.ForeignKey(
        ChatTurn,
        on_delete=models.CASCADE,
        related_name="context_records",
        db_index=False,  # the unique rule below begins with it
    )
    attempt = models.PositiveIntegerField(default=1)
    manifest = models.JSONField()
    layout = models.JSONField(
        help_text='In order: [role, "message" or "part", id] for every message of the request.'
    )
    parameters = models.TextField(help_text="JSON text of everything in the request but messages.")
    token_count = models.PositiveIntegerField(help_text="Our count.")
    token_encoding = models.CharField(max_length=20)
    input_tokens = models.PositiveIntegerField(null=True, blank=True, help_text="Reported.")
    cached_input_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    proof = models.CharField(max_length=64, blank=True, help_text="HMAC-SHA-256 of the request.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "context record"
        ordering = ["turn_id", "attempt"]
        constraints = [
            models.UniqueConstraint(fields=["turn", "attempt"], name="chat_context_attempt")
        ]

    def __str__(self) -> str:
        return str(self.pk)


class DerivedText(models.Model):
    """A text that holds words from elsewhere: a block that was sent, or what a tool recalled.

    It names where they came from, so that forgetting the source finds every copy.
    """

    chat_session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="derived_texts"
    )
    part = models.ForeignKey(
        ContextPart, null=True, blank=True, on_delete=models.CASCADE, related_name="sources"
    )
    message = models.ForeignKey(
        ChatMessage, null=True, blank=True, on_delete=models.CASCADE, related_name="sources"
    )
    source_session = models.UUIDField(null=True, blank=True)
    source_seq = models.BigIntegerField(null=True, blank=True)
    source_preference = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name = "derived text"
        indexes = [
            models.Index(fields=["source_session", "source_seq"], name="chat_derived_session"),
            models.Index(fields=["source_preference"], name="chat_derived_preference"),
        ]

    def __str__(self) -> str:
        return f"derived text {self.pk}"
