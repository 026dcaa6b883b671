"""The form in which reviewers say something."""

from __future__ import annotations

from typing import Any

from django import forms

from chat.access import turn_for
from chat.admin import remarks
from chat.models import ChatSession
from memory.text import clean, one_line

NOTE_LENGTH = 5000
SCORE_NAME = "overall"


class CleanField(forms.CharField):
    """Text as every engine can store it, with the line breaks of one system."""

    def to_python(self, value: Any) -> str:
        return clean(str(super().to_python(value) or "")).replace("\r\n", "\n")


class RemarkForm(forms.Form):
    """What a reviewer says of a session, or of the turn that is named."""

    turn = forms.UUIDField(required=False)
    note = CleanField(required=False, max_length=NOTE_LENGTH)
    score_name = CleanField(required=False, max_length=60)
    score = forms.TypedChoiceField(
        required=False, coerce=int, empty_value=None, choices=[(n, n) for n in range(1, 6)]
    )
    new_tags = CleanField(required=False, max_length=1000)
    tags = forms.TypedMultipleChoiceField(required=False, coerce=int)
    kept_tags = forms.TypedMultipleChoiceField(required=False, coerce=int)

    def __init__(self, data: Any, chat_session: ChatSession) -> None:
        super().__init__(data)
        there = [(pk, pk) for pk in chat_session.review_tags.values_list("pk", flat=True)]
        self.fields["tags"].choices = self.fields["kept_tags"].choices = there  # type: ignore[attr-defined]
        self.chat_session = chat_session

    def clean_score_name(self) -> str:
        """In small letters: not every engine tells capitals apart."""
        return one_line(self.cleaned_data["score_name"]).lower() or SCORE_NAME

    def clean_new_tags(self) -> tuple[str, ...]:
        names = [
            one_line(each) for each in self.cleaned_data["new_tags"].replace("，", ",").split(",")
        ]
        names = [each for each in names if each]
        for name in names:
            if not remarks.slug_of(name) or len(name) > 100:
                raise forms.ValidationError(
                    f"{name[:40]!r} cannot be a tag: a tag has letters or digits, at most 100."
                )
        return tuple(names)

    def remark(self, user: Any) -> remarks.Remark:
        """Only the parts that `user` may say; `NotFound` for a turn of another session."""
        found = self.cleaned_data
        tags, scores = remarks.may_tag(user), remarks.may_score(user)
        return remarks.Remark(
            turn=turn_for(self.chat_session, found["turn"]) if found["turn"] else None,
            note=found["note"],
            score_name=found["score_name"],
            score=found["score"] if scores else None,
            new_tags=found["new_tags"] if tags else (),
            dropped_tags=tuple(set(found["tags"]) - set(found["kept_tags"])) if tags else (),
        )
