"""Documents that staff attach to an assistant, for it to be given passages of."""

from django.db import models

from chat.models.endpoints import Assistant


class AssistantDocument(models.Model):
    """A text or markdown file, as it was uploaded. Another version is another document."""

    assistant = models.ForeignKey(Assistant, on_delete=models.CASCADE, related_name="documents")
    name = models.CharField(max_length=200, help_text="As passages name their source.")
    text = models.TextField()
    sha256 = models.CharField("SHA-256", max_length=64, editable=False)
    size = models.PositiveIntegerField(editable=False, help_text="Bytes of UTF-8.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "document"
        ordering = ["assistant", "name"]
        constraints = [
            models.UniqueConstraint(fields=["assistant", "name"], name="chat_document_name")
        ]

    def __str__(self) -> str:
        return self.name
