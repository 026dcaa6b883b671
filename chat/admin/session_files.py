"""The images of a session for staff who may read what people wrote; each look is recorded."""

from __future__ import annotations

import uuid

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path

from chat import attachments
from chat.access import may_read_content
from chat.admin import audit, reasons


class SessionFiles(admin.ModelAdmin):
    """Adds the address of a session's attachments below its own."""

    def get_urls(self) -> list[URLPattern]:
        file_path = path(
            "<uuid:session_id>/attachments/<uuid:attachment_id>/",
            self.admin_site.admin_view(self.attachment_view),
            name="chat_chatsession_attachment",
        )
        return [file_path, *super().get_urls()]

    def attachment_view(
        self, request: HttpRequest, session_id: uuid.UUID, attachment_id: uuid.UUID
    ) -> HttpResponse:
        """The image itself, as its owner gets it; foreign and unknown ones end alike."""
        if not self.has_view_permission(request) or not may_read_content(request.user):
            raise PermissionDenied
        chat_session = self.get_object(request, str(session_id))
        found = chat_session and chat_session.attachments.filter(pk=attachment_id).first()
        if not found:
            raise Http404("There is no such image.")
        if reasons.is_missing(request.user, session_id):
            raise PermissionDenied("A reason is asked for first: open the transcript.")
        try:
            response = attachments.file_response(found)
        except attachments.Unreadable:
            raise Http404("The file of this image is gone.") from None
        audit.note(request, "attachment.read", "attachment", found.pk)
        return response
