"""Which message an entry of the search index is for, and whose it is."""

from django.conf import settings
from django.db import models

from chat.models.sessions import ChatMessage, ChatSession
from chat.models.tenants import Tenant


class SearchEntry(models.Model):
    """One indexed message. Its words lie in an engine's own index under this row's id."""

    id = models.BigAutoField(primary_key=True)
    message = models.OneToOneField(
        ChatMessage, on_delete=models.CASCADE, related_name="search_entry"
    )
    chat_session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="search_entries"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    seq = models.BigIntegerField()

    class Meta:
        verbose_name = "search entry"
        verbose_name_plural = "search entries"
        indexes = [models.Index(fields=["user", "tenant"], name="chat_search_owner")]

    def __str__(self) -> str:
        return f"entry {self.pk}"
