"""Preferences: what a person wants every later conversation to take into account."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, retention
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import Body, CleanText, Moment, OneLine, with_cleaned
from chat.api.paging import PageQuery, PreferencePages
from chat.api.payloads import preference_payload, receipt_payload
from chat.api.problems import Conflict, FieldError, Invalid, shown
from chat.models import ChatSession, Tenant
from chat.turns import policies
from memory import preferences
from memory.models import PREFERENCE_TEXT_LENGTH, UserPreference

Status = UserPreference.Status


class NewPreference(Body):
    key = OneLine(
        max_length=preferences.KEY_LENGTH, help_text="What it is about; one is active per key."
    )
    text = CleanText(max_length=PREFERENCE_TEXT_LENGTH)
    scope = OneLine(
        required=False, default=preferences.ALL, help_text="all, or the slug of an assistant."
    )
    session = serializers.UUIDField(required=False, help_text="The session it was said in.")
    expires_at = Moment(
        required=False, allow_null=True, help_text="Until when it holds; absent or null: for good."
    )


class PreferenceChanges(Body):
    text = CleanText(required=False, max_length=PREFERENCE_TEXT_LENGTH)
    status = serializers.ChoiceField([Status.ACTIVE.value, Status.DISABLED.value], required=False)
    expires_at = Moment(
        required=False, allow_null=True, help_text="Until when it holds; null: for good."
    )


class PreferenceList(Endpoint):
    @extend_schema(
        operation_id="list_preferences",
        parameters=[PageQuery],
        responses={200: schema.Preferences, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """The asker's preferences, active, proposed and disabled, the newest first."""
        pages = PreferencePages()
        mine = preferences.listed(*owner_of(self))
        rows = pages.paginate_queryset(mine, request, view=self) or []
        return pages.get_paginated_response([preference_payload(row) for row in rows])

    @extend_schema(
        operation_id="create_preference",
        request=NewPreference,
        responses={201: schema.WrittenPreference, **schema.problems(400, 403, 404, 409, 413)},
    )
    def post(self, request: Request) -> Response:
        """Remember something; an active preference with the same key is replaced."""
        body = NewPreference.read(request)
        values, tenant = body.validated_data, self.tenant()
        require_scope(tenant, values["scope"])
        source = self.source(values.get("session"))
        try:
            made = preferences.remember(
                tenant.pk,
                self.person.pk,
                values["scope"],
                values["key"],
                values["text"],
                origin=UserPreference.Origin.USER,
                expires_at=values.get("expires_at"),
                **source,
            )
        except IntegrityError:
            self.source(values.get("session"))  # not found any more, if it was deleted meanwhile
            raise
        return Response(with_cleaned(preference_payload(made), body), status=201)

    def source(self, session_id: uuid.UUID | None) -> dict[str, Any]:
        """Where a preference comes from, when it was said in a session."""
        if session_id is None:
            return {}
        chat_session = self.chat_session(session_id)
        require_memory(chat_session)
        return {"source_session": chat_session.pk, "source_seq": chat_session.next_seq - 1}


def require_scope(tenant: Tenant, scope: str) -> None:
    if scope == preferences.ALL or access.assistants_for(tenant).filter(slug=scope).exists():
        return
    message = "Give all, or the slug of one of /api/v1/assistants/."
    raise Invalid([FieldError("scope", shown(scope), message)])


def require_memory(chat_session: ChatSession) -> None:
    """Sessions without memory write none."""
    if chat_session.is_temporary or not policies.memory_policy(chat_session).enabled:
        raise Conflict(
            "Memory is off in this session, so it remembers nothing; switch it on, or write the"
            " preference without a session.",
            code="memory_off",
        )


def owner_of(view: Endpoint) -> tuple[int, int]:
    return view.tenant().pk, view.person.pk


def preference_for(owner: tuple[int, int], preference_id: int) -> UserPreference:
    """One of the asker's, whatever its status; else `access.NotFound`."""
    tenant_id, user_id = owner
    mine = UserPreference.objects.filter(tenant_id=tenant_id, user_id=user_id)
    found = mine.filter(pk=preference_id).first()
    if found is None:
        raise access.NotFound("preference")
    return found


class PreferenceDetail(Endpoint):
    @extend_schema(
        operation_id="change_preference",
        request=PreferenceChanges,
        responses={200: schema.WrittenPreference, **schema.problems(400, 403, 404, 409, 413)},
    )
    def patch(self, request: Request, preference_id: int) -> Response:
        """Change a preference's text or how long it holds, or disable or enable it."""
        owner = owner_of(self)
        found = preference_for(owner, preference_id)
        body = PreferenceChanges.read(request)
        try:
            with transaction.atomic():
                found = change(owner, found, body.validated_data)
        except UserPreference.DoesNotExist:
            raise access.NotFound("preference") from None
        return Response(with_cleaned(preference_payload(found), body))

    @extend_schema(
        operation_id="delete_preference",
        responses={200: schema.Deleted, **schema.problems(403, 404)},
    )
    def delete(self, request: Request, preference_id: int) -> Response:
        """Forget a preference for good, in what was sent to models too."""
        try:
            receipt = retention.forget_preference(*owner_of(self), preference_id, **self.actor())
        except UserPreference.DoesNotExist:
            raise access.NotFound("preference") from None
        return Response({"receipt": receipt_payload(receipt)})


def change(
    owner: tuple[int, int], found: UserPreference, changes: dict[str, Any]
) -> UserPreference:
    if "expires_at" in changes:
        found = preferences.set_expiry(*owner, found.pk, changes["expires_at"])
    if "text" in changes:
        found = preferences.edit(*owner, found.pk, changes["text"])
    if changes.get("status") == Status.DISABLED:
        found = preferences.disable(*owner, found.pk)
    elif changes.get("status") == Status.ACTIVE:
        found = preferences.enable(*owner, found.pk)
    return found


class AnswerBody(Body):
    keep = serializers.BooleanField(help_text="false: delete it, and do not propose it again.")


class PreferenceAnswer(Endpoint):
    @extend_schema(
        operation_id="answer_preference",
        request=AnswerBody,
        responses={200: schema.AnsweredPreference, **schema.problems(400, 403, 404, 413)},
    )
    def post(self, request: Request, preference_id: int) -> Response:
        """Keep or refuse a proposal. What was answered before stays as it is."""
        owner = owner_of(self)
        preference_for(owner, preference_id)
        keep = AnswerBody.read(request).validated_data["keep"]
        try:
            kept = retention.answer_preference(*owner, preference_id, keep)
        except UserPreference.DoesNotExist:
            raise access.NotFound("preference") from None
        return Response({"preference": preference_payload(kept) if kept is not None else None})
