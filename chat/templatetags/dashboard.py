"""The overview above the list of lists, for those who may see what was used."""

from __future__ import annotations

from typing import Any

from django import template

from chat.admin.dashboard import dashboard

register = template.Library()


@register.inclusion_tag("admin/chat/dashboard.html", takes_context=True)
def usage_dashboard(context: dict[str, Any]) -> dict[str, Any]:
    request = context["request"]
    if not request.user.has_perm("chat.view_dailyusage"):
        return {}
    return {**dashboard(request), "request": request}
