"""What the API answers, for its OpenAPI description; `payloads` and `chat.events` build it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema_field
from rest_framework import serializers

from chat.models import ChatMessage, ChatSession, ChatTurn, DeletionReceipt
from memory.models import UserPreference


class Shape(serializers.Serializer[Any]):
    """The shape of an answer; never used to read anything."""


class FieldProblem(Shape):
    field = serializers.CharField()
    value = serializers.CharField(allow_null=True, help_text="As far as it is shown.")
    message = serializers.CharField(help_text="What to do.")
    code = serializers.CharField()


class ProblemDocument(Shape):
    """RFC 9457. `code` is stable; `detail` is for people."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = FieldProblem(  # type: ignore[assignment]  # the field's name is Serializer's too
        many=True, required=False, help_text="With code invalid."
    )


MEANINGS = {
    400: "The request cannot be understood; `errors` names each field.",
    401: "Nobody is signed in.",
    403: "The CSRF token is missing.",
    404: "There is no such thing, or it is somebody else's.",
    406: "The answer cannot be of a type that Accept asks for; it is JSON.",
    409: "The session is not in a state for this; `code` says why.",
    413: "The body is too large.",
    415: "The content is of a type that is not taken here.",
    422: "The message does not fit into a request to the model, or the image is none.",
    429: "Too many requests; Retry-After says for how long.",
    503: "The server is overloaded, or the store of temporary sessions cannot be reached.",
}


OF_EVERY_OPERATION = {401, 406, 429}
OF_EVERY_BODY = {413, 415}


def problems(*statuses: int) -> dict[tuple[int, str], Any]:
    """The problem answers of an operation, besides those of every one and of every body."""
    all_of_them = OF_EVERY_OPERATION | {*statuses}
    if all_of_them & OF_EVERY_BODY:
        all_of_them |= OF_EVERY_BODY
    return {
        (status, "application/problem+json"): OpenApiResponse(
            ProblemDocument, description=MEANINGS[status]
        )
        for status in sorted(all_of_them)
    }


# --- Assistants and sessions ----------------------------------------------------------------------


class AssistantName(Shape):
    slug = serializers.CharField()
    name = serializers.CharField()


class Assistant(AssistantName):
    is_default = serializers.BooleanField()


class Assistants(Shape):
    results = Assistant(many=True)


class Session(Shape):
    id = serializers.UUIDField()
    title = serializers.CharField()
    title_source = serializers.ChoiceField(ChatSession.TitleSource.choices)
    assistant = AssistantName()
    is_pinned = serializers.BooleanField()
    is_archived = serializers.BooleanField()
    is_temporary = serializers.BooleanField()
    memory_enabled = serializers.BooleanField(allow_null=True, help_text="null: the assistant's.")
    max_messages = serializers.IntegerField(allow_null=True, help_text="null: the assistant's.")
    max_tokens = serializers.IntegerField(allow_null=True, help_text="null: the assistant's.")
    memory_starts_after = serializers.IntegerField(help_text="seq of the forget line; 0: none.")
    message_count = serializers.IntegerField()
    running = serializers.UUIDField(allow_null=True, help_text="The turn that runs.")
    created_at = serializers.DateTimeField()
    last_active_at = serializers.DateTimeField()


class CursorPage(Shape):
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


class Sessions(CursorPage):
    results = Session(many=True)


class Cleaned(Shape):
    cleaned = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Fields that lost NUL characters or lone surrogates; absent when none did.",
    )


class WrittenSession(Session, Cleaned):
    pass


# --- Messages and turns ---------------------------------------------------------------------------


class TurnError(Shape):
    code = serializers.CharField()
    detail = serializers.CharField()
    retryable = serializers.BooleanField()


class Usage(Shape):
    input = serializers.IntegerField(allow_null=True)
    cached_input = serializers.IntegerField(allow_null=True)
    output = serializers.IntegerField(allow_null=True)


class SchemaCheck(Shape):
    follows = serializers.BooleanField()
    error = serializers.CharField(help_text="The rule that was missed; empty when it follows.")


class Feedback(Shape):
    value = serializers.ChoiceField([(1, "Good"), (-1, "Bad")])
    comment = serializers.CharField()


