"""Documents of assistants: uploaded, read, deleted. Another version is another upload."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString

from chat import documents
from chat.access import staff_tenants
from chat.admin import audit
from chat.admin.base import ChatAdmin
from chat.admin.endpoints import may_shape_all
from chat.admin.lists import by_id, count_of
from chat.admin.messages import source_block
from chat.models import AssistantDocument


class UploadForm(forms.ModelForm):
    """What `chat.documents` would refuse is said beside the field."""

    file = forms.FileField(
        help_text=f"Text in UTF-8: {', '.join(documents.ENDINGS)}.",
        widget=forms.FileInput(attrs={"accept": ",".join(documents.ENDINGS)}),
    )

    def clean(self) -> dict[str, Any] | None:
        found = super().clean() or {}
        assistant, upload = found.get("assistant"), found.get("file")
        if assistant and upload:
            try:
                documents.require_size(upload.size)
                found["content"] = upload.read()
                documents.checked(assistant, upload.name, found["content"])
            except documents.BadDocument as refused:
                self.add_error("file", str(refused))
        return found


@admin.register(AssistantDocument)
class AssistantDocumentAdmin(ChatAdmin):
    """Whoever may change an assistant attaches documents to it; its users are shown passages."""

    form = UploadForm
    list_display = ["name", "assistant", "size_column", "created_at"]
    list_select_related = ["assistant"]
    sortable_by = None
    ordering = ["assistant", "name"]
    allowed_lookups = ["assistant__id__exact"]
    search_help_text = "An exact id, or a part of the name or of the assistant's."
    autocomplete_fields = ["assistant"]
    add_fieldsets = [(None, {"fields": ["assistant", "file"]})]
    fieldsets = [
        (None, {"fields": ["name", "assistant", "size_column", "pieces_column", "created_at"]}),
        ("Text", {"fields": ["source"]}),
        ("Inside", {"classes": ["collapse"], "fields": ["id", "sha256"]}),
    ]
    readonly_fields = ["size_column", "pieces_column", "source", "created_at", "id", "sha256"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[AssistantDocument]:
        return super().get_queryset(request).defer("text")

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        if user.is_superuser:
            return rows
        tenants = staff_tenants(user)
        return rows.filter(Q(assistant__tenant=None) | Q(assistant__tenant__in=tenants))

    def search(self, request: HttpRequest, term: str) -> Q:
        named = Q(name__icontains=term) | Q(assistant__name__icontains=term)
        return by_id(AssistantDocument, term) | named

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        theirs = obj is None or obj.assistant.tenant_id is not None
        return super().has_delete_permission(request, obj) and (
            theirs or may_shape_all(request.user)
        )

    def get_field_queryset(self, db: Any, db_field: Any, request: Any) -> QuerySet[Any] | None:
        """Only superusers attach documents to the assistants of every tenant."""
        offered = super().get_field_queryset(db, db_field, request)
        if offered is not None and not may_shape_all(request.user):
            return offered.exclude(tenant=None)
        return offered

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_fieldsets(request, obj) if obj else self.add_fieldsets

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        content = form.cleaned_data["content"]
        made = documents.add(obj.assistant, form.cleaned_data["file"].name, content)
        obj.pk = made.pk
        obj.refresh_from_db()
        about = {"assistant": obj.assistant.slug, "sha256": obj.sha256}
        audit.note(request, "document.add", "document", obj.pk, filter=about)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        about = {"assistant": obj.assistant.slug, "sha256": obj.sha256}
        audit.note(request, "document.delete", "document", obj.pk, filter=about)
        super().delete_model(request, obj)

    @admin.display(description="size")
    def size_column(self, document: AssistantDocument) -> str:
        return filesizeformat(document.size)

    @admin.display(description="passages")
    def pieces_column(self, document: AssistantDocument) -> str:
        return count_of(sum(1 for _ in documents.split(document.text)), "piece", "pieces")

    @admin.display(description="text")
    def source(self, document: AssistantDocument) -> SafeString:
        return source_block(document.text)
