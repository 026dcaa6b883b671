"""Clearing what the model is told of a session."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat import retention
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import Body
from chat.api.payloads import preference_payload
from chat.api.problems import FieldError, Invalid
from chat.models import ChatSession
from chat.retention import UnknownPreferences

MOST_PREFERENCES = 1000


class ClearOrder(Body):
    delete_preferences = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        required=False,
        max_length=MOST_PREFERENCES,
        help_text="Ids of preferences that came from this session.",
    )


class ClearMemory(Endpoint):
    @extend_schema(
        operation_id="preview_clear_memory",
        responses={200: schema.SessionPreferences, **schema.problems(404)},
    )
    def get(self, request: Request, session_id: uuid.UUID) -> Response:
        """The preferences that came from this session and outlive its memory."""
        return Response({"preferences": left(self.chat_session(session_id))})

    @extend_schema(
        operation_id="clear_memory",
        request=ClearOrder,
        responses={200: schema.ClearedMemory, **schema.problems(400, 403, 404, 409, 413)},
    )
    def post(self, request: Request, session_id: uuid.UUID) -> Response:
        """Draw the forget line after the newest message. A running answer is stopped first."""
        chat_session = self.chat_session(session_id)
        body = ClearOrder.read(request)
        try:
            cleared = retention.clear_memory(
                chat_session.pk,
                delete_preferences=body.validated_data.get("delete_preferences", ()),
                **self.actor(),
            )
        except UnknownPreferences as unknown:
            values = ", ".join(map(str, unknown.ids))
            raise Invalid([FieldError("delete_preferences", values, str(unknown))]) from None
        return Response(
            {
                "memory_starts_after": cleared.memory_starts_after,
                "preferences": left(chat_session),
            }
        )


def left(chat_session: ChatSession) -> list[dict[str, object]]:
    return [preference_payload(each) for each in retention.preferences_from(chat_session)]
