"""What people wrote is shown to those with `read_message_content`, and to nobody by detours.

Without the permission a field that holds text is neither a column nor a field of a form, and the
rows cannot be asked about it: addresses such as `?content__icontains=` are refused for everyone,
because only the lookups that a list names are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.filters import ListFilter
from django.http import HttpRequest, HttpResponse

from chat.access import may_read_content


class GuardedContent(admin.ModelAdmin):
    """`content_fields`: the fields and columns that hold what people wrote, or derive from it."""

    content_fields: Sequence[str] = ()
    allowed_lookups: Sequence[str] = ()

    def hidden_names(self, request: HttpRequest) -> frozenset[str]:
        return frozenset() if may_read_content(request.user) else frozenset(self.content_fields)

    def why_hidden(self, request: HttpRequest) -> str:
        return why_hidden(request.user) if self.hidden_names(request) else ""

    def get_list_display(self, request: HttpRequest) -> Any:
        hidden = self.hidden_names(request)
        return [name for name in super().get_list_display(request) if name not in hidden]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = self.hidden_names(request)
        return [name for name in super().get_readonly_fields(request, obj) if name not in hidden]

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*(super().get_exclude(request, obj) or ()), *self.hidden_names(request)]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = self.hidden_names(request)
        kept = []
        for name, options in super().get_fieldsets(request, obj):
            fields = _without(options["fields"], hidden)
            if fields:
                kept.append((name, {**options, "fields": fields}))
        return kept

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only what the list's own filters and links use; never a text, whoever asks."""
        return lookup in self.lookups_in_use(request)

    def lookups_in_use(self, request: Any) -> set[str]:
        allowed = set(self.allowed_lookups)
        for item in self.get_list_filter(request):
            if isinstance(item, str):
                allowed |= {f"{item}__exact", f"{item}__isnull"}
            elif isinstance(item, type) and issubclass(item, ListFilter):
                allowed |= set(getattr(item, "parameters", ())) or {item.parameter_name}  # type: ignore[attr-defined]
        return allowed

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"text_is_hidden": self.why_hidden(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        context["text_is_hidden"] = self.why_hidden(request)
        return super().render_change_form(request, context, *args, **kwargs)


def why_hidden(user: Any) -> str:
    """Why `user` sees no text, in a sentence for the page; "" for who may read."""
    if may_read_content(user):
        return ""
    if not settings.CHAT_STAFF_CONTENT:
        return "Text is hidden: this installation shows staff none of what people wrote."
    return (
        "Text is hidden: reading what people wrote needs the permission “Can read the text of"
        " messages and contexts”."
    )


def _without(fields: Iterable[Any], hidden: frozenset[str]) -> list[Any]:
    kept: list[Any] = []
    for field in fields:
        if isinstance(field, (list, tuple)):
            row = [name for name in field if name not in hidden]
            kept.extend([tuple(row)] if row else [])
        elif field not in hidden:
            kept.append(field)
    return kept
