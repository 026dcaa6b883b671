"""Endpoints and assistants. Past turns keep what they recorded, whatever is edited here."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import JSONField, Q, QuerySet, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from chat.access import staff_tenants
from chat.admin.base import ChatAdmin, badge, link
from chat.admin.dashboard import compact, money
from chat.admin.deletion import CountedDeletion
from chat.admin.lists import by_id, count_of, counted
from chat.admin.test_calls import TestCallPage
from chat.admin.tools import ToolsPage
from chat.models import Assistant, DailyUsage, ModelEndpoint
from chat.turns import tools
from memory.text import clean_data

USAGE_DAYS = 30


def may_shape_all(user: Any) -> bool:
    """Who may change what every tenant uses."""
    return bool(user.is_superuser)


def test_link(row: ModelEndpoint | Assistant) -> SafeString | str:
    if row._state.adding:
        return "Save it first."
    name = f"admin:chat_{row._meta.model_name}_test"
    return link(reverse(name, args=[row.pk]), "Make a test call…")


def tools_field(assistant: Assistant | None) -> forms.MultipleChoiceField:
    """The tools of CHAT_TOOLS to tick, and those that the assistant names though they are gone."""
    known = {name: f"{name}: {tool.description}" for name, tool in tools.registered().items()}
    gone = [name for name in (assistant.tools if assistant else []) if name not in known]
    choices = [*known.items(), *((name, f"{name}: not in CHAT_TOOLS any more") for name in gone)]
    return forms.MultipleChoiceField(
        choices=choices,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Offered where the endpoint supports tools, and never in temporary sessions.",
    )


class StorableJSON(forms.JSONField):
    """JSON that every engine can store and every endpoint can read."""

    def to_python(self, value: Any) -> Any:
        found = super().to_python(value)
        try:
            json.dumps(found, allow_nan=False)
        except ValueError:
            raise forms.ValidationError("NaN and infinite numbers are not JSON.") from None
        if clean_data(found) != found:
            raise forms.ValidationError("It holds NUL or half a character.")
        return found

    def prepare_value(self, value: Any) -> str:
        """Half a character is shown by its escape: no page can hold it."""
        return str(super().prepare_value(value)).encode("utf-8", "backslashreplace").decode()


@admin.register(ModelEndpoint)
class ModelEndpointAdmin(TestCallPage, CountedDeletion, ChatAdmin):
    """An endpoint receives the conversations of every tenant: superusers alone change one."""

    object_type = "endpoint"
    list_display = [
        "name",
        "model",
        "address_column",
        "key_column",
        "context_window",
        "is_active",
    ]
    list_filter = ["is_active"]
    sortable_by = None
    ordering = ["name"]
    search_help_text = "An exact id, or a part of the name or the model."
    fieldsets = [
        (None, {"fields": ["name", "base_url", "model", "is_active"]}),
        ("Key", {"fields": ["api_key_env", "key_column"]}),
        (
            "Tokens",
            {
                "fields": [
                    ("context_window", "max_output_tokens"),
                    ("encoding", "token_correction"),
                ]
            },
        ),
        (
            "What it can do",
            {
                "fields": [
                    ("supports_tools", "supports_vision"),
                    ("supports_json_schema", "strict_roles"),
                ]
            },
        ),
        ("Prices", {"fields": [("price_input", "price_cached_input", "price_output")]}),
        ("Time", {"fields": [("timeout", "max_retries")]}),
        ("In use", {"fields": ["usage_column", "learned_context_window", "test_column"]}),
    ]
    readonly_fields = ["key_column", "usage_column", "learned_context_window", "test_column"]

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """With who looks: its use by other tenants is none of theirs."""
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            found.seen_by = request.user
        return found

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ModelEndpoint, term) | Q(name__icontains=term) | Q(model__icontains=term)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may_shape_all(request.user) and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_shape_all(request.user) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_shape_all(request.user) and super().has_delete_permission(request, obj)

    def refusal(self, obj: ModelEndpoint) -> str:
        number = counted(obj.assistants.all())
        if not number:
            return ""
        used = count_of(number, "assistant uses", "assistants use")
        return f"{used} {obj}. Give them another endpoint first, or make this one inactive."

    @admin.display(description="the last 30 days")
    def usage_column(self, endpoint: ModelEndpoint) -> str:
        """By the tenants that the reader sees."""
        if endpoint._state.adding:
            return "–"
        since = timezone.now().date() - timedelta(days=USAGE_DAYS)
        seen = staff_tenants(endpoint.seen_by)  # type: ignore[attr-defined]  # of get_object
        rows = DailyUsage.objects.filter(
            endpoint_name=endpoint.name, day__gt=since, tenant__in=seen
        )
        sums = rows.aggregate(
            turns=Sum("turns", default=0),
            calls=Sum("calls", default=0),
            given=Sum("input_tokens", default=0),
            made=Sum("output_tokens", default=0),
            cost=Sum("cost", default=0),
        )
        return (
            f"{count_of(sums['turns'], 'turn', 'turns')}, {sums['calls']:,} other calls,"
            f" {compact(sums['given'])} tokens in, {compact(sums['made'])} out,"
            f" cost {money(sums['cost'])}"
        )

    @admin.display(description="test")
    def test_column(self, endpoint: ModelEndpoint) -> SafeString | str:
        return test_link(endpoint)

    @admin.display(description="address")
    def address_column(self, endpoint: ModelEndpoint) -> str:
        return endpoint.base_url or "the demo model here"

    @admin.display(description="key in this process")
    def key_column(self, endpoint: ModelEndpoint) -> SafeString | str:
        """Whether the variable is set; its value is read by the model client alone."""
        name = endpoint.api_key_env
        if not name:
            return badge("no key needed")
        if os.environ.get(name):
            return badge(f"{name} is set", "good")
        return badge(f"{name} is not set", "bad")


@admin.register(Assistant)
class AssistantAdmin(ToolsPage, TestCallPage, CountedDeletion, ChatAdmin):
    """Staff of a tenant change its assistants; those of every tenant are for superusers."""

    list_display = [
        "name",
        "slug",
        "tenant_column",
        "endpoint",
        "memory_column",
        "is_default",
        "is_active",
    ]
    list_filter = ["is_active", "is_default"]
    list_select_related = ["tenant", "endpoint"]
    sortable_by = None
    ordering = ["name"]
    allowed_lookups = ["tenant__id__exact", "endpoint__id__exact"]
    search_help_text = "An exact id, or a part of the name."
    autocomplete_fields = ["tenant", "endpoint"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "tenant", ("is_default", "is_active")]}),
        (
            "Model",
            {"fields": ["endpoint", "system_prompt", "parameters", "output_schema", "tools"]},
        ),
        (
            "Memory",
            {
                "description": "A session's own switches win; empty limits are the installation's.",
                "fields": [
                    ("memory_enabled", "use_preferences", "summarize"),
                    ("max_messages", "max_tokens", "stride"),
                ],
            },
        ),
        ("Documents", {"fields": ["documents_column"]}),
        ("In use", {"fields": ["test_column"]}),
    ]
    readonly_fields = ["documents_column", "test_column"]
    formfield_overrides: ClassVar[Any] = {JSONField: {"form_class": StorableJSON}}

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        if user.is_superuser:
            return rows
        return rows.filter(Q(tenant=None) | Q(tenant__in=staff_tenants(user)))

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(Assistant, term) | Q(name__icontains=term) | Q(slug__icontains=term)

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return {} if obj else {"slug": ["name"]}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self.is_theirs(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self.is_theirs(request, obj)

    def is_theirs(self, request: HttpRequest, obj: Any) -> bool:
        return obj is None or obj.tenant_id is not None or may_shape_all(request.user)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Only superusers leave the tenant empty, which offers the assistant to every tenant."""
        form = super().get_form(request, obj, change, **kwargs)
        if "tools" in form.base_fields:
            form.base_fields["tools"] = tools_field(obj)
        if "tenant" in form.base_fields and not may_shape_all(request.user):
            form.base_fields["tenant"].required = True
        return form

    def refusal(self, obj: Assistant) -> str:
        number = counted(obj.chat_sessions.all())
        if not number:
            return ""
        used = count_of(number, "session uses", "sessions use")
        return f"{used} {obj}. Make it inactive instead: it is then offered no more."

    @admin.display(description="tenant")
    def tenant_column(self, assistant: Assistant) -> str:
        return str(assistant.tenant) if assistant.tenant else "every tenant"

    @admin.display(description="test")
    def test_column(self, assistant: Assistant) -> SafeString | str:
        return test_link(assistant)

    @admin.display(description="searched for passages")
    def documents_column(self, assistant: Assistant) -> SafeString | str:
        """How many there are, and the way to them."""
        if assistant._state.adding:
            return "Save the assistant first."
        url = reverse("admin:chat_assistantdocument_changelist")
        number = count_of(assistant.documents.count(), "document", "documents")
        return link(f"{url}?assistant__id__exact={assistant.pk}", number)

    @admin.display(description="memory")
    def memory_column(self, assistant: Assistant) -> SafeString | str:
        if not assistant.memory_enabled:
            return badge("off", "warning")
        limits = [
            f"{assistant.max_messages} messages" if assistant.max_messages else "",
            f"{assistant.max_tokens:,} tokens" if assistant.max_tokens else "",
        ]
        return ", ".join(limit for limit in limits if limit) or "as the installation says"
