"""Why somebody reads: asked for before a text opens, where CHAT_READ_REASON_REQUIRED says so.

A reason is an audit event of its own. It holds for one reader, one session and one day, in the
time zone of the installation.
"""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.timezone import localtime

from chat.access import may_read_content
from chat.models import AuditEvent
from memory.text import one_line

GIVEN = "read.reason"
LENGTH = 500


def given(request: HttpRequest) -> str:
    """The reason that a form was sent with, as every engine can store it; "" for none."""
    return one_line(request.POST.get("reason", ""))[:LENGTH]


def is_demanded() -> bool:
    """Whether whoever may read has to say why; what is deleted then is not deleted silently."""
    return bool(settings.CHAT_READ_REASON_REQUIRED)


def is_missing(user: Any, session_id: uuid.UUID | None) -> bool:
    """Whether `user` has to say why before a text of the session is shown."""
    if session_id is None or not is_demanded() or not may_read_content(user):
        return False
    midnight = localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    given = AuditEvent.objects.filter(
        object_type="session",
        object_id=str(session_id),
        actor=user,
        action=GIVEN,
        at__gte=midnight,
    )
    return not given.exists()


def ask(request: HttpRequest, session_id: uuid.UUID | None) -> HttpResponse:
    """To the page that asks, and from there back here."""
    address = reverse("admin:chat_chatsession_reason", args=[session_id])
    return HttpResponseRedirect(f"{address}?{urlencode({'next': request.get_full_path()})}")


def way_back(request: HttpRequest, session_id: uuid.UUID) -> str:
    """Where the reader was going: an address of this site, else the transcript."""
    wanted = request.GET.get("next", "")
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()):
        return wanted
    return reverse("admin:chat_chatsession_transcript", args=[session_id])
