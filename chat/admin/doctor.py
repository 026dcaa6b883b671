"""The memory doctor: every check of a session, with what was found and what to do about it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from chat.access import may_read_content
from chat.admin import audit, reasons
from chat.admin.base import short
from chat.admin.inspection_pages import SessionPages, SettingLink, links_of
from chat.inspection import doctor
from chat.inspection.checks import FINDING, NOTE, OK, Check

BADGES = {OK: ("ok", "good"), NOTE: ("note", "quiet"), FINDING: ("finding", "bad")}


@dataclass(frozen=True)
class Line:
    check: Check
    label: str
    badge: str
    detail: str
    settings: tuple[SettingLink, ...]


class DoctorPages(SessionPages):
    """Adds the page of the doctor. It shows no text but what a provider said of an error."""

    def doctor_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        chat_session = self.inspected(request, session_id)
        if reasons.is_missing(request.user, session_id):
            return reasons.ask(request, session_id)
        report = doctor.examine(chat_session.pk)
        with_text = may_read_content(request.user)
        links = links_of(request, report.facts.chat_session)
        audit.note(
            request,
            "doctor.read",
            "session",
            chat_session.pk,
            count=len(report.checks),
            filter={"text": with_text},
        )
        context = {
            **self.page_about(request, chat_session),
            "title": f"Memory doctor: session {short(chat_session.pk)}",
            "report": report,
            "groups": [
                (
                    group.title,
                    [
                        Line(
                            check,
                            *BADGES[check.state],
                            check.detail if with_text else "",
                            tuple(links(check.settings)),
                        )
                        for check in group.checks
                    ],
                )
                for group in report.groups
                if group.checks
            ],
            "newest": report.facts.newest,
        }
        return TemplateResponse(request, "admin/chat/doctor.html", context)
