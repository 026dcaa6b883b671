"""Tags: the words that reviewers of a tenant file sessions under."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from chat.admin.base import ChatAdmin, link
from chat.admin.deletion import CountedDeletion
from chat.admin.lists import by_id
from chat.admin.remarks import slug_of
from chat.admin.session_filters import TenantFilter
from chat.models import ReviewTag
from memory.text import one_line


class TagNameForm(forms.ModelForm):
    """The slug follows the name, so that a name is the same tag wherever it is typed."""

    def clean_name(self) -> str:
        name = one_line(self.cleaned_data["name"])
        if not slug_of(name):
            raise forms.ValidationError("A tag has at least one letter or digit.")
        return name

    def clean(self) -> dict[str, Any] | None:
        found = super().clean() or {}
        tenant = found.get("tenant") or self.instance.tenant_id
        if "name" in found and tenant:
            slug = slug_of(found["name"])
            same = ReviewTag.objects.filter(tenant=tenant, slug=slug).exclude(pk=self.instance.pk)
            if same.exists():
                self.add_error("name", "The tenant has a tag of this name.")
            self.instance.slug = slug
        return found


@admin.register(ReviewTag)
class ReviewTagAdmin(CountedDeletion, ChatAdmin):
    object_type = "tag"
    tenant_path = "tenant"
    form = TagNameForm
    list_display = ["name", "slug", "tenant", "sessions_column"]
    list_filter = [TenantFilter]
    list_select_related = ["tenant"]
    ordering = ["slug", "pk"]
    search_help_text = "An exact id, or a part of the name."
    fields = ["name", "tenant"]

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(ReviewTag, term) | Q(name__icontains=term)

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        """Who may not look at tenants chooses among their own few."""
        return ["tenant"] if request.user.has_perm("chat.view_tenant") else []

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A tag stays in its tenant, where its sessions are."""
        return ["tenant"] if obj else []

    def goes_along(self, obj: ReviewTag) -> list[tuple[str, QuerySet[Any]]]:
        return [("sessions that lose the tag", obj.chat_sessions.all())]

    @admin.display(description="sessions")
    def sessions_column(self, tag: ReviewTag) -> SafeString:
        url = reverse("admin:chat_chatsession_changelist")
        asked = urlencode({"tag": tag.slug, "tenant": tag.tenant.slug})
        return link(f"{url}?{asked}", "show them")
