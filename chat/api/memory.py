"""What is remembered: seen at a glance, cleared for a session, forgotten altogether."""

from __future__ import annotations

import uuid
from collections import Counter

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, retention
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import Body, CleanText, with_cleaned
from chat.api.payloads import digest_payload, preference_payload, receipt_payload
from chat.api.problems import FieldError, Invalid, shown
from chat.models import ChatSession
from chat.retention import UnknownPreferences
from memory import digests, preferences
from memory.models import UserDigest

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


# --- Across sessions ------------------------------------------------------------------------------


class MemoryOverview(Endpoint):
    @extend_schema(operation_id="read_memory", responses={200: schema.Memory, **schema.problems()})
    def get(self, request: Request) -> Response:
        """What is remembered of the asker across sessions, in numbers, and their digest."""
        owner = self.tenant().pk, self.person.pk
        counts = Counter(preferences.listed(*owner).values_list("status", flat=True))
        row = digests.row_of(*owner)
        return Response(
            {
                "enabled": settings.CHAT_MEMORY_ENABLED,
                "preferences_mode": settings.CHAT_PREFERENCES_MODE,
                "digest": digest_payload(row) if row is not None and row.text else None,
                "preferences": {name: counts[name] for name in ("active", "proposed", "disabled")},
            }
        )


class DigestChanges(Body):
    text = CleanText(required=False, max_length=digests.LENGTH)
    is_enabled = serializers.BooleanField(required=False)


class DigestDetail(Endpoint):
    @extend_schema(
        operation_id="change_digest",
        request=DigestChanges,
        responses={200: schema.WrittenDigest, **schema.problems(400, 403, 404, 413)},
    )
    def patch(self, request: Request) -> Response:
        """Write the digest, which no model changes from then on, or switch it off or on."""
        owner = self.tenant().pk, self.person.pk
        body = DigestChanges.read(request)
        found = self.digest(owner)
        if (text := body.validated_data.get("text")) is not None:
            found = digests.edit(*owner, text)
        if (enabled := body.validated_data.get("is_enabled")) is not None:
            found = digests.set_enabled(*owner, enabled) or found
        return Response(with_cleaned(digest_payload(found), body))

    @extend_schema(
        operation_id="delete_digest",
        responses={200: schema.Deleted, **schema.problems(403, 404)},
    )
    def delete(self, request: Request) -> Response:
        """Delete the digest; only what is said and summarised from now on makes another."""
        owner = self.tenant().pk, self.person.pk
        self.digest(owner)
        receipt = retention.forget_digest(*owner, **self.actor())
        return Response({"receipt": receipt_payload(receipt)})

    def digest(self, owner: tuple[int, int]) -> UserDigest:
        found = digests.row_of(*owner)
        if found is None or not found.text:
            raise access.NotFound("digest")
        return found


class ForgetOrder(Body):
    confirm = serializers.CharField(help_text="The asker's user name.", trim_whitespace=False)
    conversations = serializers.BooleanField(
        required=False, default=False, help_text="Delete every conversation too."
    )


class ForgetEverything(Endpoint):
    @extend_schema(
        operation_id="forget_everything",
        request=ForgetOrder,
        responses={200: schema.Deleted, **schema.problems(400, 403, 409, 413)},
    )
    def post(self, request: Request) -> Response:
        """Forget all that is remembered of the asker; running answers end.

        Transcripts stay, unless `conversations` asks for them to go as well: then nothing is left
        of the asker, in any tenant, but the account.
        """
        order = ForgetOrder.read(request).validated_data
        typed = order["confirm"]
        if typed != self.person.get_username():
            message = "Type your user name exactly as you sign in with it."
            raise Invalid([FieldError("confirm", shown(typed), message)])
        if order["conversations"]:
            receipt = retention.forget_user(self.person.pk, keep_account=True, **self.actor())
        else:
            receipt = retention.forget_memory(self.tenant().pk, self.person.pk, **self.actor())
        return Response({"receipt": receipt_payload(receipt)})
