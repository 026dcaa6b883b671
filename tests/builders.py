"""Rows for tests: each function makes one thing, with everything that it needs beneath it.

Unique names are numbered, so a test may call a builder as often as it likes.
"""

from __future__ import annotations

import itertools
import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.utils import timezone

from chat import attachments, records, tallies
from chat.models import (
    Assistant,
    Attachment,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    Feedback,
    Membership,
    ModelEndpoint,
    Tenant,
)
from chat.models.tenants import DEFAULT_TENANT_SLUG
from memory import preferences
from memory.models import MemorySnapshot, UserPreference

PASSWORD = "password-of-tests"
PROMPT = "You are a helpful assistant."
_numbers = itertools.count(1)


def tenant(slug: str = "", **fields: Any) -> Tenant:
    """A tenant; the one called `default` exists from the migrations, or is made again."""
    slug = slug or f"tenant-{next(_numbers)}"
    fields.setdefault("name", slug.title())
    return Tenant.objects.get_or_create(slug=slug, defaults=fields)[0]


def user(name: str = "", *, tenants: Sequence[Tenant] = (), **fields: Any) -> Any:
    """A person who signs in with PASSWORD."""
    person = get_user_model().objects.create_user(
        name or f"user-{next(_numbers)}", password=PASSWORD, **fields
    )
    Membership.objects.bulk_create(Membership(user=person, tenant=each) for each in tenants)
    return person


def staff(name: str = "", *, permissions: Sequence[str] = (), **fields: Any) -> Any:
    """A member of staff with permissions such as "chat.view_chatsession"."""
    person = user(name, is_staff=True, **fields)
    codenames = [label.partition(".")[2] for label in permissions]
    rows = Permission.objects.filter(codename__in=codenames).select_related("content_type")
    found = {f"{row.content_type.app_label}.{row.codename}": row for row in rows}
    person.user_permissions.add(*(found[label] for label in permissions))
    return person


def superuser(name: str = "") -> Any:
    return user(name or f"admin-{next(_numbers)}", is_staff=True, is_superuser=True)


def endpoint(name: str = "", **fields: Any) -> ModelEndpoint:
    """An endpoint; without a `base_url` it is the demo model."""
    fields.setdefault("model", "demo")
    return ModelEndpoint.objects.create(name=name or f"endpoint-{next(_numbers)}", **fields)


def assistant(slug: str = "", **fields: Any) -> Assistant:
    slug = slug or f"assistant-{next(_numbers)}"
    fields.setdefault("name", slug.title())
    fields.setdefault("system_prompt", PROMPT)
    if "endpoint" not in fields:
        fields["endpoint"] = endpoint()
    return Assistant.objects.create(slug=slug, **fields)


def chat_session(person: Any = None, **fields: Any) -> ChatSession:
    """A session; `person` holds it, in the default tenant unless `tenant` says otherwise."""
    fields["user"] = person or user()
    if "tenant" not in fields:
        fields["tenant"] = tenant(DEFAULT_TENANT_SLUG)
    if "assistant" not in fields:
        fields["assistant"] = assistant()
    return ChatSession.objects.create(**fields)


