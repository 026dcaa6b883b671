"""Exports that run behind the page, and the files that they leave for a while."""

import uuid

from django.conf import settings
from django.db import models

from chat.models.tenants import Tenant


class ExportJob(models.Model):
    """One export: what was asked for, how far it is, and the file, which expires."""

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        EXPIRED = "expired", "Expired"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="export_jobs"
    )
    tenants = models.ManyToManyField(Tenant, blank=True, related_name="+")
    kind = models.CharField(max_length=20, help_text="sessions, messages, turns, ...")
    format = models.CharField(max_length=5, help_text="jsonl or csv.")
    with_text = models.BooleanField(default=False)
    filter = models.JSONField(default=dict, blank=True)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.QUEUED)
    total = models.PositiveBigIntegerField(null=True, blank=True, help_text="Rows, when known.")
    rows = models.PositiveBigIntegerField(default=0, help_text="Written so far.")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes written so far.")
    file = models.CharField(max_length=100, blank=True, help_text="Below MEDIA_ROOT.")
    error = models.CharField(max_length=500, blank=True)
    claimed_by = models.CharField(max_length=40, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "export"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["status", "created_at"], name="chat_export_status")]

    def __str__(self) -> str:
        return str(self.pk)
