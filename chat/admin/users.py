"""People: Django's own pages, scoped to the tenants that a member of staff sees."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from chat import retention
from chat.access import address_of
from chat.admin.audit import RecordedWrites
from chat.admin.deletion import CountedDeletion
from chat.admin.lists import CappedPaginator, count_of, counted, looked_for
from chat.admin.scope import Scoped, SuperusersOnly, staff_users

POWERS = ("is_staff", "is_superuser", "groups", "user_permissions")

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(Group)
class PlainGroupAdmin(RecordedWrites, SuperusersOnly, GroupAdmin):
    """Whoever may change a group could give its members, or themselves, any power."""

    filter_horizontal = []


@admin.register(User)
class PersonAdmin(CountedDeletion, Scoped, UserAdmin):
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_display = ["username", "first_name", "last_name", "is_active", "is_staff", "last_login"]
    list_filter = ["is_active", "is_staff", "is_superuser"]
    list_per_page = 50
    list_max_show_all = 50
    search_fields = ["username", "first_name", "last_name", "email"]
    filter_horizontal = []  # its icons have no names that a screen reader could say

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return staff_users(rows, user)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return super().get_search_results(request, queryset, looked_for(search_term))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Nobody gives out powers, their own included, but a superuser."""
        names = [*super().get_readonly_fields(request, obj), "last_login", "date_joined"]
        return names if request.user.is_superuser else [*names, *POWERS]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_above(obj, request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_above(obj, request.user)

    def refusal(self, obj: User) -> str:
        number = counted(obj.chat_sessions.all())
        if not number:
            return ""
        return (
            f"{obj} holds {count_of(number, 'session', 'sessions')}. Delete them first, in the list"
            " of sessions or with manage.py delete_chat; or make the person inactive."
        )

    def goes_along(self, obj: Any) -> list[tuple[str, QuerySet[Any]]]:
        return [
            ("preferences", obj.chat_preferences.all()),
            ("memberships", obj.memberships.all()),
            ("feedback", obj.chat_feedback.all()),
            ("saved filters", obj.saved_filters.all()),
            ("entries of the admin's own log", LogEntry.objects.filter(user=obj)),
        ]

    def carry_out(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """With every row that names them, as `manage.py forget_user` does: nothing is logged that
        would name them again."""
        name, pk = str(obj), obj.pk
        retention.forget_user(pk, actor=request.user, ip=address_of(request))
        return self.response_delete(request, name, pk)


def _is_above(obj: Any, user: Any) -> bool:
    """Whether `obj` may do what `user` may not, once they are active: who sets a password can sign
    in with it."""
    if obj is None or user.is_superuser:
        return False
    return obj.is_superuser or _powers_of(obj).exclude(pk__in=_powers_of(user)).exists()


def _powers_of(user: Any) -> QuerySet[Permission]:
    return Permission.objects.filter(Q(user=user) | Q(group__user=user))
