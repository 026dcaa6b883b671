"""The way from a list to its export."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.admin.views.main import ChangeList
from django.urls import reverse

from chat.access import may_export_metadata
from chat.admin.export_selections import OF_A_PAGE, SOURCES

register = template.Library()


@register.simple_tag
def export_address(changelist: ChangeList, user: Any) -> str:
    """Where the list with its filters is exported; nothing where it cannot be."""
    name = str(changelist.opts.model_name)
    if name not in SOURCES or not may_export_metadata(user):
        return ""
    query = changelist.get_query_string(dict.fromkeys(OF_A_PAGE))
    return f"{reverse('admin:chat_exportjob_new', args=[name])}{query}"
