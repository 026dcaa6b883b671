"""What reviewers say of a conversation: tags, scores and notes."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from chat.models.sessions import ChatSession, ChatTurn
from chat.models.tenants import Tenant


class ReviewTag(models.Model):
    """A word that reviewers file sessions under, in one tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="review_tags")
    slug = models.SlugField(max_length=60, allow_unicode=True)
    name = models.CharField(max_length=100)
    chat_sessions = models.ManyToManyField(
        ChatSession, verbose_name="sessions", blank=True, related_name="review_tags"
    )

    class Meta:
        verbose_name = "tag"
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="chat_review_tag_slug")
        ]

    def __str__(self) -> str:
        return self.name


class ReviewScore(models.Model):
    """One author's score of a session or of a turn, once per name."""

    chat_session = models.ForeignKey(
        ChatSession, verbose_name="session", on_delete=models.CASCADE, related_name="review_scores"
    )
    turn = models.ForeignKey(
        ChatTurn, null=True, blank=True, on_delete=models.CASCADE, related_name="review_scores"
    )
    subject = models.CharField(
        max_length=40, editable=False, help_text='"session", or the id of the turn.'
    )
    name = models.CharField(max_length=60)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="review_scores"
    )
    value = models.SmallIntegerField(validators=[MinValueValidator(1), MaxValueValidator(5)])
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "score"
        constraints = [
            models.UniqueConstraint(
                fields=["chat_session", "subject", "name", "author"], name="chat_score_once"
            )
        ]

    def __str__(self) -> str:
        return f"score {self.pk}"


class ReviewNote(models.Model):
    """What a reviewer wrote about a session or a turn."""

    chat_session = models.ForeignKey(
        ChatSession, verbose_name="session", on_delete=models.CASCADE, related_name="review_notes"
    )
    turn = models.ForeignKey(
        ChatTurn, null=True, blank=True, on_delete=models.CASCADE, related_name="review_notes"
    )
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="review_notes",
    )
    text = models.TextField(max_length=5000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "note"
        ordering = ["id"]

    def __str__(self) -> str:
        return f"note {self.pk}"
