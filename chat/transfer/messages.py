"""Messages out of another system's memory into a session, and out of a session again.

What is imported was not said to a model here: the messages have no turn. They stand at the end of
the chosen branch, and the next request is given of them what any history is given.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from chat import leases, temporary
from chat.models import ChatMessage, ChatSession
from chat.retention.notes import Actor, note
from chat.search.messages import index_session
from chat.turns.inputs import first_title
from memory import snapshots
from memory.formats import without_kept
from memory.messages import KEPT, Message, Role, ToolCall, from_data, to_data
from memory.text import clean_data
from memory.tokens import counter_for

SYSTEM = "system messages (the assistant's prompt stands in their place)"
EMPTY = "messages without text, calls or files"
BATCH = 500
ID_LENGTH, NAME_LENGTH = 200, 100  # of the columns
FAILED = {"type": KEPT, "is_error": True}  # there is no column for it


class NotImportable(Exception):
    """The session cannot take messages from outside."""


@dataclass(frozen=True)
class Imported:
    """How many messages were stored, how many changed because a database cannot hold their text
    as it was, and how many were left out, by what they are."""

    stored: int
    cleaned: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)


def import_messages(
    session_id: uuid.UUID, messages: Sequence[Message], by: Actor | None = None
) -> Imported:
    """Append `messages` to the chosen branch of a session in which nothing runs.

    All or nothing. `leases.Gone` without such a session, `leases.Busy` while a turn runs there,
    `NotImportable` for a temporary session, whose text no table may hold.
    """
    kept, left_out = _importable(messages)
    cleaned = [from_data(clean_data(to_data(each))) for each in kept]
    count = len(cleaned)
    with transaction.atomic():
        grown = {name: F(name) + count for name in ("next_seq", "message_count", "path_count")}
        leases.lock_idle(session_id, **grown, last_active_at=Now())
        chat_session = ChatSession.objects.select_related("assistant__endpoint", "head").get(
            pk=session_id
        )
        if chat_session.is_temporary:
            raise NotImportable(f"Session {session_id} is temporary: it stores no messages.")
        _append(chat_session, cleaned)
        index_session(session_id, after=chat_session.next_seq - 1 - count)
        snapshots.drop(session_id)
        note("session.import", session_id, by or Actor())
    changed = sum(before != after for before, after in zip(kept, cleaned, strict=True))
    return Imported(count, changed, left_out)


def export_messages(session_id: uuid.UUID, *, whole: bool = False) -> list[Message]:
    """The chosen branch after the forget line, or with `whole` from its beginning.

    `leases.Gone` without such a session.
    """
    chat_session = ChatSession.objects.filter(pk=session_id).first()
    if chat_session is None:
        raise leases.Gone(f"Session {session_id} does not exist.")
    after = 0 if whole else chat_session.memory_starts_after
    branch = ChatMessage.objects.filter(
        chat_session=chat_session, is_on_path=True, seq__gt=after
    ).order_by("seq")
    rows = list(branch)
    temporary.fill(rows)
    return [_message(row) for row in rows]


def _importable(messages: Sequence[Message]) -> tuple[list[Message], dict[str, int]]:
    kept: list[Message] = []
    left_out: Counter[str] = Counter()
    for message in messages:
        if message.role == "system":
            left_out[SYSTEM] += 1
        elif not (message.has_text or message.tool_calls or without_kept(message).parts):
            left_out[EMPTY] += 1
        else:
            kept.append(_fitting(message))
    return kept, dict(left_out)


def _fitting(message: Message) -> Message:
    """`message` with ids and names as long as their columns; calls and results stay paired."""
    calls = tuple(replace(call, id=call.id[:ID_LENGTH]) for call in message.tool_calls)
    return replace(
        message,
        tool_calls=calls,
        tool_call_id=message.tool_call_id[:ID_LENGTH],
        name=message.name[:NAME_LENGTH],
    )


def _append(chat_session: ChatSession, messages: Sequence[Message]) -> None:
    """Store `messages`; their seqs were taken when the session was locked."""
    encoding = chat_session.assistant.endpoint.encoding
    count_tokens = counter_for(encoding)
    parent = chat_session.head_id
    seq = chat_session.next_seq - len(messages)
    rows = []
    for message in messages:
        row = ChatMessage(
            chat_session=chat_session,
            parent_id=parent,
            seq=seq,
            token_count=count_tokens(replace(message, parts=())),  # those of imports are not sent
            token_encoding=encoding,
            **_columns(message),
        )
        rows.append(row)
        parent, seq = row.pk, seq + 1
    ChatMessage.objects.bulk_create(rows, batch_size=BATCH)
    changes: dict[str, Any] = {"head_id": parent}
    asked = next((each.content for each in messages if each.role == "user" and each.content), "")
    if asked and not chat_session.title:
        changes["title"] = first_title(asked)
    ChatSession.objects.filter(pk=chat_session.pk).update(**changes)


def _columns(message: Message) -> dict[str, Any]:
    data = to_data(message)
    return {
        "role": message.role,
        "content": message.content,
        "parts": [*data.get("parts", []), *([FAILED] if message.is_error else [])],
        "tool_calls": data.get("tool_calls", []),
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }


def _message(row: ChatMessage) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in row.tool_calls)
    content = row.content if row.content is not None or calls else ""
    return Message(
        cast(Role, row.role),
        content,
        tuple(part for part in row.parts if part != FAILED),
        calls,
        row.tool_call_id,
        row.name,
        FAILED in row.parts,
    )
