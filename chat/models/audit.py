"""What people did and said about turns, what was deleted, and what must still go."""

import uuid
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import models

from chat.models.sessions import ChatTurn
from chat.models.tenants import Tenant


class Feedback(models.Model):
    class Value(models.IntegerChoices):
        GOOD = 1, "Good"
        BAD = -1, "Bad"

    turn = models.ForeignKey(ChatTurn, on_delete=models.CASCADE, related_name="feedback")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chat_feedback"
    )
    value = models.SmallIntegerField(choices=Value.choices)
    comment = models.TextField(blank=True, max_length=2000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "feedback"
        constraints = [models.UniqueConstraint(fields=["turn", "user"], name="chat_feedback_once")]

    def __str__(self) -> str:
        return f"feedback {self.pk}"


class AuditEvent(models.Model):
    """Append-only: who did what to which object, how many, and why. Never any message text."""

    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Empty: a command or the product itself.",
    )
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=60, blank=True)
    object_id = models.CharField(max_length=64, blank=True)
    count = models.PositiveIntegerField(default=1)
    filter = models.JSONField(default=dict, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    ip = models.GenericIPAddressField("address", null=True, blank=True)
    at = models.DateTimeField("time", auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_type", "object_id"], name="chat_audit_object"),
            models.Index(fields=["action", "-id"], name="chat_audit_action"),
        ]

    def __str__(self) -> str:
        return f"event {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise PermissionDenied(f"Audit event {self.pk} is append-only and cannot be changed.")
        super().save(*args, **kwargs)


class DeletionReceipt(models.Model):
    """What one deletion removed, by place. It names nobody: `subject` is a keyed hash.

    Incomplete while one of its pending removals is open.
    """

    class Kind(models.TextChoices):
        SESSION = "session", "Conversation"
        USER = "user", "Everything about a person"
        PREFERENCE = "preference", "Preference"
        MESSAGE = "message", "Message and its answers"
        MEMORY = "memory", "Memory of a person"

    class By(models.TextChoices):
        OWNER = "owner", "the person"
        STAFF = "staff", "staff"
        COMMAND = "command", "a command"
        POLICY = "policy", "a retention rule"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    by = models.CharField(max_length=7, choices=By.choices)
    subject = models.CharField(max_length=64, help_text="HMAC-SHA-256 of the id of what went.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="deletion_receipts",
        help_text="Whose it was, while the account exists.",
    )
    tenant = models.ForeignKey(
        Tenant, null=True, blank=True, on_delete=models.SET_NULL, related_name="deletion_receipts"
    )
    counts = models.JSONField(default=dict, help_text="How many went, by place.")
    verification = models.JSONField(
        null=True, blank=True, help_text="What a later search still found, by place."
    )
    verified_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "deletion receipt"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["owner", "-created_at"], name="chat_receipt_owner")]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def is_complete(self) -> bool:
        return not self.pending_removals.exists()


class PendingRemoval(models.Model):
    """What must still go from another store; written in the transaction that deletes."""

    class Kind(models.TextChoices):
        CACHE = "cache", "Cache key"
        FILE = "file", "File"
        INDEX = "index", "Index entry"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=500)
    receipt = models.ForeignKey(
        DeletionReceipt,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="pending_removals",
    )
    attempts = models.PositiveIntegerField(default=0)
    last_error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"removal {self.pk}"


class SessionTombstone(models.Model):
    """A deleted session: late writers, tasks and imports look here before they write."""

    chat_session_id = models.UUIDField(primary_key=True)
    deleted_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return str(self.pk)
