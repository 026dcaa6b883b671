"""What the pages that look into one session have in common: who may, and where settings are set."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.urls import URLPattern, path, reverse

from chat.access import may_read_content, may_view_context, staff_chat_sessions
from chat.admin.content import why_hidden
from chat.inspection import deciding
from chat.inspection.deciding import Setting
from chat.models import ChatSession, ChatTurn

PAGES = {
    deciding.SESSION: "chat_chatsession",
    deciding.ASSISTANT: "chat_assistant",
    deciding.ENDPOINT: "chat_modelendpoint",
}
PERMISSIONS = {
    deciding.SESSION: "chat.view_chatsession",
    deciding.ASSISTANT: "chat.view_assistant",
    deciding.ENDPOINT: "chat.view_modelendpoint",
}
LONGEST_NUMBER = 18  # digits


@dataclass(frozen=True)
class SettingLink:
    """A setting as a page shows it; `url` is "" for what the environment sets."""

    setting: Setting
    url: str
    session_url: str = ""
    """Where the session itself can be given another value."""


class SessionPages(admin.ModelAdmin):
    """Pages at `of/<session>/<name>/`, below the context records."""

    session_pages: dict[str, str] = {}
    """Name -> method."""

    def get_urls(self) -> list[URLPattern]:
        added = [
            path(
                f"of/<uuid:session_id>/{name}/",
                self.admin_site.admin_view(getattr(self, view)),
                name=f"chat_contextrecord_{name.replace('-', '_')}",
            )
            for name, view in self.session_pages.items()
        ]
        return [*added, *super().get_urls()]

    def inspected(self, request: HttpRequest, session_id: uuid.UUID) -> ChatSession:
        """The session, if its tenant is the reader's; foreign and unknown ones end alike."""
        if not self.has_view_permission(request) or not may_view_context(request.user):
            raise PermissionDenied
        rows = staff_chat_sessions(request.user).select_related("assistant__endpoint", "tenant")
        chat_session = rows.filter(pk=session_id).first()
        if chat_session is None:
            raise Http404("There is no such session.")
        return chat_session

    def page_about(self, request: HttpRequest, chat_session: ChatSession) -> dict[str, Any]:
        request.current_app = self.admin_site.name
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "chat_session": chat_session,
            "reads_text": may_read_content(request.user),
            "text_is_hidden": why_hidden(request.user),
            "is_nav_sidebar_enabled": False,
        }


def links_of(
    request: HttpRequest, chat_session: ChatSession
) -> Callable[[Iterable[str]], list[SettingLink]]:
    """By names of settings, what they are today in the session, with the page where each is set
    for a reader who may open that page."""

    def link(setting: Setting) -> SettingLink:
        own = ""
        if setting.of_session and request.user.has_perm("chat.change_chatsession"):
            own = _address(deciding.SESSION, chat_session.pk, setting.of_session)
        return SettingLink(setting, _url(request.user, setting), own)

    return lambda names: [link(each) for each in deciding.settings_of(chat_session, names)]


def _url(user: Any, setting: Setting) -> str:
    if setting.where not in PAGES or not user.has_perm(PERMISSIONS[setting.where]):
        return ""
    return _address(setting.where, setting.pk, setting.field)


def _address(where: str, pk: Any, field: str) -> str:
    return f"{reverse(f'admin:{PAGES[where]}_change', args=[pk])}#id_{field}"


def number(text: str | None) -> int | None:
    """A whole number out of an address or a form; None for anything else."""
    text = (text or "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
    return int(text) if is_number else None


def numbers_of(chat_session: ChatSession) -> tuple[int, int]:
    """The numbers of the first and the newest turn; 0 where there is none."""
    turns = ChatTurn.objects.filter(chat_session=chat_session).order_by("number")
    first, last = turns.first(), turns.last()
    return (first.number, last.number) if first is not None and last is not None else (0, 0)
