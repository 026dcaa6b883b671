"""The messages of a session, on the branch that is shown."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, events
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.paging import SeqQuery, seq_page


class MessageList(Endpoint):
    @extend_schema(
        operation_id="list_messages",
        parameters=[SeqQuery],
        responses={200: schema.Messages, **schema.problems(400, 404)},
    )
    def get(self, request: Request, session_id: uuid.UUID) -> Response:
        """Messages by seq: the newest, or those before, after or around one."""
        branch = access.path_messages(self.chat_session(session_id))
        page = seq_page(branch, **SeqQuery.read(request))
        return Response(
            {
                "results": events.message_payloads(page.messages),
                "has_before": page.has_before,
                "has_after": page.has_after,
            }
        )