class Turn(Shape):
    id = serializers.UUIDField()
    input = serializers.UUIDField(help_text="The message that it answers.")
    number = serializers.IntegerField()
    status = serializers.ChoiceField(ChatTurn.Status.choices)
    finish_reason = serializers.CharField()
    error = TurnError(allow_null=True)
    output_schema = SchemaCheck(
        allow_null=True, help_text="null: no schema was asked for, or the answer is unfinished."
    )
    model = serializers.CharField()
    ms = serializers.IntegerField(allow_null=True, help_text="From start to end.")
    usage = Usage()
    answers = serializers.IntegerField(help_text="Turns for the same input.")
    feedback = serializers.IntegerField(allow_null=True, help_text="The holder's: 1 or -1.")


UPLOAD = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}},
    "required": ["file"],
}


class Attachment(Shape):
    id = serializers.UUIDField()
    name = serializers.CharField()
    content_type = serializers.CharField(help_text="As found in the content.")
    size = serializers.IntegerField(help_text="Bytes.")
    width = serializers.IntegerField()
    height = serializers.IntegerField()
    url = serializers.CharField()


class ToolCall(Shape):
    id = serializers.CharField()
    name = serializers.CharField()
    arguments = serializers.CharField(help_text="As JSON text.")


class Message(Shape):
    id = serializers.UUIDField()
    parent = serializers.UUIDField(allow_null=True)  # type: ignore[assignment]
    seq = serializers.IntegerField()
    role = serializers.ChoiceField(ChatMessage.Role.choices)
    content = serializers.CharField(allow_null=True, help_text="The source text.")
    html = serializers.CharField(help_text="Rendered and sanitised.")
    is_partial = serializers.BooleanField(help_text="An answer that was cut off.")
    tool_calls = ToolCall(many=True, help_text="That an answer asked for.")
    tool_call_id = serializers.CharField(help_text="Of the call that a tool's result answers.")
    name = serializers.CharField(help_text="The tool that a result comes from.")
    is_error = serializers.BooleanField(help_text="A result that says why a call failed.")
    is_redacted = serializers.BooleanField(help_text="Staff took its text out.")
    created_at = serializers.DateTimeField()
    token_count = serializers.IntegerField(allow_null=True)
    attachments = Attachment(many=True)
    siblings = serializers.ListField(
        child=serializers.UUIDField(),
        help_text="What stands in its place on one branch or another, itself too, by seq.",
    )
    continuations = serializers.ListField(
        child=serializers.UUIDField(),
        help_text="What follows it on other branches, where the one that is shown ends at it.",
    )
    turn = Turn(allow_null=True, help_text="That made it; of an input: its newest.")


class Messages(Shape):
    results = Message(many=True, help_text="In the order of seq.")
    has_before = serializers.BooleanField()
    has_after = serializers.BooleanField()


class Head(Shape):
    head = serializers.UUIDField(help_text="The newest message of the branch that is shown now.")
    seq = serializers.IntegerField(
        allow_null=True, help_text="Of the chosen message; null: it was deleted meanwhile."
    )


class FinishedTurn(Turn, Cleaned):
    message = Message(allow_null=True, help_text="The answer; null when there is none.")
    steps = Message(many=True, help_text="Calls of tools and their results, before the answer.")


class ContextPart(Shape):
    kind = serializers.CharField(help_text="prompt, history, input or running.")
    role = serializers.CharField()
    tokens = serializers.IntegerField()
    seq = serializers.IntegerField(required=False)
    ids = serializers.ListField(child=serializers.UUIDField(), help_text="Messages in this part.")
    mark = serializers.CharField(required=False, help_text="cut_off: sent with such a mark.")
    preferences = serializers.ListField(
        child=serializers.IntegerField(), required=False, help_text="Preferences at its head."
    )
    images = serializers.IntegerField(required=False, help_text="Images sent behind the text.")
    references = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Passages at its head, by id."
    )
    operator_characters = serializers.IntegerField(
        required=False,
        help_text="Length of the operator's own text at its head, which `text` is without.",
    )
    text = serializers.CharField(required=False, help_text="Absent for the operator's own text.")


