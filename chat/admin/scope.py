"""Whose rows a member of staff sees: those of the sessions that `access` opens to them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse

from chat.access import staff_tenants
from chat.models import ChatSession, Membership
from chat.models.tenants import DEFAULT_TENANT_SLUG

NAME_LENGTH = 150  # characters of an account's name


class Scoped(admin.ModelAdmin):
    """Lists, details, autocompletes and choices of forms hold only what `scoped` leaves."""

    tenant_path = "chat_session__tenant"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return self.scoped(super().get_queryset(request), request.user)

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        """The rows of `access.staff_chat_sessions(user)`.

        Asked for by tenant, since `IN (SELECT session ...)` makes SQLite read every row first.
        """
        if user.is_superuser:
            return rows
        tenants = list(staff_tenants(user).values_list("pk", flat=True))
        return rows.filter(**{f"{self.tenant_path}__in": tenants})

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Refused before the row is looked for, so that a refusal does not tell of it."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def get_field_queryset(self, db: Any, db_field: Any, request: Any) -> QuerySet[Any] | None:
        """Choices of a form are what the related list would show to the same person."""
        related = self.admin_site._registry.get(db_field.remote_field.model)
        if isinstance(related, Scoped):
            return related.get_queryset(request)
        return super().get_field_queryset(db, db_field, request)


class SuperusersOnly(Scoped):
    """Rows that belong to no tenant: a member of a tenant has no part in them."""

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows if user.is_superuser else rows.none()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser) and super().has_add_permission(request)


def staff_users(rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
    """Out of `rows`, the people of the tenants that `user` sees; all for superusers."""
    if user.is_superuser:
        return rows
    tenants = staff_tenants(user)
    memberships = Membership.objects.filter(user=OuterRef("pk"))
    seen = Q(pk=user.pk) | Q(Exists(memberships.filter(tenant__in=tenants)))
    seen |= Q(Exists(ChatSession.objects.filter(user=OuterRef("pk"), tenant__in=tenants)))
    if tenants.filter(slug=DEFAULT_TENANT_SLUG).exists():
        seen |= ~Q(Exists(memberships))  # who belongs nowhere belongs to the default tenant
    return rows.filter(seen)


def user_ids(term: str, limit: int = 200) -> list[Any]:
    """Ids of people whose name holds `term`; a list, since MariaDB has no LIMIT in a subquery."""
    if len(term) > NAME_LENGTH:
        return []  # SQLite refuses to compare with very long ones
    users = get_user_model()._default_manager.filter(username__icontains=term)
    return list(users.values_list("pk", flat=True)[:limit])
