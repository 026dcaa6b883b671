"""Exactly what one model request held: its messages beside the manifest, and the proof."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from chat import records
from chat.admin.inspection_pages import SettingLink
from chat.inspection import reasons, shares
from chat.inspection.shares import Share
from chat.models import ChatMessage, ContextRecord
from memory.text import clean

REASONS = {name: reason.short for name, reason in reasons.OF_MESSAGES.items()}
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
SHOWN_OF_MESSAGE = 20_000  # characters; the rest is in the request as a file
SHOWN_OF_REQUEST = 200_000
BAR = 1000  # units of a bar's width

Links = Callable[[Iterable[str]], list[SettingLink]]


@dataclass(frozen=True)
class SentMessage:
    """One message of the request, as it was sent."""

    number: int
    role: str
    kind: str
    tokens: int | None
    seq: int | None
    text: str | None
    """Its beginning. None: the reader may not see text."""
    more: int
    """Characters that are not shown."""
    is_missing: bool
    message_id: str
    """The stored message that it is word for word; "" when it is a text of its own."""
    preferences: tuple[Any, ...]
    mark: str
    operator_characters: int
    """Length of the operator's own text at its head."""
    references: tuple[str, ...]
    images: int
    calls: str
    """The tools that it asks for, as JSON."""
    answers: str
    """Of a result: the id of its call."""


@dataclass(frozen=True)
class LeftOut:
    """A range that was left out; `limit` is the number that decided, `settings` today's."""

    from_seq: int
    through_seq: int
    reason: str
    limit: str = ""
    settings: tuple[SettingLink, ...] = ()

    @property
    def messages(self) -> int:
        """Numbers in the range; other branches may have taken some of them."""
        return self.through_seq - self.from_seq + 1

    @property
    def why(self) -> str:
        return reasons.of_message(self.reason).short

    @property
    def explained(self) -> str:
        return reasons.of_message(self.reason).why


@dataclass(frozen=True)
class Bar:
    """One part of a request, as a row and as a piece of the bar over all of them."""

    share: Share
    x: int
    width: int
    settings: tuple[SettingLink, ...]


@dataclass(frozen=True)
class Bars:
    parts: tuple[Bar, ...]
    counted: int
    budget: int
    free: int
    settings: tuple[SettingLink, ...]
    """What the budget is made of."""


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
    """The request as JSON, its beginning; None: the reader may not see text."""
    exact_more: int
    """Characters of it that are not shown."""
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


@dataclass(frozen=True)
class Answered:
    """A message that a turn made."""

    message: ChatMessage
    text: str | None
    """Its beginning; None: the reader may not see text."""
    more: int
    calls: str
    """The tools that were asked for, as JSON."""


def answered(message: ChatMessage, *, with_text: bool) -> Answered:
    if not with_text:
        return Answered(message, None, 0, "")
    text = message.content or ""
    calls = pretty(message.tool_calls) if message.tool_calls else ""
    return Answered(message, text[:SHOWN_OF_MESSAGE], max(len(text) - SHOWN_OF_MESSAGE, 0), calls)


def show(
    record: ContextRecord, *, with_text: bool, rebuilt: records.Rebuilt | None = None
) -> Shown:
    """The record's request for a page; without `with_text` its figures alone."""
    rebuilt = rebuilt or records.rebuild(record)
    manifest = record.manifest if isinstance(record.manifest, dict) else {}
    parameters = {name: value for name, value in rebuilt.request.items() if name != "messages"}
    exact = as_json(rebuilt) if with_text else None
    return Shown(
        record=record,
        manifest=manifest,
        messages=tuple(_messages(record, rebuilt, manifest, with_text)),
        left_out=ranges_of(manifest),
        missing=rebuilt.missing,
        proof=rebuilt.proof,
        parameters=pretty(parameters),
        exact=exact[:SHOWN_OF_REQUEST] if exact is not None else None,
        exact_more=max(len(exact or "") - SHOWN_OF_REQUEST, 0),
        preferences=_preferences(manifest, "preferences", with_text),
        preferences_left_out=_preferences(manifest, "preferences_left_out", with_text),
    )


def as_json(rebuilt: records.Rebuilt) -> str:
    """The whole request, its images cut short."""
    return pretty(_without_data(rebuilt.request))


def ranges_of(manifest: Mapping[str, Any], links: Links | None = None) -> tuple[LeftOut, ...]:
    """What a request left out of the history, and why."""
    return tuple(
        LeftOut(
            each["from"],
            each["through"],
            each["reason"],
            reasons.limit_of(each["reason"], manifest),
            tuple(links(reasons.of_message(each["reason"]).settings)) if links else (),
        )
        for each in manifest.get("left_out") or ()
    )


def shares_of(manifest: Mapping[str, Any], placed: ChatMessage, links: Links) -> Bars:
    """What each part of a request costs; `placed` is the turn's input."""
    is_counted = placed.token_encoding == manifest.get("encoding")
    found = shares.of(
        manifest,
        input_tokens=placed.token_count if is_counted else None,
        preference_tokens=settings.CHAT_PREFERENCE_TOKENS,
    )
    whole = max(found.budget, found.counted, 1)
    return Bars(
        parts=tuple(
            Bar(
                each,
                x=BAR * each.start // whole,
                width=max(BAR * each.tokens // whole, 1),
                settings=tuple(links((each.limited_by,))) if each.limited_by else (),
            )
            for each in found.parts
        ),
        counted=found.counted,
        budget=found.budget,
        free=found.free,
        settings=tuple(links(reasons.ROOM)),
    )


def _messages(
    record: ContextRecord, rebuilt: records.Rebuilt, manifest: Mapping[str, Any], with_text: bool
) -> Iterator[SentMessage]:
    parts = manifest.get("parts", ())
    rows = zip(rebuilt.request["messages"], record.layout, strict=True)
    for index, (sent, (_, stored_as, identifier)) in enumerate(rows):
        part = parts[index] if index < len(parts) else {}
        text = _as_text(records.text_of(sent)) if with_text else None
        yield SentMessage(
            number=index + 1,
            role=sent["role"],
            kind=part.get("kind", ""),
            tokens=part.get("tokens"),
            seq=part.get("seq"),
            text=text[:SHOWN_OF_MESSAGE] if text is not None else None,
            more=max(len(text or "") - SHOWN_OF_MESSAGE, 0),
            images=part.get("images", 0),
            is_missing=sent["content"] is None and not sent.get("tool_calls"),
            calls=pretty(sent["tool_calls"]) if with_text and sent.get("tool_calls") else "",
            answers=sent.get("tool_call_id", ""),
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
    return tuple(
        {
            "id": each.get("id"),
            "key": each.get("key") if with_text else None,
            "why": reasons.of_preference(each.get("reason", "")),
        }
        for each in manifest.get(name) or ()
    )


def pretty(value: Any) -> str:
    """JSON for reading; what cannot be sent to a browser is replaced."""
    return clean(json.dumps(value, ensure_ascii=False, indent=2))
