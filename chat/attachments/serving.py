"""The file of an attachment as an HTTP response that a browser can do nothing with but show it."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from chat.attachments.files import read
from chat.models import Attachment

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",  # nothing stays behind when its owner signs out
}


def file_response(attachment: Attachment) -> HttpResponse:
    """The image with the type that was found in it; `Unreadable` when its file is gone."""
    disposition = content_disposition_header(as_attachment=False, filename=attachment.name)
    return HttpResponse(
        read(attachment),
        content_type=attachment.content_type,
        headers={**HEADERS, "Content-Disposition": disposition or "inline"},
    )
