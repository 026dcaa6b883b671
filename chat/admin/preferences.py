"""Preferences: listed, written, edited, disabled and deleted through `memory.preferences`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chat import retention
from chat.access import address_of, may_read_content, staff_tenants
from chat.admin import audit
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, badge, excerpt
from chat.admin.lists import by_id, count_of
from chat.admin.reasoned_edits import ReasonedEdits, ReasonedForm
from chat.admin.scope import user_ids
from chat.admin.sessions import TenantFilter, transcript_link
from chat.models import Assistant
from chat.models.tenants import DEFAULT_TENANT_SLUG
from memory import preferences
from memory.models import UserPreference
from memory.text import folded_key, normal_key

STATUS_BADGES = {"active": "good", "proposed": "accent", "disabled": "warning"}


class PreferenceForm(ReasonedForm):
    """What `memory.preferences` would refuse is said beside the field."""

    def clean_key(self) -> str:
        key = normal_key(self.cleaned_data["key"])
        if len(folded_key(key)) > preferences.KEY_LENGTH:
            raise forms.ValidationError(f"At most {preferences.KEY_LENGTH} characters.")
        return key

    def clean(self) -> dict[str, Any] | None:
        found = super().clean() or {}
        tenant, user = found.get("tenant"), found.get("user")
        if tenant and user and not _belongs(user, tenant):
            self.add_error("user", f"{user} does not belong to {tenant}.")
        return found


@admin.register(UserPreference)
class UserPreferenceAdmin(RecordedReads, ReasonedEdits, ChatAdmin):
    object_type = "preference"
    list_shows_text = True
    form = PreferenceForm
    list_display = [
        "__str__",
        "key_column",
        "text_column",
        "user",
        "scope",
        "status_column",
        "updated_at",
    ]
    list_filter = ["status", "origin", TenantFilter]
    list_select_related = ["user"]
    ordering = ["-id"]
    allowed_lookups = ["user__id__exact", "source_session__id__exact"]
    search_help_text = "An exact id of a preference or of the session it came from, or a user name."
    content_fields = ["key", "text", "quote", "key_column", "text_column", "reason"]
    autocomplete_fields = ["tenant", "user"]
    actions = ["enable", "disable"]
    add_fieldsets = [(None, {"fields": ["tenant", "user", "scope", "key", "text"]})]
    fieldsets = [
        (None, {"fields": ["key", "text", "reason", "status_column"]}),
        ("Whose", {"fields": [("user", "tenant"), "scope"]}),
        (
            "Where from",
            {"fields": ["origin", "source_column", "quote", "confidence"]},
        ),
        ("Times", {"fields": [("created_at", "updated_at"), "expires_at", "superseded_by"]}),
    ]

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows if user.is_superuser else rows.filter(tenant__in=staff_tenants(user))

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(UserPreference, term, "source_session") | Q(user__in=user_ids(term))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Who may not read preferences cannot write one either."""
        return super().has_add_permission(request) and may_read_content(request.user)

    def get_list_display(self, request: HttpRequest) -> Any:
        names = super().get_list_display(request)
        return [name for name in names if name != "__str__" or "key_column" not in names]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_fieldsets(request, obj) if obj else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return []
        names = {field.name for field in self.model._meta.fields} - {"text"}
        return sorted({*names, "status_column", "source_column"} - self.hidden_names(request))

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "scope" and field is not None:
            field = forms.ChoiceField(choices=lambda: _scopes(request.user), label="Scope")
        return field

    # --- Writing ----------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            if "text" not in form.changed_data:
                return
            row = preferences.edit(obj.tenant_id, obj.user_id, obj.pk, obj.text, origin="admin")
            action = "preference.edit"
        else:
            row = preferences.remember(
                obj.tenant_id, obj.user_id, obj.scope, obj.key, obj.text, origin="admin"
            )
            action = "preference.add"
        obj.pk = row.pk
        obj.refresh_from_db()
        about, reason = {"user": row.user_id}, form.cleaned_data.get("reason", "")
        audit.note(request, action, "preference", row.pk, filter=about, reason=reason)

    def delete_model(self, request: HttpRequest, obj: UserPreference) -> None:
        user, identifier = obj.user_id, obj.pk
        receipt = retention.forget_preference(
            obj.tenant_id, user, identifier, actor=request.user, ip=address_of(request)
        )
        gone, about = receipt.counts["preferences"], {"user": user}
        audit.note(request, "preference.delete", "preference", identifier, count=gone, filter=about)

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, rows: QuerySet[UserPreference]) -> None:
        self.each(request, rows, preferences.enable, "enable")

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[UserPreference]) -> None:
        self.each(request, rows, preferences.disable, "disable")

    def each(
        self,
        request: HttpRequest,
        rows: QuerySet[UserPreference],
        do: Callable[[int, int, int], UserPreference],
        verb: str,
    ) -> None:
        owners = list(rows.order_by("pk").values_list("tenant_id", "user_id", "pk"))
        for tenant_id, user_id, pk in owners:
            do(tenant_id, user_id, pk)
            audit.note(request, f"preference.{verb}", "preference", pk, filter={"user": user_id})
        done = count_of(len(owners), "preference", "preferences")
        self.message_user(request, f"{verb.title()}d {done}.")

    # --- Columns ----------------------------------------------------------------------------------

    @admin.display(description="key")
    def key_column(self, preference: UserPreference) -> SafeString:
        return excerpt(preference.key, 60)

    @admin.display(description="text")
    def text_column(self, preference: UserPreference) -> SafeString:
        return excerpt(preference.text)

    @admin.display(description="status")
    def status_column(self, preference: UserPreference) -> SafeString:
        kind = STATUS_BADGES.get(preference.status, "quiet")
        return badge(preference.get_status_display(), kind)

    @admin.display(description="said in")
    def source_column(self, preference: UserPreference) -> SafeString | str:
        session_id, seq = preference.source_session_id, preference.source_seq
        if session_id is None:
            return "–"
        return transcript_link(session_id, seq or 0, f"message {seq}" if seq else "the transcript")


def _belongs(user: Any, tenant: Any) -> bool:
    """Who belongs nowhere belongs to the default tenant."""
    if user.memberships.exists():
        return bool(user.memberships.filter(tenant=tenant).exists())
    return bool(tenant.slug == DEFAULT_TENANT_SLUG)


def _scopes(user: Any) -> list[tuple[str, str]]:
    offered = Assistant.objects.order_by("slug")
    if not user.is_superuser:
        offered = offered.filter(Q(tenant=None) | Q(tenant__in=staff_tenants(user)))
    slugs = offered.values_list("slug", "name")
    return [(preferences.ALL, "all assistants"), *((slug, name) for slug, name in slugs)]
