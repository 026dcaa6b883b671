"""What can be asked of turns: the bodies of the requests that start or stop one."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from chat.api.bodies import MAX_INTEGER, Body, CleanText
from chat.api.problems import FieldError, Invalid, shown
from chat.turns import ANY_PARENT


class TurnOrder(Body):
    """What every start of a turn brings."""

    client_id = serializers.UUIDField(
        required=False, help_text="Made by the client; a repeated one begins nothing."
    )

    def client(self, request: Request) -> uuid.UUID:
        """The id in the body or in the Idempotency-Key header; both must say the same."""
        given: uuid.UUID | None = self.validated_data.get("client_id")
        header = request.headers.get("Idempotency-Key")
        if header is None:
            if given is None:
                message = "Make a UUID and send it again when you repeat the request."
                raise Invalid([FieldError("client_id", None, message, "required")])
            return given
        try:
            key = uuid.UUID(header)
        except ValueError:
            message = "Give a UUID."
            raise Invalid([FieldError("Idempotency-Key", shown(header), message)]) from None
        if given is not None and given != key:
            message = f"It must equal client_id, which is {given}."
            raise Invalid([FieldError("Idempotency-Key", shown(header), message)])
        return key


class EditOrder(TurnOrder):
    """Another wording of an earlier message."""

    text = CleanText(trim_whitespace=False)


class SendOrder(EditOrder):
    """A new message at the end of the branch that is shown."""

    text = CleanText(trim_whitespace=False, allow_blank=True)

    parent = serializers.UUIDField(  # type: ignore[assignment]  # Field has a `parent` of its own
        required=False,
        allow_null=True,
        help_text="The newest message that the sender knows; null: none.",
    )

    attachments = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        help_text="Images that were uploaded into this session and not sent yet.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """An image says enough; without one there must be a text."""
        if not attrs["text"] and not attrs.get("attachments"):
            blank = serializers.CharField.default_error_messages["blank"]
            raise serializers.ValidationError({"text": [blank]}, code="blank")
        return attrs

    def parent_id(self) -> str | None:
        parent = self.validated_data.get("parent", ANY_PARENT)
        return None if parent is None else str(parent)


class StopOrder(Body):
    """The end of a running turn."""

    seen = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=MAX_INTEGER,
        help_text="The last offset that was shown; the stored answer is cut there.",
    )
