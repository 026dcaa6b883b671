"""What is asked before a list is exported, and the answer: rows as they are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils import timezone

from chat.access import may_export_text
from chat.transfer import export_streams
from chat.transfer.export_formats import FORMATS
from chat.transfer.export_kinds import KINDS
from chat.transfer.export_pages import Selection
from memory.text import one_line

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-store",
    "X-Accel-Buffering": "no",  # a proxy passes on what there is
}


class ExportForm(forms.Form):
    """What to export and how; `with_text` only for who may."""

    kind = forms.ChoiceField(label="What", widget=forms.RadioSelect)
    format = forms.ChoiceField(
        label="Format",
        widget=forms.RadioSelect,
        choices=[(each.name, each.label) for each in FORMATS.values()],
        initial="csv",
    )
    with_text = forms.BooleanField(label="With what people wrote", required=False)
    reason = forms.CharField(
        label="Reason, kept in the audit trail", required=False, max_length=500
    )

    def __init__(self, *args: Any, counts: Mapping[str, int], user: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        choices = [
            (name, f"{KINDS[name].label}: {counted_as(name, counts[name])}") for name in counts
        ]
        kind: Any = self.fields["kind"]
        kind.choices = choices
        kind.initial = choices[0][0]
        if not may_export_text(user):
            del self.fields["with_text"]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        given["reason"] = one_line(given.get("reason", ""))
        if settings.CHAT_READ_REASON_REQUIRED and given.get("with_text") and not given["reason"]:
            self.add_error("reason", "Say why you need what people wrote.")
        return given


def counted_as(kind: str, number: int) -> str:
    """The count of rows; of usage only the people are known before it is added up."""
    return f"{shown(number)} people" if kind == "usage" else shown(number)


def shown(number: int) -> str:
    """A count for the page; it was counted only so far."""
    most = settings.CHAT_EXPORT_ROWS_INLINE
    return f"more than {most:,}" if number == most + 1 else f"{number:,}"


def download(selection: Selection, form: str) -> StreamingHttpResponse:
    """The rows as they are read, page by page."""
    chosen = FORMATS[form]
    return streamed(export_streams.stream(selection, chosen), selection.kind.name, form)


def streamed(pieces: AsyncIterator[bytes], kind: str, form: str) -> StreamingHttpResponse:
    name = f"{kind}-{timezone.now():%Y-%m-%d}.{form}"
    return StreamingHttpResponse(
        pieces,
        content_type=FORMATS[form].content_type,
        headers={**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'},
    )
