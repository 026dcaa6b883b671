"""Tenants and who belongs to them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest

from chat.access import staff_tenants
from chat.admin.audit import RecordedWrites
from chat.admin.base import ChatAdmin, NamedAutocomplete
from chat.admin.deletion import CountedDeletion
from chat.admin.lists import by_id, count_of, counted
from chat.admin.scope import staff_users, user_ids
from chat.models import Membership, Tenant

INLINE_LIMIT = 200  # members beyond which they have a list of their own


class MembershipFormSet(BaseInlineFormSet):
    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        if "DELETE" in form.fields:
            label = f"Take {form.instance.user} out" if form.instance.pk else "Take out"
            form.fields["DELETE"].widget.attrs["aria-label"] = label


class MembershipInline(admin.TabularInline):
    """Members are added and taken out; one that is there is not turned into another."""

    model = Membership
    formset = MembershipFormSet
    extra = 0
    autocomplete_fields = ["user"]
    verbose_name_plural = "members"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Only people whom the asker sees can be made members."""
        if db_field.name == "user":
            people = get_user_model()._default_manager.all()
            kwargs["queryset"] = staff_users(people, request.user)
            kwargs["widget"] = NamedAutocomplete(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).select_related("user").order_by("user__username")


@admin.register(Tenant)
class TenantAdmin(CountedDeletion, ChatAdmin):
    list_display = ["slug", "name", "is_active", "retention_days"]
    list_filter = ["is_active"]
    sortable_by = None
    ordering = ["slug"]
    search_help_text = "An exact id, or a part of the name."
    fields = ["name", "slug", "is_active", "retention_days"]

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows.filter(pk__in=staff_tenants(user))

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(Tenant, term) | Q(slug__icontains=term) | Q(name__icontains=term)

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return {} if obj else {"slug": ["name"]}

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        is_small = obj is None or counted(obj.memberships.all()) <= INLINE_LIMIT
        return [MembershipInline] if is_small else []

    def refusal(self, obj: Tenant) -> str:
        number = counted(obj.chat_sessions.all())
        if not number:
            return ""
        return (
            f"{obj} holds {count_of(number, 'session', 'sessions')}. Delete them in the list of"
            " sessions or with manage.py cleanup_chats first, or make the tenant inactive."
        )

    def goes_along(self, obj: Tenant) -> list[tuple[str, QuerySet[Any]]]:
        return [
            ("memberships", obj.memberships.all()),
            ("assistants", obj.assistants.all()),
            ("preferences", obj.user_preferences.all()),
        ]


@admin.register(Membership)
class MembershipAdmin(RecordedWrites, ChatAdmin):
    list_display = ["id", "user", "tenant"]
    list_select_related = ["user", "tenant"]
    ordering = ["-id"]
    autocomplete_fields = ["user", "tenant"]
    allowed_lookups = ["tenant__id__exact", "user__id__exact"]
    search_help_text = "An exact id, or a part of the user's name."

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows.filter(tenant__in=staff_tenants(user))

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(Membership, term) | Q(user__in=user_ids(term))