def png(width: int = 8, height: int = 6, color: int = 200) -> bytes:
    """A small image that every program can show: one colour, no filter."""
    rows = (b"\x00" + bytes((color, 60, 60)) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def attachment(chat_session: ChatSession, name: str = "red.png", data: bytes = b"") -> Attachment:
    """An image that the session's holder has uploaded and not sent."""
    return attachments.store(chat_session, chat_session.user, name, data or png())


def message(
    chat_session: ChatSession,
    role: str = "user",
    content: str | None = "Hello",
    *,
    parent: ChatMessage | None = None,
    **fields: Any,
) -> ChatMessage:
    """The next message at the end of the chosen branch; the session's counters go along."""
    with transaction.atomic():
        chat_session.refresh_from_db()
        made = ChatMessage.objects.create(
            chat_session=chat_session,
            role=role,
            content=content,
            seq=chat_session.next_seq,
            parent=parent or chat_session.head,
            **fields,
        )
        chat_session.next_seq += 1
        chat_session.head = made
        chat_session.message_count += 1
        chat_session.path_count += 1
        chat_session.save()
    return made


def turn(chat_session: ChatSession, input: ChatMessage, **fields: Any) -> ChatTurn:  # noqa: A002
    """A turn for `input`, completed unless `status` says otherwise."""
    chat_session.refresh_from_db()
    now = timezone.now()
    status = fields.setdefault("status", ChatTurn.Status.COMPLETED)
    if status != ChatTurn.Status.RUNNING:
        fields.setdefault("finished_at", now + timedelta(seconds=2))
    if status == ChatTurn.Status.COMPLETED:
        fields.setdefault("first_token_at", now + timedelta(milliseconds=350))
        fields.setdefault("finish_reason", "stop")
        fields.setdefault("input_tokens", 40)
        fields.setdefault("output_tokens", 12)
    made = ChatTurn.objects.create(
        chat_session=chat_session,
        input=input,
        number=chat_session.turn_count + 1,
        client_id=fields.pop("client_id", None) or uuid.uuid4(),
        endpoint_name=chat_session.assistant.endpoint.name,
        model_name=chat_session.assistant.endpoint.model,
        **fields,
    )
    chat_session.turn_count += 1
    chat_session.token_count += (made.input_tokens or 0) + (made.output_tokens or 0)
    if ended := [name for name, value in tallies.TURNS.items() if value == status]:
        setattr(chat_session, ended[0], getattr(chat_session, ended[0]) + 1)
    chat_session.save()
    return made


def feedback(turn: ChatTurn, value: int = 1, comment: str = "") -> Feedback:
    """What the person who asked thinks of an answer, counted on the session."""
    person = turn.chat_session.user
    made = Feedback.objects.create(turn=turn, user=person, value=value, comment=comment)
    tallies.recount(turn.chat_session_id)
    return made


def exchange(
    chat_session: ChatSession,
    question: str = "Hello",
    answer: str | None = "Hello, how can I help?",
    *,
    is_partial: bool = False,
    **turn_fields: Any,
) -> ChatTurn:
    """One question, its turn and its answer (None: the turn has no answer)."""
    asked = message(chat_session, "user", question)
    made = turn(chat_session, asked, **turn_fields)
    if answer is not None:
        message(chat_session, "assistant", answer, turn=made, is_partial=is_partial)
    return made


def exchanges(chat_session: ChatSession, count: int) -> list[ChatTurn]:
    """`count` short exchanges: "Question 1", "Answer 1", and so on."""
    return [exchange(chat_session, f"Question {n}", f"Answer {n}") for n in range(1, count + 1)]


def operator_part(text: str) -> ContextPart:
    """Shared text of the operator, once per text."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return ContextPart.objects.get_or_create(digest=digest, defaults={"text": text})[0]


def record(
    turn: ChatTurn,
    *,
    prompt: str = PROMPT,
    history: Sequence[ChatMessage] = (),
    left_out: Sequence[Mapping[str, Any]] = (),
    parameters: Mapping[str, Any] | None = None,
    **fields: Any,
) -> ContextRecord:
    """What `turn` sent: the prompt, `history` and its input, each by reference where it can be."""
    sent = [*history, turn.input]
    part = operator_part(prompt)
    fields.setdefault("token_count", 20 + 10 * len(sent))
    return ContextRecord.objects.create(
        chat_session=turn.chat_session,
        turn=turn,
        manifest=_manifest(sent, left_out, fields["token_count"]),
        layout=[
            ["system", "part", str(part.pk)],
            *([each.role, "message", str(each.pk)] for each in sent),
        ],
        parameters=json.dumps(parameters or {"model": turn.model_name}),
        token_encoding="o200k_base",
        **fields,
    )


def proven_record(turn: ChatTurn, **fields: Any) -> ContextRecord:
    """As `record`, with the proof that the engine would have written."""
    made = record(turn, **fields)
    made.proof = records.prove(records.rebuild(made).request)
    made.save(update_fields=["proof"])
    return made


def snapshot(chat_session: ChatSession, **fields: Any) -> MemorySnapshot:
    """A snapshot that holds every message of the chosen branch, as of the current epoch."""
    rows = chat_session.messages.filter(is_on_path=True).order_by("seq")
    fields.setdefault("messages", [_stored(each) for each in rows])
    fields.setdefault("through_seq", chat_session.next_seq - 1)
    fields.setdefault("memory_epoch", chat_session.memory_epoch)
    return MemorySnapshot.objects.create(chat_session=chat_session, **fields)


def preference(
    person: Any, key: str = "language", text: str = "Answer in English.", **fields: Any
) -> UserPreference:
    """An active preference in the default tenant, unless `tenant` or `status` say otherwise."""
    owner = fields.pop("tenant", None) or tenant(DEFAULT_TENANT_SLUG)
    made = preferences.remember(
        owner.pk,
        person.pk,
        fields.pop("scope", "all"),
        key,
        text,
        origin=fields.pop("origin", "user"),
    )
    if fields.pop("status", "active") == "disabled":
        preferences.disable(owner.pk, person.pk, made.pk)
    if fields:
        UserPreference.objects.filter(pk=made.pk).update(**fields)
    made.refresh_from_db()
    return made


def _stored(message: ChatMessage) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": message.content,
        "seq": message.seq,
        "id": str(message.pk),
        "turn": str(message.turn_id) if message.turn_id else None,
        "is_partial": message.is_partial,
        "tokens": message.token_count,
        "encoding": message.token_encoding,
    }


def _manifest(
    sent: Sequence[ChatMessage], left_out: Sequence[Mapping[str, Any]], tokens: int
) -> dict[str, Any]:
    *history, current = sent
    parts: list[dict[str, Any]] = [{"kind": "prompt", "role": "system", "tokens": 20, "ids": []}]
    for kind, each in [*(("history", each) for each in history), ("input", current)]:
        parts.append(
            {
                "kind": kind,
                "role": each.role,
                "tokens": 10,
                "seq": each.seq,
                "ids": [str(each.pk)],
            }
        )
    return {
        "version": 1,
        "parts": parts,
        "left_out": [dict(each) for each in left_out],
        "tokens": tokens,
        "budget": 28016,
        "window": {
            "from_seq": history[0].seq if history else 0,
            "through_seq": history[-1].seq if history else 0,
            "messages": len(history),
        },
        "preferences": [],
        "source": "rebuild",
        "policy": {"max_messages": 20, "max_tokens": None, "stride": 0},
        "encoding": "o200k_base",
    }