class ServerSentEvent(Shape):
    """One event of the stream; they are the frames of the websocket, in the same order."""

    event = serializers.CharField(help_text="The frame's type, such as turn.delta.")
    data = serializers.CharField(  # type: ignore[assignment]  # the name is Serializer's too
        help_text="The frame as JSON."
    )


@extend_schema_field({"type": "object", "additionalProperties": True})
class Manifest(serializers.JSONField):
    pass


class Context(Shape):
    """What one request to the model held."""

    attempt = serializers.IntegerField()
    manifest = Manifest()
    parts = ContextPart(many=True)
    proof = serializers.ChoiceField(
        ["ok", "mismatch", "missing"], help_text="Whether the parts are exactly what was sent."
    )


# --- Memory ---------------------------------------------------------------------------------------


class PreferenceSource(Shape):
    session = serializers.UUIDField()
    seq = serializers.IntegerField(allow_null=True, help_text="Of the message in it.")


class Preference(Shape):
    id = serializers.IntegerField()
    key = serializers.CharField()
    text = serializers.CharField()
    scope = serializers.CharField(help_text="all, or the slug of an assistant.")
    status = serializers.ChoiceField(UserPreference.Status.choices)
    origin = serializers.ChoiceField(UserPreference.Origin.choices)
    quote = serializers.CharField(help_text="The words that it was taken from; may be empty.")
    source = PreferenceSource(  # type: ignore[assignment]  # the name is Serializer's too
        allow_null=True, help_text="null: written by hand, or its session is gone."
    )
    confidence = serializers.FloatField(allow_null=True, help_text="0 to 1, of an extraction.")
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="The newest request that carried it."
    )
    superseded_by = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class WrittenPreference(Preference, Cleaned):
    pass


class Preferences(CursorPage):
    results = Preference(many=True)


class SessionPreferences(Shape):
    preferences = Preference(many=True, help_text="That came from this session.")


class ClearedMemory(SessionPreferences):
    memory_starts_after = serializers.IntegerField()


class AnsweredPreference(Shape):
    preference = Preference(allow_null=True, help_text="null: it was refused and is gone.")


class Digest(Shape):
    """Who the user is and what they are busy with, made from summaries of their sessions."""

    id = serializers.IntegerField()
    text = serializers.CharField()
    is_enabled = serializers.BooleanField()
    origin = serializers.ChoiceField(["model", "user", "admin"])
    sources = serializers.IntegerField(help_text="Sessions that it was made from.")
    updated_at = serializers.DateTimeField()


class WrittenDigest(Digest, Cleaned):
    pass


class PreferenceCounts(Shape):
    active = serializers.IntegerField()
    proposed = serializers.IntegerField()
    disabled = serializers.IntegerField()


class Memory(Shape):
    enabled = serializers.BooleanField(help_text="false: switched off for the whole installation.")
    preferences_mode = serializers.ChoiceField(
        ["confirm", "auto", "off"], help_text="What becomes of what is found in messages."
    )
    digest = Digest(allow_null=True)
    preferences = PreferenceCounts()


# --- Receipts -------------------------------------------------------------------------------------


@extend_schema_field({"type": "object", "additionalProperties": {"type": "integer"}})
class Counts(serializers.JSONField):
    pass


@extend_schema_field({"type": "object", "nullable": True, "additionalProperties": True})
class Verification(serializers.JSONField):
    pass


class Receipt(Shape):
    """What one deletion removed. It names nobody."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(DeletionReceipt.Kind.choices)
    by = serializers.ChoiceField(DeletionReceipt.By.choices)
    counts = Counts(help_text="How many went, by place.")
    is_complete = serializers.BooleanField(help_text="Nothing is still to be removed elsewhere.")
    pending = serializers.IntegerField(help_text="What is still to be removed elsewhere.")
    verification = Verification(allow_null=True, help_text="What a later search found, by place.")
    created_at = serializers.DateTimeField()


class Receipts(CursorPage):
    results = Receipt(many=True)


class Deleted(Shape):
    receipt = Receipt()


class DeletedPair(Deleted):
    head = serializers.UUIDField(
        allow_null=True, help_text="The newest message of the branch that is shown now."
    )
