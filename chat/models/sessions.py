"""Sessions, their messages and the turns that made them.

Order is never taken from a clock: messages are ordered by `seq`, turns by `number`. A message of
an ended turn is never changed. Whoever writes about a session first updates its row.
"""

import uuid

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

from chat.models.endpoints import Assistant
from chat.models.tenants import Tenant

# What lists of sessions are asked for and few sessions are: each has an index in their order.
LISTED_APART = {
    "held": models.Q(is_held=True),
    "archived": models.Q(is_archived=True),
    "temporary": models.Q(is_temporary=True),
    "forgetful": models.Q(memory_enabled=False),
    "errors": models.Q(failed_turns__gt=0) | models.Q(interrupted_turns__gt=0),
    "bad": models.Q(bad_votes__gt=0),
    "good": models.Q(good_votes__gt=0),
}


class ChatSession(models.Model):
    class TitleSource(models.TextChoices):
        AUTO = "auto", "a line of the first message"
        MODEL = "model", "made by a model"
        USER = "user", "given by the user"

    class ReviewState(models.TextChoices):
        NONE = "none", "None"
        QUEUED = "queued", "Queued"
        IN_REVIEW = "in_review", "In review"
        REVIEWED = "reviewed", "Reviewed"
        FLAGGED = "flagged", "Flagged"
        RESOLVED = "resolved", "Resolved"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.PROTECT,
        related_name="chat_sessions",
        db_index=False,  # an index below begins with it
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="chat_sessions"
    )
    assistant = models.ForeignKey(Assistant, on_delete=models.PROTECT, related_name="chat_sessions")
    title = models.CharField(max_length=200, blank=True)
    title_source = models.CharField(
        max_length=5, choices=TitleSource.choices, default=TitleSource.AUTO
    )
    is_pinned = models.BooleanField(default=False)
    is_archived = models.BooleanField(default=False)
    is_temporary = models.BooleanField(default=False)
    is_held = models.BooleanField("held", default=False, help_text="Kept from every cleanup.")

    memory_enabled = models.BooleanField(null=True, blank=True)
    max_messages = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    max_tokens = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    memory_starts_after = models.BigIntegerField("forget line", default=0)
    idle_line = models.BigIntegerField(
        default=0,
        help_text="A pause of CHAT_MEMORY_IDLE_DAYS put messages up to here out of the window.",
    )
    memory_epoch = models.PositiveIntegerField(default=0)
    extracted_through = models.BigIntegerField(
        default=0, help_text="Messages up to here were searched for preferences."
    )

    next_seq = models.BigIntegerField(default=1)
    head = models.ForeignKey(
        "chat.ChatMessage", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    running_turn = models.UUIDField(null=True, blank=True)
    lease_owner = models.CharField(max_length=40, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)

    message_count = models.PositiveIntegerField("messages", default=0)
    path_count = models.PositiveIntegerField(default=0, help_text="Messages on the chosen branch.")
    turn_count = models.PositiveIntegerField("turns", default=0)
    token_count = models.PositiveBigIntegerField(
        "tokens", default=0, help_text="Input and output tokens of all turns."
    )
    failed_turns = models.PositiveIntegerField("failed", default=0)
    interrupted_turns = models.PositiveIntegerField("interrupted", default=0)
    stopped_turns = models.PositiveIntegerField("stopped", default=0)
    good_votes = models.PositiveIntegerField("rated good", default=0)
    bad_votes = models.PositiveIntegerField("rated bad", default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    last_active_at = models.DateTimeField(auto_now_add=True)
    review_state = models.CharField(
        max_length=10, choices=ReviewState.choices, default=ReviewState.NONE
    )
    review_claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="claimed_reviews",
    )
    review_claimed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "session"
        ordering = ["-last_active_at", "-id"]
        indexes = [
            models.Index(
                fields=["user", "tenant", "-last_active_at", "-id"], name="chat_session_of_user"
            ),
            models.Index(fields=["-last_active_at", "-id"], name="chat_session_recent"),
            models.Index(
                fields=["tenant", "-last_active_at", "-id"], name="chat_session_of_tenant"
            ),
            models.Index(fields=["lease_expires_at"], name="chat_session_lease"),
            models.Index(fields=["review_state", "created_at", "id"], name="chat_session_review"),
            *(
                models.Index(
                    fields=["-last_active_at", "-id"], name=f"chat_session_{name}", condition=rare
                )
                for name, rare in LISTED_APART.items()
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class ChatTurn(models.Model):
    """One run of the model for one user message."""

    class Status(models.TextChoices):
        RUNNING = "running", "Running"
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"
        INTERRUPTED = "interrupted", "Interrupted"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    chat_session = models.ForeignKey(
        ChatSession,
        on_delete=models.CASCADE,
        related_name="turns",
        db_index=False,  # the unique rule below begins with it
    )
    input = models.ForeignKey(
        "chat.ChatMessage", on_delete=models.CASCADE, related_name="answering_turns"
    )
    number = models.PositiveIntegerField()
    client_id = models.UUIDField()
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.RUNNING)
    finish_reason = models.CharField(max_length=40, blank=True)
    stop_requested = models.BooleanField(default=False)
    stop_seen = models.PositiveIntegerField(
        null=True, blank=True, help_text="Code points that the reader had seen when stopping."
    )
    error_code = models.CharField(max_length=40, blank=True)
    error_detail = models.CharField(max_length=500, blank=True)
    follows_schema = models.BooleanField(
        "follows the output schema",
        null=True,
        blank=True,
        help_text="Unknown: no schema was asked for, or the answer was not finished.",
    )
    schema_error = models.CharField(
        max_length=500, blank=True, help_text="What the schema says, never what the answer says."
    )
    endpoint_name = models.CharField("endpoint", max_length=100)
    model_name = models.CharField("model", max_length=200)
    started_at = models.DateTimeField(auto_now_add=True)
    first_token_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    input_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_input_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    cost = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)

    class Meta:
        verbose_name = "turn"
        ordering = ["chat_session_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["chat_session", "number"], name="chat_turn_number"),
            models.UniqueConstraint(
                fields=["chat_session", "client_id"], name="chat_turn_client_id"
            ),
        ]
        indexes = [
            models.Index(fields=["status", "started_at"], name="chat_turn_status"),
            models.Index(fields=["started_at"], name="chat_turn_started"),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class ChatMessage(models.Model):
    class Role(models.TextChoices):
        SYSTEM = "system", "System"
        USER = "user", "User"
        ASSISTANT = "assistant", "Assistant"
        TOOL = "tool", "Tool"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    chat_session = models.ForeignKey(
        ChatSession,
        on_delete=models.CASCADE,
        related_name="messages",
        db_index=False,  # the unique rule below begins with it
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    seq = models.BigIntegerField()
    is_on_path = models.BooleanField("on the chosen branch", default=True)
    turn = models.ForeignKey(
        ChatTurn, null=True, blank=True, on_delete=models.CASCADE, related_name="messages"
    )
    role = models.CharField(max_length=9, choices=Role.choices)
    content = models.TextField(null=True, blank=True)  # null: a pure tool call
    parts = models.JSONField(default=list, blank=True)
    tool_calls = models.JSONField(default=list, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=100, blank=True)
    is_partial = models.BooleanField(default=False)
    is_error = models.BooleanField(default=False, help_text="Of a tool: it failed.")
    token_count = models.PositiveIntegerField(null=True, blank=True)
    token_encoding = models.CharField(max_length=20, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    redacted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "message"
        permissions = [
            ("read_message_content", "Can read the text of messages and contexts"),
            ("view_context", "Can see what requests were made of"),
            ("export_metadata", "Can export everything but text"),
            ("export_text", "Can export text"),
            ("redact", "Can redact messages"),
            ("manage_memory", "Can change and delete what is remembered"),
        ]
        ordering = ["chat_session_id", "seq"]
        constraints = [
            models.UniqueConstraint(fields=["chat_session", "seq"], name="chat_message_seq")
        ]
        indexes = [
            models.Index(fields=["chat_session", "is_on_path", "seq"], name="chat_message_path")
        ]

    def __str__(self) -> str:
        return str(self.pk)
