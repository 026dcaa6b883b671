"""What was sent to the model: written before the call, rebuilt exactly, and proven.

A record keeps its request by reference: a message that was sent exactly as the `{role, content}`
of its row is named by id; every other text stands verbatim in a ContextPart. The proof is an HMAC
of the canonical request under a server key (a plain hash would let short texts be guessed).
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

from chat.models import ChatMessage, ChatTurn, ContextPart, ContextRecord
from memory.context import Assembled, ContextMessage

MESSAGE, PART, WHOLE = "message", "part", "whole"  # a row's content, a text, a message as JSON
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
) -> tuple[ContextRecord, dict[str, Any]]:
    """Record the request of a turn; the record and the request itself, ready to send.

    Without `keeps_text` no text of a user is written: the request of a temporary session.
    """
    request = {
        **parameters,
        "messages": [wire_message(message) for message in assembled.messages],
    }
    record = ContextRecord.objects.create(
        chat_session_id=turn.chat_session_id,
        turn=turn,
        attempt=attempt,
        manifest=assembled.manifest,
        layout=_layout(turn.chat_session_id, assembled.messages, keeps_text),
        parameters=json.dumps(dict(parameters), ensure_ascii=False),
        token_count=assembled.tokens,
        token_encoding=assembled.manifest["encoding"],
        proof=prove(request),
    )
    return record, request


def wire_message(message: ContextMessage) -> dict[str, Any]:
    """One message as the endpoint gets it."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
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
            layout.append([message.role, MESSAGE, message.source])
        else:
            kind, text = _session_text(message)
            part = ContextPart.objects.create(chat_session_id=session_id, text=text)
            layout.append([message.role, kind, str(part.pk)])
    return layout


def _session_text(message: ContextMessage) -> tuple[str, str]:
    """A message that is more than `{role, content}` is kept whole, as JSON text."""
    wire = wire_message(message)
    if set(wire) == {"role", "content"}:
        return PART, message.content
    return WHOLE, json.dumps(wire, ensure_ascii=False)


def _operator_part(text: str) -> uuid.UUID:
    """The one row that holds this prompt, shared by every record that used it."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    part, _ = ContextPart.objects.get_or_create(digest=digest, defaults={"text": text})
    return part.pk


def rebuild(record: ContextRecord) -> Rebuilt:
    """The exact request of a record, whatever was edited or upgraded since."""
    texts = _texts(record.layout)
    messages, missing = [], []
    for role, kind, identifier in record.layout:
        text = texts.get((kind, identifier))
        if text is None:
            missing.append(f"{kind} {identifier}")
        if kind == WHOLE and text is not None:
            messages.append(json.loads(text))
        else:
            messages.append({"role": role, "content": text})
    request = {**json.loads(record.parameters), "messages": messages}
    return Rebuilt(request, _judge(record, request, missing), tuple(missing))


def _texts(layout: Sequence[Sequence[str]]) -> dict[tuple[str, str], str | None]:
    rows = [identifier for _, kind, identifier in layout if kind == MESSAGE]
    kinds = {identifier: kind for _, kind, identifier in layout if kind in (PART, WHOLE)}
    stored = ChatMessage.objects.filter(pk__in=rows).values_list("pk", "content")
    parts = ContextPart.objects.filter(pk__in=list(kinds)).values_list("pk", "text")
    texts: dict[tuple[str, str], str | None] = {(MESSAGE, str(pk)): text for pk, text in stored}
    texts.update({(kinds[str(pk)], str(pk)): text for pk, text in parts})
    return texts


def _judge(record: ContextRecord, request: Mapping[str, Any], missing: Sequence[str]) -> str:
    if missing or not record.proof:
        return "missing"
    return "ok" if hmac.compare_digest(record.proof, prove(request)) else "mismatch"
