"""What is remembered of a person is rewritten with a reason, which the audit trail alone keeps."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from chat.admin.reasons import LENGTH
from memory.text import is_blank, one_line


class ReasonedForm(forms.ModelForm):
    """Asks why, where a text that is there can be rewritten."""

    reason = forms.CharField(
        max_length=LENGTH, help_text="Kept in the audit trail.", widget=forms.TextInput
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance._state.adding or "text" not in self.fields:
            del self.fields["reason"]

    def clean_reason(self) -> str:
        reason = one_line(self.cleaned_data["reason"])
        if is_blank(reason):
            raise forms.ValidationError("Say why.")
        return reason


class ReasonedEdits(admin.ModelAdmin):
    """`reason` is a field of the page where something can be changed."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return found
        return [
            (name, {**options, "fields": [each for each in options["fields"] if each != "reason"]})
            for name, options in found
        ]
