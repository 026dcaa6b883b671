"""What was sent to the model: written before the call, rebuilt exactly, and proven.

A record keeps its request by reference: a message that was sent exactly as the `{role, content}`
of its row is named by id, its images included; every other text stands verbatim in a ContextPart,
operator text (prompts, tools, schemas) once for all.
An image is never stored a second time: where one stood, the record names its attachment, and
rebuilding reads the file. The proof is an HMAC of the canonical request under a server key (a
plain hash would let short texts be guessed).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from chat import attachments
from chat.models import ChatMessage, ChatTurn, ContextPart, ContextRecord
from memory.context import Assembled, ContextMessage

MESSAGE, PART, WHOLE = "message", "part", "whole"  # a row's content, a text, a message as JSON
ILLUSTRATED = "illustrated"  # a row's content with its images
SHARED = {"response_format", "tools"}  # parameters that many records have in common
SHARED_PART = "shared_part"
UNKEPT = "unkept"  # text of a temporary session, which no table holds


@dataclass(frozen=True)
class Rebuilt:
    """A request as it was sent. `proof`: "ok", "mismatch", or "missing" texts or proof."""

    request: dict[str, Any]
    proof: str
    missing: tuple[str, ...]


def canonical(request: Mapping[str, Any]) -> bytes:
    """One byte string for equal requests: keys sorted, text as UTF-8."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def prove(request: Mapping[str, Any]) -> str:
    """HMAC-SHA-256 of the request under CHAT_PROOF_KEY, in hex."""
    key = settings.CHAT_PROOF_KEY.encode()
    return hmac.new(key, canonical(request), hashlib.sha256).hexdigest()


def write(
    turn: ChatTurn,
    assembled: Assembled,
    parameters: Mapping[str, Any],
    attempt: int = 1,
    *,
    keeps_text: bool = True,
    images: Mapping[str, str] | None = None,
) -> tuple[ContextRecord, dict[str, Any]]:
    """Record the request of a turn; the record and the request itself, ready to send.

    `images` are the data URLs of the attachments in it. Without `keeps_text` no text of a user is
    written: the request of a temporary session.
    """
    request = {
        **parameters,
        "messages": [
            illustrated(wire_message(message), images or {}) for message in assembled.messages
        ],
    }
    record = ContextRecord.objects.create(
        chat_session_id=turn.chat_session_id,
        turn=turn,
        attempt=attempt,
        manifest=assembled.manifest,
        layout=_layout(turn.chat_session_id, assembled.messages, keeps_text),
        parameters=_stored_parameters(parameters),
        token_count=assembled.tokens,
        token_encoding=assembled.manifest["encoding"],
        proof=prove(request),
    )
    return record, request


def wire_message(message: ContextMessage) -> dict[str, Any]:
    """One message as the endpoint gets it, but with the addresses of attachments for images."""
    wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _content(message: ContextMessage) -> str | list[dict[str, Any]]:
    return illustrated_content(message.content, message.parts) if message.parts else message.content


