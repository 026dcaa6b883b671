"""Tenants and who belongs to them."""

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

DEFAULT_TENANT_SLUG = "default"


class Tenant(models.Model):
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=200)
    is_active = models.BooleanField(default=True)
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Sessions idle longer than this are removed by cleanup_chats; empty = never.",
    )

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "tenant"], name="chat_membership_unique")
        ]

    def __str__(self) -> str:
        return f"membership {self.pk}"
