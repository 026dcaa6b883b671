"""Digests: a few lines about a person, made by a model or written by hand."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from chat import retention
from chat.access import address_of, may_read_content
from chat.admin import audit
from chat.admin.audit import RecordedReads
from chat.admin.base import ChatAdmin, badge, excerpt
from chat.admin.lists import by_id, count_of
from chat.admin.reasoned_edits import ReasonedEdits, ReasonedForm
from chat.admin.scope import user_ids
from chat.admin.sessions import session_link
from chat.models import ChatSession
from memory import digests
from memory.models import UserDigest

EDITED = ("text", "reason")


class DigestForm(ReasonedForm):
    """The text, and why it is changed."""

    class Meta:
        model = UserDigest
        fields = ("text",)

    def clean_text(self) -> str:
        text = str(self.cleaned_data["text"]).strip()
        if not text:
            raise forms.ValidationError("Delete the digest instead of emptying it.")
        if len(text) > digests.LENGTH:
            raise forms.ValidationError(f"At most {digests.LENGTH} characters.")
        return text


@admin.register(UserDigest)
class UserDigestAdmin(RecordedReads, ReasonedEdits, ChatAdmin):
    object_type = "digest"
    list_shows_text = True
    tenant_path = "tenant"
    form = DigestForm
    list_display = ["__str__", "user", "tenant", "text_column", "state_column", "updated_at"]
    list_filter = ["origin", "is_enabled"]
    list_select_related = ["user", "tenant"]
    ordering = ["-id"]
    search_help_text = "An exact id of a digest, or a user name."
    content_fields = ["text", "text_column", "reason"]
    actions = ["enable", "disable"]
    fieldsets = [
        (None, {"fields": ["text", "reason"]}),
        ("Whose", {"fields": [("user", "tenant")]}),
        ("Where from", {"fields": ["state_column", "sources_column", "made_after"]}),
        ("Times", {"fields": [("revision", "created_at", "updated_at")]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[UserDigest]:
        """What was deleted is a row without text, which nobody needs to see."""
        return super().get_queryset(request).exclude(text="")

    def search(self, request: HttpRequest, term: str) -> Q:
        return by_id(UserDigest, term) | Q(user__in=user_ids(term))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        names = {field.name for field in self.model._meta.fields} - {"text"}
        return sorted({*names, "state_column", "sources_column"} - self.hidden_names(request))

    # --- Who may ----------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_manage_permission(request) and may_read_content(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_manage_permission(request)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.manage_memory")

    # --- Writing ----------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if "text" not in form.changed_data:
            return
        digests.edit(obj.tenant_id, obj.user_id, obj.text, origin="admin")
        obj.refresh_from_db()
        about, reason = {"user": obj.user_id}, form.cleaned_data["reason"]
        audit.note(request, "digest.edit", "digest", obj.pk, filter=about, reason=reason)

    def delete_model(self, request: HttpRequest, obj: UserDigest) -> None:
        retention.forget_digest(
            obj.tenant_id, obj.user_id, actor=request.user, ip=address_of(request)
        )

    @admin.action(description="Use again", permissions=["manage"])
    def enable(self, request: HttpRequest, rows: QuerySet[UserDigest]) -> None:
        self._switch(request, rows, enabled=True)

    @admin.action(description="Use no more", permissions=["manage"])
    def disable(self, request: HttpRequest, rows: QuerySet[UserDigest]) -> None:
        self._switch(request, rows, enabled=False)

    def _switch(self, request: HttpRequest, rows: QuerySet[UserDigest], *, enabled: bool) -> None:
        verb = "enable" if enabled else "disable"
        owners = list(rows.order_by("pk").values_list("tenant_id", "user_id", "pk"))
        for tenant_id, user_id, pk in owners:
            digests.set_enabled(tenant_id, user_id, enabled)
            audit.note(request, f"digest.{verb}", "digest", pk, filter={"user": user_id})
        self.message_user(request, f"{verb.title()}d {count_of(len(owners), 'digest', 'digests')}.")

    # --- Columns ----------------------------------------------------------------------------------

    @admin.display(description="text")
    def text_column(self, digest: UserDigest) -> SafeString:
        return excerpt(digest.text)

    @admin.display(description="state")
    def state_column(self, digest: UserDigest) -> SafeString:
        if not digest.is_enabled:
            return badge("not used", "warning")
        return badge(digest.get_origin_display(), "good")

    @admin.display(description="made from")
    def sources_column(self, digest: UserDigest) -> SafeString | str:
        """Sessions that are still there; of another tenant's there are none."""
        alive = ChatSession.objects.filter(pk__in=digest.sources, tenant=digest.tenant_id)
        links = [(session_link(pk),) for pk in alive.values_list("pk", flat=True)]
        return format_html_join(mark_safe(", "), "{}", links) or "–"
