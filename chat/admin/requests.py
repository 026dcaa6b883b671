"""Exactly what one model request held: its messages beside the manifest, and the proof."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chat import records
from chat.models import ContextRecord
from memory.text import clean

REASONS = {
    "max_messages": "beyond the limit of messages",
    "max_tokens": "beyond the limit of tokens",
    "budget": "no room in the model's context",
    "before_forget_line": "before the forget line",
    "strict_roles": "said by the assistant before any user, which the endpoint does not take",
    "idle": "before a long pause",
    "covered_by_summary": "covered by the summary",
    "awaiting_summary": "waiting for a summary",
    "other_branch": "on another branch",
    "no_answer": "a turn without an answer",
    "orphan_tool": "a tool call or result without its other half",
    "memory_off": "memory is off",
    "system_message": "a system message in the history",
}
NO_PASSAGE = {
    "nothing_matched": "Nothing in the documents matched, and the model was told so.",
    "no_room": "There was no room for any.",
    "failed": "The sources could not be searched.",
}
PROOFS = {
    "ok": ("Proof ok", "good", "The rebuilt request has the fingerprint of what was sent."),
    "mismatch": (
        "Proof mismatch",
        "bad",
        "The rebuilt request differs from what was sent: a text or the proof key changed since.",
    ),
    "missing": (
        "No proof",
        "warning",
        "A text of the request is gone, or the record never had a proof.",
    ),
}


AS_STORED = (records.MESSAGE, records.ILLUSTRATED)
DATA_URL = re.compile(r"data:image/[a-z]+;base64,")
SHOWN_OF_IMAGE = 60  # characters of a data URL


@dataclass(frozen=True)
class SentMessage:
    """One message of the request, as it was sent."""

    number: int
    role: str
    kind: str
    tokens: int | None
    seq: int | None
    text: str | None
    """None: the reader may not see text."""
    is_missing: bool
    message_id: str
    """The stored message that it is word for word; "" when it is a text of its own."""
    preferences: tuple[Any, ...]
    mark: str
    operator_characters: int
    """Length of the operator's own text at its head."""
    references: tuple[str, ...]
    images: int


@dataclass(frozen=True)
class LeftOut:
    from_seq: int
    through_seq: int
    reason: str

    @property
    def messages(self) -> int:
        """Numbers in the range; other branches may have taken some of them."""
        return self.through_seq - self.from_seq + 1

    @property
    def why(self) -> str:
        return REASONS.get(self.reason, self.reason)


@dataclass(frozen=True)
class Shown:
    record: ContextRecord
    manifest: Mapping[str, Any]
    messages: tuple[SentMessage, ...]
    left_out: tuple[LeftOut, ...]
    missing: tuple[str, ...]
    proof: str
    parameters: str
    exact: str | None
    """The whole request as JSON; None: the reader may not see text."""
    preferences: tuple[Mapping[str, Any], ...]
    preferences_left_out: tuple[Mapping[str, Any], ...]

    @property
    def no_passage(self) -> str:
        """Why the request holds no passage; "" where it does, or nothing was searched."""
        return NO_PASSAGE.get(str(self.manifest.get("evidence")), "")

    @property
    def proof_label(self) -> str:
        return PROOFS[self.proof][0]

    @property
    def proof_kind(self) -> str:
        return PROOFS[self.proof][1]

    @property
    def proof_explained(self) -> str:
        return PROOFS[self.proof][2]

    @property
    def budget(self) -> int:
        return int(self.manifest.get("budget") or 0)


def show(record: ContextRecord, *, with_text: bool) -> Shown:
    """The record's request for a page; without `with_text` its figures alone."""
    rebuilt = records.rebuild(record)
    manifest = record.manifest if isinstance(record.manifest, dict) else {}
    parameters = {name: value for name, value in rebuilt.request.items() if name != "messages"}
    return Shown(
        record=record,
        manifest=manifest,
        messages=tuple(_messages(record, rebuilt, manifest, with_text)),
        left_out=tuple(
            LeftOut(each["from"], each["through"], each["reason"])
            for each in manifest.get("left_out", ())
        ),
        missing=rebuilt.missing,
        proof=rebuilt.proof,
        parameters=pretty(parameters),
        exact=pretty(_without_data(rebuilt.request)) if with_text else None,
        preferences=_preferences(manifest, "preferences", with_text),
        preferences_left_out=_preferences(manifest, "preferences_left_out", with_text),
    )


def _messages(
    record: ContextRecord, rebuilt: records.Rebuilt, manifest: Mapping[str, Any], with_text: bool
) -> Iterator[SentMessage]:
    parts = manifest.get("parts", ())
    rows = zip(rebuilt.request["messages"], record.layout, strict=True)
    for index, (sent, (_, stored_as, identifier)) in enumerate(rows):
        part = parts[index] if index < len(parts) else {}
        yield SentMessage(
            number=index + 1,
            role=sent["role"],
            kind=part.get("kind", ""),
            tokens=part.get("tokens"),
            seq=part.get("seq"),
            text=_as_text(records.text_of(sent)) if with_text else None,
            images=part.get("images", 0),
            is_missing=sent["content"] is None,
            message_id=identifier if stored_as in AS_STORED else "",
            preferences=tuple(part.get("preferences", ())),
            mark=part.get("mark", ""),
            operator_characters=part.get("operator_characters", 0),
            references=tuple(part.get("references", ())),
        )


def _as_text(content: Any) -> str:
    return content if isinstance(content, str) else "" if content is None else pretty(content)


def _without_data(value: Any) -> Any:
    """The request with its images cut short: they take megabytes and say nothing to a reader."""
    if isinstance(value, dict):
        return {name: _without_data(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_data(each) for each in value]
    if isinstance(value, str) and DATA_URL.match(value):
        return f"{value[:SHOWN_OF_IMAGE]}… ({len(value):,} characters)"
    return value


def _preferences(
    manifest: Mapping[str, Any], name: str, with_text: bool
) -> tuple[Mapping[str, Any], ...]:
    """Which preferences; their keys are words of the person, so they are text too."""
    found = manifest.get(name, ())
    return tuple(found if with_text else ({"id": each.get("id")} for each in found))


def pretty(value: Any) -> str:
    """JSON for reading; what cannot be sent to a browser is replaced."""
    return clean(json.dumps(value, ensure_ascii=False, indent=2))
