"""What a person thinks of an answer: one rating a turn, with words if they like."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, tallies, temporary, usage
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import Body, CleanText, with_cleaned
from chat.api.problems import Conflict
from chat.models import ChatTurn, Feedback

COMMENT_LENGTH = 2000  # characters
Value = Feedback.Value


class Rating(Body):
    value = serializers.ChoiceField([Value.GOOD.value, Value.BAD.value], help_text="1 or -1.")
    comment = CleanText(required=False, default="", allow_blank=True, max_length=COMMENT_LENGTH)


class TurnFeedback(Endpoint):
    @extend_schema(
        operation_id="rate_turn",
        request=Rating,
        responses={200: schema.Feedback, **schema.problems(400, 403, 404, 409, 413)},
    )
    def put(self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID) -> Response:
        """Say what the asker thinks of an answer; an earlier rating of theirs is replaced."""
        turn = self.turn(session_id, turn_id)
        body = Rating.read(request)
        refuse_temporary_comment(turn, body.validated_data["comment"])
        with tallies.counting(session_id):
            found, _ = Feedback.objects.update_or_create(
                turn=turn, user=self.person, defaults=body.validated_data
            )
            usage.mark(usage.day_of(found.created_at))
        return Response(with_cleaned(payload(found), body))

    @extend_schema(
        operation_id="take_rating_back", responses={204: None, **schema.problems(403, 404)}
    )
    def delete(self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID) -> Response:
        """Take the rating back; without one nothing happens."""
        turn = self.turn(session_id, turn_id)
        with tallies.counting(session_id):
            for each in Feedback.objects.filter(turn=turn, user=self.person):
                usage.mark(usage.day_of(each.created_at))
                each.delete()
        return Response(status=204)

    def turn(self, session_id: uuid.UUID, turn_id: uuid.UUID) -> ChatTurn:
        return access.turn_for(self.chat_session(session_id), turn_id)


def refuse_temporary_comment(turn: ChatTurn, comment: str) -> None:
    if comment and temporary.is_temporary(turn.chat_session_id):
        raise Conflict(
            "Nothing that is written in a temporary conversation is kept, so a rating takes no"
            " comment there.",
            code="temporary",
        )


def payload(feedback: Feedback) -> dict[str, Any]:
    return {"value": feedback.value, "comment": feedback.comment}
