"""Turns that were: what became of one, and what it was sent with."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, events, records
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import MAX_INTEGER, Query
from chat.models import ChatTurn, ContextRecord

OPERATOR_KIND = "prompt"  # its text is the operator's, and not for users


class TurnDetail(Endpoint):
    @extend_schema(operation_id="read_turn", responses={200: schema.Turn, **schema.problems(404)})
    def get(self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID) -> Response:
        """One turn."""
        turn = access.turn_for(self.chat_session(session_id), turn_id)
        answers = ChatTurn.objects.filter(input=turn.input_id).count()
        feedback = events.feedback_of([turn.pk]).get(turn.pk)
        return Response(events.turn_payload(turn, answers, feedback))


class AttemptQuery(Query):
    attempt = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_INTEGER,
        help_text="Which request of the turn; the last one when absent.",
    )


class TurnContext(Endpoint):
    @extend_schema(
        operation_id="read_context",
        parameters=[AttemptQuery],
        responses={200: schema.Context, **schema.problems(400, 404, 503)},
    )
    def get(self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID) -> Response:
        """What a request of the turn held, part by part, and what was left out and why."""
        turn = access.turn_for(self.chat_session(session_id), turn_id)
        record = find_record(turn, AttemptQuery.read(request).get("attempt"))
        rebuilt = records.rebuild(record)
        return Response(
            {
                "attempt": record.attempt,
                "manifest": record.manifest,
                "parts": list(parts(record, rebuilt)),
                "proof": rebuilt.proof,
            }
        )


def find_record(turn: ChatTurn, attempt: int | None) -> ContextRecord:
    found = turn.context_records.order_by("-attempt")
    if attempt is not None:
        found = found.filter(attempt=attempt)
    record = found.first()
    if record is None:
        raise access.NotFound("context")
    return record


def parts(record: ContextRecord, rebuilt: records.Rebuilt) -> Iterator[dict[str, Any]]:
    """The lines of the manifest, one for each message of the request, with the message's text."""
    messages = rebuilt.request["messages"]
    for part, message in zip(record.manifest["parts"], messages, strict=True):
        if part["kind"] == OPERATOR_KIND or message["content"] is None:
            yield part
        else:
            text = records.text_of(message) or ""
            yield {**part, "text": text[part.get("operator_characters", 0) :]}
