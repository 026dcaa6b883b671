"""What is due after a turn, claimed in the database by any process, and the calls that it made."""

from django.db import models

from chat.models.sessions import ChatSession
from chat.models.tenants import Tenant


class FollowUp(models.Model):
    """Work that is due: the row goes when it is done. One row per kind and subject.

    Whatever makes it due again while it is being done raises `version`; who did it deletes the
    row only under the version that was claimed.
    """

    class Kind(models.TextChoices):
        TITLE = "title", "Title"
        SUMMARY = "summary", "Summary"
        PREFERENCES = "preferences", "Preferences"
        DIGEST = "digest", "Digest"
        USAGE = "usage", "Daily usage"
        REMOVALS = "removals", "Pending removals"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    subject = models.CharField(
        max_length=80, help_text="The session's id; of a digest, tenant:user; of usage, the day."
    )
    chat_session = models.ForeignKey(
        ChatSession,
        verbose_name="session",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="follow_ups",
    )
    version = models.PositiveIntegerField(default=1)
    due_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0, help_text="That failed.")
    last_error = models.CharField(max_length=500, blank=True)
    claimed_by = models.CharField(max_length=40, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "follow-up"
        ordering = ["due_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject"], name="chat_follow_up_once")
        ]
        indexes = [models.Index(fields=["due_at", "id"], name="chat_follow_up_due")]

    def __str__(self) -> str:
        return f"follow-up {self.pk}"


class ModelCall(models.Model):
    """A call to a model that no turn made: a title, a summary, an extraction. Never any text."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="model_calls")
    chat_session = models.ForeignKey(
        ChatSession,
        verbose_name="session",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="model_calls",
    )
    kind = models.CharField(max_length=20, choices=FollowUp.Kind.choices)
    endpoint_name = models.CharField("endpoint", max_length=100)
    model_name = models.CharField("model", max_length=200)
    error_code = models.CharField(max_length=40, blank=True)
    input_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_input_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    cost = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "model call"
        ordering = ["-id"]
        indexes = [models.Index(fields=["finished_at"], name="chat_model_call_finished")]

    def __str__(self) -> str:
        return f"call {self.pk}"