def illustrated_content(text: str, parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Text and images as OpenAI's content parts; no text part for no text."""
    said = [{"type": "text", "text": text}] if text else []
    shown = [{"type": "image_url", "image_url": dict(part["image_url"])} for part in parts]
    return [*said, *shown]


def illustrated(wire: dict[str, Any], images: Mapping[str, str]) -> dict[str, Any]:
    """The message with its images in the place of their addresses; what is missing is null."""
    if not isinstance(wire["content"], list):
        return wire
    content = [
        {"type": "image_url", "image_url": {"url": images.get(attachments.attachment_of(part))}}
        if part["type"] == "image_url"
        else part
        for part in wire["content"]
    ]
    return {**wire, "content": content}


def text_of(wire: Mapping[str, Any]) -> str | None:
    """The text of a message as it was sent, without its images; None when it is gone."""
    content = wire["content"]
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _layout(
    session_id: uuid.UUID, messages: Sequence[ContextMessage], keeps_text: bool
) -> list[list[str]]:
    layout = []
    for message in messages:
        if message.owner == "operator":
            layout.append([message.role, PART, str(_operator_part(message.content))])
        elif not keeps_text:
            layout.append([message.role, UNKEPT, message.source or ""])
        elif message.source is not None:
            kind = ILLUSTRATED if message.parts else MESSAGE
            layout.append([message.role, kind, message.source])
        else:
            kind, text = _session_text(message)
            part = ContextPart.objects.create(chat_session_id=session_id, text=text)
            layout.append([message.role, kind, str(part.pk)])
    return layout


def _session_text(message: ContextMessage) -> tuple[str, str]:
    """A message that is more than `{role, content}` is kept whole, as JSON text."""
    wire = wire_message(message)
    if set(wire) == {"role", "content"} and not message.parts:
        return PART, message.content
    return WHOLE, json.dumps(wire, ensure_ascii=False)


def _stored_parameters(parameters: Mapping[str, Any]) -> str:
    """The parameters as JSON text; definitions of tools and a schema by reference, as prompts."""
    kept = dict(parameters)
    for name in SHARED & set(kept):
        kept[name] = {SHARED_PART: str(_operator_part(json.dumps(kept[name], ensure_ascii=False)))}
    return json.dumps(kept, ensure_ascii=False)


def parameters_of(record: ContextRecord) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a record, and which of its shared texts are gone."""
    parameters = json.loads(record.parameters)
    missing = []
    for name in SHARED & set(parameters):
        reference = parameters[name]
        if not isinstance(reference, dict) or set(reference) != {SHARED_PART}:
            continue  # written before they were shared
        text = ContextPart.objects.filter(pk=reference[SHARED_PART]).values_list("text", flat=True)
        if (found := text.first()) is None:
            missing.append(f"part {reference[SHARED_PART]}")
        parameters[name] = json.loads(found) if found is not None else None
    return parameters, missing


def _operator_part(text: str) -> uuid.UUID:
    """The one row that holds this prompt, shared by every record that used it."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    part, _ = ContextPart.objects.get_or_create(digest=digest, defaults={"text": text})
    return part.pk


def rebuild(record: ContextRecord) -> Rebuilt:
    """The exact request of a record, whatever was edited or upgraded since."""
    stored = _stored(record.layout)
    wires, missing = [], []
    for role, kind, identifier in record.layout:
        wire = stored.get((kind, identifier))
        if wire is None:
            missing.append(f"{kind} {identifier}")
        wires.append({"role": role, "content": None, **(wire or {})})
    wanted = [each for wire in wires for each in _images_in(wire)]
    images = attachments.data_urls(record.chat_session_id, wanted)
    missing += [f"image {each}" for each in wanted if each not in images]
    messages = [illustrated(wire, images) for wire in wires]
    parameters, gone = parameters_of(record)
    missing += gone
    request = {**parameters, "messages": messages}
    return Rebuilt(request, _judge(record, request, missing), tuple(missing))


def _images_in(wire: Mapping[str, Any]) -> list[str]:
    """The attachments whose images belong into a message."""
    content = wire["content"]
    parts = content if isinstance(content, list) else []
    return [attachments.attachment_of(part) for part in parts if part["type"] == "image_url"]


def _stored(layout: Sequence[Sequence[str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and id: what a layout's entries refer to, as far as it is still there."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    rows = [identifier for _, kind, identifier in layout if kind in (MESSAGE, ILLUSTRATED)]
    messages = ChatMessage.objects.filter(pk__in=rows).exclude(content=None)
    for pk, text, parts in messages.values_list("pk", "content", "parts"):
        found[MESSAGE, str(pk)] = {"content": text}
        images = attachments.memory_parts(parts)
        found[ILLUSTRATED, str(pk)] = {"content": illustrated_content(text or "", images)}
    texts = [identifier for _, kind, identifier in layout if kind in (PART, WHOLE)]
    whole = {identifier for _, kind, identifier in layout if kind == WHOLE}
    for pk, text in ContextPart.objects.filter(pk__in=texts).values_list("pk", "text"):
        found[PART, str(pk)] = {"content": text}
        if str(pk) in whole:
            found[WHOLE, str(pk)] = json.loads(text)
    return found


def _judge(record: ContextRecord, request: Mapping[str, Any], missing: Sequence[str]) -> str:
    if missing or not record.proof:
        return "missing"
    return "ok" if hmac.compare_digest(record.proof, prove(request)) else "mismatch"
