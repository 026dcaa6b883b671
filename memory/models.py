"""What is remembered: the current window of a session, and preferences that outlive sessions."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models import Q

from memory.text import key_digest

PREFERENCE_TEXT_LENGTH = 2_000


class MemorySnapshot(models.Model):
    """The window of a session as the last turn left it; replaced whole, never appended to."""

    chat_session = models.OneToOneField(
        "chat.ChatSession",
        verbose_name="session",
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="memory_snapshot",
    )
    format_version = models.PositiveSmallIntegerField(default=1)
    revision = models.PositiveBigIntegerField(default=1, help_text="Grows with every replacement.")
    through_seq = models.BigIntegerField(
        default=0, help_text="The newest message that was known when the window was chosen."
    )
    before_seq = models.BigIntegerField(
        default=0, help_text="Where the exchange before the window begins; 0 = there is none."
    )
    memory_epoch = models.PositiveIntegerField(default=0)
    policy = models.CharField(
        max_length=64, blank=True, help_text="Fingerprint of what the window depends on."
    )
    messages = models.JSONField(default=list)
    left_out = models.JSONField(default=list, help_text="[from seq, through seq, reason] each.")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "memory snapshot"

    def __str__(self) -> str:
        return str(self.pk)


class UserPreference(models.Model):
    """Something a person wants every later conversation to take into account."""

    class Status(models.TextChoices):
        PROPOSED = "proposed", "Proposed"
        ACTIVE = "active", "Active"
        SUPERSEDED = "superseded", "Superseded"
        DISABLED = "disabled", "Disabled"

    class Origin(models.TextChoices):
        CHAT = "chat", "Said in a chat"
        USER = "user", "Written by the user"
        ADMIN = "admin", "Written by staff"
        IMPORT = "import", "Imported"

    tenant = models.ForeignKey(
        "chat.Tenant", on_delete=models.CASCADE, related_name="user_preferences"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chat_preferences"
    )
    scope = models.CharField(
        max_length=60, default="all", help_text='"all", or the slug of an assistant.'
    )
    key = models.CharField(max_length=100)
    key_digest = models.CharField(
        max_length=64, editable=False, help_text="The key as keys are compared."
    )
    text = models.TextField(validators=[MaxLengthValidator(PREFERENCE_TEXT_LENGTH)])
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.ACTIVE)
    is_current = models.BooleanField(
        null=True,
        editable=False,
        help_text="True while active, else empty: the unique rule counts only what is not empty.",
    )
    origin = models.CharField(max_length=6, choices=Origin.choices, default=Origin.USER)
    source_session = models.ForeignKey(
        "chat.ChatSession",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="preferences",
    )
    source_seq = models.BigIntegerField(null=True, blank=True)
    quote = models.TextField(blank=True)
    confidence = models.FloatField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="The newest request that carried it."
    )
    superseded_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="supersedes"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "preference"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "user", "scope", "key_digest", "is_current"],
                name="memory_preference_one_active",
            ),
            models.CheckConstraint(
                condition=Q(status="active", is_current=True)
                | (~Q(status="active") & Q(is_current__isnull=True)),
                name="memory_preference_current_is_active",
            ),
        ]

    def __str__(self) -> str:
        return f"preference {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save with what follows from `key` and `status` (memory.preferences keeps one active)."""
        self.key_digest = key_digest(self.key)
        self.is_current = True if self.status == self.Status.ACTIVE else None
        super().save(*args, **kwargs)


class ForgottenPreference(models.Model):
    """What a person had deleted, as keyed hashes, so that old messages do not bring it back."""

    class Kind(models.TextChoices):
        KEY = "key", "Key"
        TEXT = "text", "Text"
        QUOTE = "quote", "Quote"
        SOURCE = "source", "Message that it came from"

    tenant = models.ForeignKey(
        "chat.Tenant", on_delete=models.CASCADE, related_name="forgotten_preferences"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="forgotten_preferences"
    )
    kind = models.CharField(max_length=6, choices=Kind.choices)
    digest = models.CharField(max_length=64, help_text="HMAC-SHA-256, in hex.")
    forgotten_at = models.DateTimeField()

    class Meta:
        verbose_name = "forgotten preference"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "user", "kind", "digest"], name="memory_forgotten_once"
            )
        ]

    def __str__(self) -> str:
        return f"forgotten preference {self.pk}"


class ConversationSummary(models.Model):
    """What stands for the older turns of a session's branch. Never changed: a new version is made.

    It may be used only while `last_message`, the newest that it covers, is on the chosen branch:
    then every message before it is.
    """

    chat_session = models.ForeignKey(
        "chat.ChatSession",
        verbose_name="session",
        on_delete=models.CASCADE,
        related_name="summaries",
    )
    version = models.PositiveIntegerField()
    text = models.TextField(help_text="As it is sent, without the block around it.")
    items = models.JSONField(help_text='[{"kind", "text", "seq"}] each, in the order of `text`.')
    covers_from = models.BigIntegerField()
    covers_through = models.BigIntegerField()
    last_message = models.UUIDField(help_text="Id of the message at `covers_through`.")
    turns = models.JSONField(default=list, help_text="Ids of the turns that this version added.")
    memory_epoch = models.PositiveIntegerField()
    endpoint_name = models.CharField("endpoint", max_length=100)
    model_name = models.CharField("model", max_length=200)
    token_count = models.PositiveIntegerField(help_text="Of `text`, by our count.")
    token_encoding = models.CharField(max_length=20)
    source_tokens = models.PositiveIntegerField(help_text="Of what it stands for.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "summary"
        verbose_name_plural = "summaries"
        ordering = ["chat_session_id", "-version"]
        constraints = [
            models.UniqueConstraint(
                fields=["chat_session", "version"], name="memory_summary_version"
            )
        ]

    def __str__(self) -> str:
        return f"summary {self.pk}"


class UserDigest(models.Model):
    """Who a person is and what they are busy with, in a few lines, made from summaries.

    An empty `text` is a digest that was deleted: only summaries made after `made_after` count.
    """

    tenant = models.ForeignKey("chat.Tenant", on_delete=models.CASCADE, related_name="user_digests")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chat_digests"
    )
    text = models.TextField(blank=True)
    sources = models.JSONField(
        default=list, blank=True, help_text="Ids of the sessions whose summaries it was made from."
    )
    is_enabled = models.BooleanField(default=True)
    origin = models.CharField(
        max_length=6,
        choices=[
            ("model", "Made from summaries"),
            ("user", "Written by the user"),
            ("admin", "Written by staff"),
        ],
        default="model",
    )
    made_after = models.DateTimeField(null=True, blank=True)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "digest"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="memory_digest_once")
        ]

    def __str__(self) -> str:
        return f"digest {self.pk}"
