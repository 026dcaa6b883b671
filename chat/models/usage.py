"""The daily roll-up that dashboards read, and what cleanups did."""

from django.db import models

from chat.models.tenants import Tenant


class DailyUsage(models.Model):
    """One day (UTC) of one tenant at one model; made from the rows of that day, repeatably."""

    day = models.DateField()
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="daily_usage")
    endpoint_name = models.CharField("endpoint", max_length=100)
    model_name = models.CharField("model", max_length=200)
    sessions = models.PositiveIntegerField(default=0, help_text="In which a turn began.")
    turns = models.PositiveIntegerField(default=0)
    calls = models.PositiveIntegerField(default=0, help_text="That no turn made.")
    input_tokens = models.PositiveBigIntegerField(default=0)
    cached_input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    errors = models.JSONField(default=dict, help_text="Turns by error code.")
    latencies = models.JSONField(
        default=dict, help_text="Turns by the upper end, in ms, of the time that they took."
    )
    good = models.PositiveIntegerField(default=0, help_text="Feedback +1.")
    bad = models.PositiveIntegerField(default=0, help_text="Feedback -1.")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "daily usage"
        verbose_name_plural = "daily usage"
        ordering = ["-day", "tenant_id", "endpoint_name", "model_name"]
        constraints = [
            models.UniqueConstraint(
                fields=["day", "tenant", "endpoint_name", "model_name"], name="chat_usage_once"
            )
        ]

    def __str__(self) -> str:
        return f"usage {self.pk}"


class CleanupRun(models.Model):
    """One run of a cleanup: what it looked for, what it did, how it ended."""

    command = models.CharField(max_length=60)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    is_preview = models.BooleanField("preview", default=False)
    counts = models.JSONField(default=dict)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name = "cleanup run"
        ordering = ["-id"]
        indexes = [models.Index(fields=["command", "-id"], name="chat_cleanup_run_command")]

    def __str__(self) -> str:
        return f"run {self.pk}"
