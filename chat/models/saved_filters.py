"""What staff keep of the admin's lists under a name."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from django.conf import settings
from django.db import models


class SavedFilter(models.Model):
    """One person's filter of one list; nobody else sees it."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_filters"
    )
    list = models.CharField(max_length=100, help_text='Such as "chat_chatsession".')
    name = models.CharField(max_length=60)
    query = models.TextField(
        max_length=2000,
        help_text="The query string of the list. It may hold what was searched for.",
    )

    class Meta:
        default_permissions = ()
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "list", "name"], name="chat_saved_filter_name")
        ]

    def __str__(self) -> str:
        return f"saved filter {self.pk}"

    @property
    def asked(self) -> Sequence[tuple[str, str]]:
        """Names and values of the query."""
        return parse_qsl(self.query)
