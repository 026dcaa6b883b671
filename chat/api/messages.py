"""The messages of a session, on the branch that is shown."""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, events, retention
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.paging import SeqQuery, seq_page
from chat.api.payloads import receipt_payload
from chat.models import ChatSession
from chat.turns import branches


class MessageList(Endpoint):
    @extend_schema(
        operation_id="list_messages",
        parameters=[SeqQuery],
        responses={200: schema.Messages, **schema.problems(400, 404, 503)},
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


class MessageDetail(Endpoint):
    @extend_schema(
        operation_id="delete_message",
        responses={200: schema.DeletedPair, **schema.problems(403, 404, 409, 503)},
    )
    def delete(self, request: Request, session_id: uuid.UUID, message_id: uuid.UUID) -> Response:
        """Delete a message of the asker with its answers; what followed stays."""
        chat_session = self.chat_session(session_id)
        try:
            receipt = retention.forget_pair(chat_session.pk, message_id, **self.actor())
        except retention.NoSuchMessage:
            raise access.NotFound("message") from None
        head = ChatSession.objects.filter(pk=chat_session.pk).values_list("head", flat=True).first()
        return Response({"receipt": receipt_payload(receipt), "head": head})


class BranchSelect(Endpoint):
    @extend_schema(
        operation_id="select_branch",
        request=None,
        responses={200: schema.Head, **schema.problems(400, 403, 404, 409, 413)},
    )
    def post(self, request: Request, session_id: uuid.UUID, message_id: uuid.UUID) -> Response:
        """Show the branch through a message, down to its newest end."""
        chat_session = self.chat_session(session_id)
        head = str(branches.select(chat_session.pk, message_id))
        frame = events.session_updated(chat_session, head=head)
        events.publish_from_thread(chat_session.pk, frame)
        chosen = access.path_messages(chat_session).filter(pk=message_id)
        return Response({"head": head, "seq": chosen.values_list("seq", flat=True).first()})
