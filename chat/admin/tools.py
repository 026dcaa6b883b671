"""The tools that models may call: what each says of itself, and which assistants offer it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from chat.admin.requests import pretty
from chat.models import Assistant
from chat.turns import tools


@dataclass(frozen=True)
class Shown:
    name: str
    tool: tools.Tool | None
    """None: an assistant names it, and CHAT_TOOLS does not."""
    parameters: str
    assistants: Sequence[Assistant]


def shown(assistants: Iterable[Assistant]) -> list[Shown]:
    """Every tool of CHAT_TOOLS, then what only `assistants` name."""
    known = tools.registered()
    named: dict[str, list[Assistant]] = {name: [] for name in known}
    for assistant in assistants:
        for name in assistant.tools:
            named.setdefault(name, []).append(assistant)
    return [
        Shown(name, tool, pretty(dict(tool.parameters)) if tool else "", offering)
        for name, offering in named.items()
        for tool in [known.get(name)]
    ]


class ToolsPage(admin.ModelAdmin):
    """Adds the page of the tools below the assistants."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.tools_view)
        return [path("tools/", view, name="chat_assistant_tools"), *super().get_urls()]

    def tools_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        rows: Any = self.get_queryset(request).order_by("name")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Tools",
            "tools": shown(rows.only("pk", "name", "slug", "tools", "is_active")),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/chat/tools.html", context)
