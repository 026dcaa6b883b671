"""What if? One turn assembled again under another policy or assistant, beside what it sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from chat.access import may_read_content
from chat.admin import audit, differences, reasons
from chat.admin.base import short
from chat.admin.inspection_pages import SessionPages, links_of, number, numbers_of
from chat.admin.requests import ranges_of, shares_of
from chat.inspection import deciding, what_if, why_not
from chat.inspection.what_if import Changes, NothingSent, Outcome
from chat.models import Assistant, ChatTurn

LARGEST = 10**9
ON_OFF = [("", "as it is"), ("on", "on"), ("off", "off")]
NO_LIMIT = "none"


class Limit(forms.CharField):
    """A number, "none" for no limit, or nothing for the limit as it is."""

    def __init__(self, *, least: int, **options: Any) -> None:
        super().__init__(required=False, max_length=12, **options)
        self.least = least
        self.widget.attrs.update(inputmode="numeric", size="8", autocomplete="off")

    def clean(self, value: Any) -> Any:
        text = super().clean(value).strip().lower()
        if not text or (text == NO_LIMIT and self.least):
            return text
        found = number(text)
        if found is None or not self.least <= found <= LARGEST:
            allowed = f"a number from {self.least:,} to {LARGEST:,}"
            allowed += f", or {NO_LIMIT}" if self.least else ""
            raise forms.ValidationError(f"{text!r} is not understood: give {allowed}.")
        return found


class ChangesForm(forms.Form):
    """The policy to try. What is left empty stays as it is today."""

    max_messages = Limit(least=1, label="Messages in the window")
    max_tokens = Limit(least=1, label="Tokens in the window")
    stride = Limit(least=0, label="Steps of the window's start")
    enabled = forms.ChoiceField(choices=ON_OFF, required=False, label="Memory")
    summarize = forms.ChoiceField(choices=ON_OFF, required=False, label="Summaries")
    use_preferences = forms.ChoiceField(choices=ON_OFF, required=False, label="Preferences")
    use_digest = forms.ChoiceField(choices=ON_OFF, required=False, label="Digest")
    assistant = forms.ModelChoiceField(
        queryset=Assistant.objects.none(), required=False, empty_label="as it is"
    )

    def __init__(self, *args: Any, assistants: QuerySet[Assistant], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["assistant"].queryset = assistants  # type: ignore[attr-defined]

    def changes(self) -> Changes:
        """Of a form that is valid."""
        policy: dict[str, Any] = {}
        for name in what_if.NUMBERS:
            value = self.cleaned_data[name]
            if value != "":
                policy[name] = None if value == NO_LIMIT else value
        for name in what_if.SWITCHES:
            if value := self.cleaned_data[name]:
                policy[name] = value == "on"
        return Changes(policy, self.cleaned_data["assistant"])

    def is_asked(self) -> bool:
        return any(self.data.get(name) for name in self.fields)


class WhatIfPages(SessionPages):
    """Adds the page that assembles a turn under another policy. It is read by address alone:
    there is nothing to post, since nothing is written."""

    def what_if_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        chat_session = self.inspected(request, session_id)
        if reasons.is_missing(request.user, session_id):
            return reasons.ask(request, session_id)
        turn = why_not.turn_of(chat_session, number(request.GET.get("turn")))
        offered = Assistant.objects.filter(tenant=None) | Assistant.objects.filter(
            tenant=chat_session.tenant_id
        )
        form = ChangesForm(
            request.GET, assistants=offered.select_related("endpoint").order_by("name")
        )
        context = {
            **self.page_about(request, chat_session),
            "title": f"What if? Session {short(chat_session.pk)}",
            "turn": turn,
            "turns": numbers_of(chat_session),
            "form": form,
            "seq": number(request.GET.get("seq")),
        }
        if turn is not None and form.is_valid() and form.is_asked():
            turn.chat_session = chat_session
            context |= self.outcome(request, turn, form.changes())
        return TemplateResponse(request, "admin/chat/what_if.html", context)

    def outcome(self, request: HttpRequest, turn: ChatTurn, changes: Changes) -> dict[str, Any]:
        with_text = may_read_content(request.user)
        chat_session = turn.chat_session
        audit.note(
            request,
            "what_if.read",
            "session",
            chat_session.pk,
            filter={"turn": turn.number, "text": with_text, **_named(changes)},
        )
        try:
            found = what_if.run(turn, changes, with_text=with_text)
        except NothingSent as nothing:
            return {"nothing_sent": str(nothing)}
        links = links_of(request, turn.chat_session)
        return {
            "outcome": found,
            "shares": shares_of(found.manifest, turn.input, links),
            "left_out": ranges_of(found.manifest, links),
            "difference": differences.shown(found.difference) if found.difference else None,
            "asked_verdict": _verdict(request, turn, found),
            "sent_shares": _sent_shares(turn, found, links),
            "policy": [
                (deciding.LABELS[name], deciding.shown(value))
                for name, value in found.manifest["policy"].items()
            ],
        }


def _named(changes: Changes) -> Mapping[str, Any]:
    named = dict(changes.policy)
    if changes.assistant is not None:
        named["assistant"] = changes.assistant.slug
    return named


def _verdict(request: HttpRequest, turn: ChatTurn, found: Outcome) -> Any:
    """What would become of the message that the reader came for."""
    seq = number(request.GET.get("seq"))
    if not seq:
        return None
    wanted = why_not.wanted(turn.chat_session, seq)
    return why_not.verdict(found.manifest, turn, wanted)


def _sent_shares(turn: ChatTurn, found: Outcome, links: Any) -> Any:
    if found.sent is None:
        return None
    return shares_of(why_not.manifest_of(found.sent), turn.input, links)
