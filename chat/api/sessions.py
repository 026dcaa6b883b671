"""Sessions: list, create, read, change, delete."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, events, retention
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import MAX_INTEGER, Body, OneLine, with_cleaned
from chat.api.paging import PageQuery, SessionPages
from chat.api.payloads import receipt_payload, session_payload
from chat.api.problems import Conflict, FieldError, Invalid, shown
from chat.models import Assistant, ChatSession

TITLE_LENGTH = 200
MOST_MESSAGES = 10_000


class NewSession(Body):
    assistant = OneLine(required=False, help_text="Its slug; the default one when absent.")
    title = OneLine(required=False, allow_blank=True, max_length=TITLE_LENGTH)
    is_temporary = serializers.BooleanField(
        required=False, help_text="Its text is kept for a time in the cache alone."
    )


class SessionChanges(Body):
    title = OneLine(
        required=False,
        allow_blank=True,
        max_length=TITLE_LENGTH,
        help_text="Empty: named after its first message again.",
    )
    is_pinned = serializers.BooleanField(required=False)
    is_archived = serializers.BooleanField(required=False)
    memory_enabled = serializers.BooleanField(required=False, allow_null=True)
    max_messages = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MOST_MESSAGES
    )
    max_tokens = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MAX_INTEGER
    )


class SessionQuery(PageQuery):
    """Which sessions; without a parameter all, archived ones too."""

    is_pinned = serializers.BooleanField(required=False, allow_null=True)
    is_archived = serializers.BooleanField(required=False, allow_null=True)


class SessionList(Endpoint):
    @extend_schema(
        operation_id="list_sessions",
        parameters=[SessionQuery],
        responses={200: schema.Sessions, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """The asker's sessions, the one with the newest activity first."""
        mine = access.chat_sessions_of(self.person, self.tenant()).select_related("assistant")
        wanted = SessionQuery.read(request)
        for name in ("is_pinned", "is_archived"):
            if (value := wanted.get(name)) is not None:
                mine = mine.filter(**{name: value})
        pages = SessionPages()
        rows = pages.paginate_queryset(mine, request, view=self) or []
        return pages.get_paginated_response([session_payload(row) for row in rows])

    @extend_schema(
        operation_id="create_session",
        request=NewSession,
        responses={201: schema.WrittenSession, **schema.problems(400, 403, 409, 413)},
    )
    def post(self, request: Request) -> Response:
        """Begin a session with an assistant."""
        body = NewSession.read(request)
        tenant, title = self.tenant(), body.validated_data.get("title", "")
        made = ChatSession.objects.create(
            tenant=tenant,
            user=self.person,
            assistant=chosen_assistant(tenant, body.validated_data.get("assistant")),
            title=title,
            title_source=title_source(title),
            is_temporary=body.validated_data.get("is_temporary", False)
            or not settings.CHAT_MEMORY_PERSISTENCE_ENABLED,
        )
        return Response(with_cleaned(session_payload(made), body), status=201)


def chosen_assistant(tenant: Any, slug: str | None) -> Assistant:
    try:
        return access.assistant_for(tenant, slug)
    except access.NotFound:
        if slug is None:
            detail = "No assistant is offered here; an administrator can add one."
            raise Conflict(detail, code="no_assistant") from None
        message = "Choose one of /api/v1/assistants/."
        raise Invalid([FieldError("assistant", shown(slug), message)]) from None


def title_source(title: str) -> str:
    return ChatSession.TitleSource.USER if title else ChatSession.TitleSource.AUTO


class SessionDetail(Endpoint):
    @extend_schema(
        operation_id="read_session", responses={200: schema.Session, **schema.problems(404)}
    )
    def get(self, request: Request, session_id: uuid.UUID) -> Response:
        """One session."""
        return Response(session_payload(self.chat_session(session_id)))

    @extend_schema(
        operation_id="change_session",
        request=SessionChanges,
        responses={200: schema.WrittenSession, **schema.problems(400, 403, 404, 413)},
    )
    def patch(self, request: Request, session_id: uuid.UUID) -> Response:
        """Rename, pin or archive a session, or set what its memory holds."""
        chat_session = self.chat_session(session_id)
        body = SessionChanges.read(request)
        changes = dict(body.validated_data)
        if "title" in changes:
            changes["title_source"] = title_source(changes["title"])
        if changes:
            change(chat_session, changes)
        return Response(with_cleaned(session_payload(chat_session), body))

    @extend_schema(
        operation_id="delete_session",
        responses={200: schema.Deleted, **schema.problems(403, 404)},
    )
    def delete(self, request: Request, session_id: uuid.UUID) -> Response:
        """Delete a session for good, with everything that derives from it. Preferences stay."""
        receipt = retention.forget_session(self.chat_session(session_id).pk, **self.actor())
        return Response({"receipt": receipt_payload(receipt)})


def change(chat_session: ChatSession, changes: dict[str, Any]) -> None:
    """Write the changed columns alone: a turn may be writing the others at this moment."""
    if not ChatSession.objects.filter(pk=chat_session.pk).update(**changes):
        raise access.NotFound("session")
    chat_session.refresh_from_db(fields=[*changes])
    events.publish_from_thread(chat_session.pk, events.session_updated(chat_session, **changes))
