"""Images for messages to come: uploaded, looked at, removed again before they are sent."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, attachments, retention
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.problems import Conflict, FieldError, Invalid, TooLarge
from chat.models import ChatSession
from chat.turns import Refused

FORM_BYTES = 16 * 1024  # of a form around its file


class AnyType(BaseRenderer):
    """Lets an <img>, which asks for images, be answered; the file is not rendered by DRF."""

    media_type = "*/*"
    format = "file"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return bytes(data)


class AttachmentList(Endpoint):
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="upload_attachment",
        request={"multipart/form-data": schema.UPLOAD},
        responses={201: schema.Attachment, **schema.problems(400, 403, 404, 409, 413, 415, 422)},
    )
    def post(self, request: Request, session_id: uuid.UUID) -> Response:
        """Upload an image (PNG, JPEG, GIF or WebP, by its content) to send with a message."""
        chat_session = self.chat_session(session_id)
        if chat_session.is_temporary:
            raise Conflict("Temporary conversations take no attachments.", code="no_attachments")
        file = uploaded_file(request)
        try:
            made = attachments.store(chat_session, self.person, file.name or "", file.read())
        except attachments.BadImage as bad:
            raise Refused(bad.code, bad.detail, **bad.more) from None
        except ChatSession.DoesNotExist:
            raise access.NotFound("session") from None
        return Response(attachments.described([attachments.message_part(made)])[0], status=201)


def uploaded_file(request: Request) -> Any:
    """The one file of the form; refused by its size before its content is looked at."""
    most = settings.CHAT_MAX_ATTACHMENT_BYTES
    too_large = TooLarge(f"The file has more than {most:,} bytes, which is the most for an image.")
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        length = 0
    if length > most + FORM_BYTES:
        raise too_large
    files = [each for _, found in request.FILES.lists() for each in found]
    if len(files) != 1 or "file" not in request.FILES:
        raise Invalid([FieldError("file", None, "Send one file, in the field `file`.", "required")])
    if (files[0].size or 0) > most:
        raise too_large
    return files[0]


class AttachmentDetail(Endpoint):
    @extend_schema(
        operation_id="remove_attachment", responses={204: None, **schema.problems(403, 404, 409)}
    )
    def delete(self, request: Request, attachment_id: uuid.UUID) -> Response:
        """Remove an image that was not sent; one that was leaves with its session."""
        found = access.attachment_for(self.person, attachment_id, request.session)
        if not retention.remove_unsent(found.pk):
            raise Conflict("It was sent: it leaves with its conversation.", code="already_sent")
        return Response(status=204)


class AttachmentFile(Endpoint):
    renderer_classes = [AnyType, JSONRenderer]
    metadata_class = None  # what OPTIONS would say of it is no image

    @extend_schema(
        operation_id="read_attachment",
        responses={(200, "image/*"): bytes, **schema.problems(404)},
    )
    def get(self, request: Request, attachment_id: uuid.UUID) -> HttpResponse:
        """The image itself."""
        found = access.attachment_for(self.person, attachment_id, request.session)
        try:
            return attachments.file_response(found)
        except attachments.Unreadable:
            raise access.NotFound("attachment") from None
