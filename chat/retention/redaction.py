"""Taking the text out of messages that stay in their place, and out of every copy of them."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from chat import events, leases, temporary
from chat.models import Attachment, ChatMessage, ChatSession, ChatTurn, FollowUp
from chat.retention import copies, exports, receipts, removals
from chat.retention.notes import Actor, note_about
from chat.retention.pairs import new_title, quoting_seqs
from chat.retention.preferences import drop_preference
from chat.retention.receipts import Gone, gone
from chat.search import messages as search
from memory.models import UserPreference

ALL = "all"  # instead of ids: every message of the session
BATCH = 500


def redact(
    session_id: uuid.UUID,
    message_ids: Collection[uuid.UUID] | str,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
) -> int:
    """Take the text out of some messages of a session, or of `ALL`; how many had one.

    Rows, order and figures stay. What was made of them goes: search entries, snapshot, summaries
    that cover them, the digest, what other conversations recalled of them, what was sent of them
    verbatim with its proof, images, exports, preferences that were taken from them, and a title
    that nobody gave. `leases.Busy` while a turn runs, `leases.Gone` without such a session.
    """
    acts = Actor(actor, reason, ip)
    with transaction.atomic():
        copies.claim(copies.touched(session_id))
        leases.lock_idle(session_id, memory_epoch=F("memory_epoch") + 1)
        rows = _wanted(session_id, message_ids)
        found = dict(rows.values_list("pk", "seq"))
        if not found:
            return 0
        whole = message_ids == ALL
        chat_session = ChatSession.objects.get(pk=session_id)
        quoted = None if whole else quoting_seqs(chat_session, found)
        _take_text(rows, found)
        taken = _drop_copies(chat_session, found, quoted, whole=whole)
        _rename(session_id, whole=whole)
        receipts.follow(taken.pending)
        _note(acts, session_id, found, whole=whole)
        frame = {
            "type": "messages.redacted",
            "session": str(session_id),
            "messages": [str(each) for each in found],
        }
        transaction.on_commit(partial(events.publish_from_thread, session_id, frame))
    return len(found)


def _wanted(
    session_id: uuid.UUID, message_ids: Collection[uuid.UUID] | str
) -> QuerySet[ChatMessage]:
    rows = ChatMessage.objects.filter(chat_session=session_id, redacted_at=None)
    return rows if isinstance(message_ids, str) else rows.filter(pk__in=list(message_ids))


def _take_text(rows: QuerySet[ChatMessage], found: dict[uuid.UUID, int]) -> None:
    """Calls of tools keep their ids and names, so that each still belongs to its result."""
    calling = rows.exclude(tool_calls=[])
    for pk, calls in list(calling.values_list("pk", "tool_calls")):
        emptied = [{**call, "arguments": "{}"} for call in calls]
        ChatMessage.objects.filter(pk=pk).update(tool_calls=emptied)
    ids = list(found)
    for start in range(0, len(ids), BATCH):
        ChatMessage.objects.filter(pk__in=ids[start : start + BATCH]).update(
            content="", parts=[], token_count=None, redacted_at=timezone.now()
        )


def _drop_copies(
    chat_session: ChatSession,
    found: dict[uuid.UUID, int],
    quoted: Collection[int] | None,
    *,
    whole: bool,
) -> Gone:
    session_id = chat_session.pk
    owner = chat_session.tenant_id, chat_session.user_id
    seqs = None if whole else set(found.values())
    taken = copies.forget_in_memory(session_id, found)
    taken += copies.drop(copies.from_session(session_id, quoted))
    taken += _drop_preferences(owner, session_id, seqs)
    images = Attachment.objects.filter(message__in=list(found))
    taken += Gone(pending=removals.of_files(images))
    images.delete()
    taken += exports.drop_holding(chat_session.tenant_id, session_id)
    taken += gone(search_entries=search.remove_messages(list(found)))
    taken += Gone(pending=removals.of_index(taken.rows))
    ChatTurn.objects.filter(input__in=list(found)).update(error_detail="")
    FollowUp.objects.filter(chat_session=session_id).update(last_error="")
    if chat_session.is_temporary:
        temporary.drop(session_id, found)
    return taken


def _drop_preferences(
    owner: tuple[int, int], session_id: uuid.UUID, seqs: Collection[int] | None
) -> Gone:
    """What was taken from the text goes; what people wrote themselves loses its quotation."""
    said = UserPreference.objects.filter(source_session=session_id)
    if seqs is not None:
        said = said.filter(source_seq__in=list(seqs))
    taken = Gone()
    for each in list(said.filter(origin=UserPreference.Origin.CHAT).order_by("-pk")):
        taken += drop_preference(*owner, each.pk, offer_older=True)
    said.update(quote="")
    return taken


def _rename(session_id: uuid.UUID, *, whole: bool) -> None:
    chat_session = ChatSession.objects.get(pk=session_id)
    changes: dict[str, Any] = (
        {"title": "", "title_source": ChatSession.TitleSource.AUTO}
        if whole
        else new_title(chat_session)
    )
    if changes:
        ChatSession.objects.filter(pk=session_id).update(**changes)


def _note(acts: Actor, session_id: uuid.UUID, found: dict[uuid.UUID, int], *, whole: bool) -> None:
    if whole:
        note_about("session.redact", "session", str(session_id), acts, count=len(found))
        return
    for pk in found:
        note_about("message.redact", "message", str(pk), acts)
