"""The admin site as a test walks it: who signs in, where pages are, what they say."""

from __future__ import annotations

import html
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from tests import builders

VIEWS = [
    "auth.view_user",
    "chat.view_assistant",
    "chat.view_assistantdocument",
    "chat.view_auditevent",
    "chat.view_chatmessage",
    "chat.view_chatsession",
    "chat.view_chatturn",
    "chat.view_cleanuprun",
    "chat.view_context",
    "chat.view_contextpart",
    "chat.view_contextrecord",
    "chat.view_dailyusage",
    "chat.view_deletionreceipt",
    "chat.view_feedback",
    "chat.view_followup",
    "chat.view_membership",
    "chat.view_modelcall",
    "chat.view_modelendpoint",
    "chat.view_pendingremoval",
    "chat.view_reviewtag",
    "chat.view_sessiontombstone",
    "chat.view_tenant",
    "memory.view_conversationsummary",
    "memory.view_memorysnapshot",
    "memory.view_userdigest",
    "memory.view_userpreference",
]
READ = "chat.read_message_content"
CHANGES = ["chat.change_chatsession", "chat.delete_chatsession"]
OURS = [model for model in admin.site._registry if model._meta.app_label in {"chat", "memory"}]


def signed_in(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def viewer(*permissions: str, tenants: Any = ()) -> Any:
    """Staff of the default tenant, who may look at every list and read no text."""
    home = tenants or [builders.tenant("default")]
    return builders.staff(tenants=home, permissions=[*VIEWS, *permissions])


def list_url(model: type[Any]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def page_url(row: Any) -> str:
    name = f"{row._meta.app_label}_{row._meta.model_name}"
    return reverse(f"admin:{name}_change", args=[row.pk])


def transcript_url(chat_session: Any) -> str:
    return reverse("admin:chat_chatsession_transcript", args=[chat_session.pk])


def sent_url(record: Any) -> str:
    return reverse("admin:chat_contextrecord_sent", args=[record.pk])


def text_of(response: Any) -> str:
    return html.unescape(response.content.decode())


def rows_of(response: Any) -> list[Any]:
    """The rows of a list page, in order."""
    return list(response.context["cl"].result_list)


def member(group: str, *, tenants: Any = ()) -> Any:
    """Staff with one of the groups that the migrations make, in the default tenant or `tenants`."""
    person = builders.staff(tenants=tenants or [builders.tenant("default")])
    person.groups.add(Group.objects.get(name=group))
    return person


def review_url(chat_session: Any) -> str:
    return reverse("admin:chat_chatsession_review", args=[chat_session.pk])


def said(response: Any) -> list[str]:
    """What the page that a form led to tells its reader."""
    return [str(each) for each in response.context["messages"]]
