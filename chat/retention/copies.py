"""Copies of words that stand elsewhere than where they were said, dropped with their source.

DerivedText names them: blocks that were sent to a model, and what a tool recalled out of another
conversation. Digests name the sessions that they were made of.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.db.models import F, Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from chat import dues, records
from chat.models import (
    ChatMessage,
    ChatSession,
    ContextPart,
    ContextRecord,
    DerivedText,
    FollowUp,
)
from chat.retention import exports, removals
from chat.retention.receipts import Gone, gone
from memory import digests, summaries
from memory.models import UserPreference

BATCH = 500


def from_session(session_id: uuid.UUID, seqs: Collection[int] | None = None) -> Q:
    """What holds words of a session, or of messages of it; what cannot tell which holds any."""
    source = Q(source_session=session_id)
    if seqs is None:
        return source
    return source & (Q(source_seq__in=list(seqs)) | Q(source_seq=None))


def from_preferences(ids: Collection[int]) -> Q:
    return Q(source_preference__in=list(ids))


def holders(source: Q) -> set[uuid.UUID]:
    """The sessions in which there are copies."""
    return set(DerivedText.objects.filter(source).values_list("chat_session", flat=True))


def touched(session_id: uuid.UUID) -> set[uuid.UUID]:
    """A session, and those with copies of its words or of preferences that came from it.

    Whoever deletes of it claims all of them first, in one order: else two would wait for each
    other, each for what the other has.
    """
    taken = UserPreference.objects.filter(source_session=session_id).values_list("pk", flat=True)
    return {session_id, *holders(from_session(session_id) | from_preferences(list(taken)))}


def claim(session_ids: Collection[uuid.UUID]) -> None:
    """Lock the rows of sessions, in one order for everybody; those that are gone are none."""
    for session_id in sorted(session_ids):
        ChatSession.objects.filter(pk=session_id).update(last_active_at=F("last_active_at"))


def drop(source: Q) -> Gone:
    """Drop every copy, in a transaction that has claimed the holders.

    Blocks that were sent go; a tool's message keeps its place in the conversation, without text.
    """
    copies = DerivedText.objects.filter(source)
    messages = set(copies.exclude(message=None).values_list("message", flat=True))
    parts = list(set(copies.exclude(part=None).values_list("part", flat=True)))
    count = copies.count()
    taken = gone(derived_texts=count, context_parts=drop_parts(parts)) + empty_messages(messages)
    copies.delete()
    return taken


def drop_parts(part_ids: Sequence[uuid.UUID]) -> int:
    """Delete verbatim texts; the records that named them then say that a text is missing."""
    count = 0
    for start in range(0, len(part_ids), BATCH):
        batch = part_ids[start : start + BATCH]
        rows = DerivedText.objects.filter(part__in=batch)
        rows._raw_delete(rows.db)
        parts = ContextPart.objects.filter(pk__in=batch).exclude(chat_session=None)
        count += parts._raw_delete(parts.db)
    return count


def empty_messages(message_ids: Collection[uuid.UUID]) -> Gone:
    """Take the text out of messages that quote something that goes, and out of what was made of
    them since, exports among it."""
    found = ChatMessage.objects.filter(pk__in=message_ids).values_list("chat_session", "pk", "seq")
    by_session: dict[uuid.UUID, dict[uuid.UUID, int]] = {}
    for session_id, pk, seq in found:
        by_session.setdefault(session_id, {})[pk] = seq
    taken = Gone()
    for session_id, quoting in sorted(by_session.items()):
        rows = ChatMessage.objects.filter(pk__in=list(quoting))
        count = rows.update(content="", token_count=None, redacted_at=timezone.now())
        DerivedText.objects.filter(message__in=list(quoting)).delete()
        taken += gone(redacted_messages=count) + forget_in_memory(session_id, quoting)
        tenant = ChatSession.objects.values_list("tenant", flat=True).get(pk=session_id)
        taken += exports.drop_holding(tenant, session_id)
    return taken


def forget_in_memory(session_id: uuid.UUID, messages: dict[uuid.UUID, int]) -> Gone:
    """Drop what memory made of some messages (their ids and seqs) of a session that was claimed:
    the snapshot, summaries that cover them, the digest, what was sent of them verbatim."""
    ChatSession.objects.filter(pk=session_id).update(memory_epoch=F("memory_epoch") + 1)
    snapshot, pending = removals.drop_snapshot(session_id)
    drop_errors(Q(chat_session=session_id))
    covering = summaries.drop_covering(session_id, list(messages.values()))
    digest = empty_digest(session_id) if covering else Gone()
    taken = gone(snapshots=snapshot, summaries=covering)
    return taken + Gone(pending=pending) + digest + drop_sent(session_id, messages)


def empty_digest(session_id: uuid.UUID) -> Gone:
    """Empty the digest of the session's holder if it was made with it; another is then due."""
    owner = ChatSession.objects.filter(pk=session_id).values_list("tenant", "user").first()
    if owner is None or not digests.forget_source(*owner, session_id):
        return Gone()
    subject = f"{owner[0]}:{owner[1]}"
    dues.mark(FollowUp.Kind.DIGEST, subject)
    drop_errors(Q(kind=FollowUp.Kind.DIGEST, subject=subject))
    return gone(digests=1)


def drop_errors(which: Q) -> None:
    """Take out why follow-ups failed: an endpoint may quote what it was asked with."""
    FollowUp.objects.filter(which).update(last_error="")


# --- Records of requests --------------------------------------------------------------------------


def drop_sent(session_id: uuid.UUID, messages: dict[uuid.UUID, int]) -> Gone:
    """Take verbatim texts and the proof out of the records of a session that held messages."""
    ids, parts, found = {str(each) for each in messages}, list[uuid.UUID](), list[uuid.UUID]()
    seqs = set(messages.values())
    rows = ContextRecord.objects.filter(chat_session=session_id).order_by()
    for pk, manifest, layout in rows.values_list("pk", "manifest", "layout").iterator(BATCH):
        if held(manifest, layout, ids, seqs):
            found.append(pk)
            parts += [entry[2] for entry in layout if _is_kept(entry)]
    for start in range(0, len(found), BATCH):
        batch = found[start : start + BATCH]
        ContextRecord.objects.filter(pk__in=batch).update(proof="")
    return gone(context_parts=drop_parts(parts), proofs=len(found))


def held(manifest: Any, layout: Any, ids: Collection[str], seqs: Collection[int]) -> bool:
    """Whether a request held one of these messages, or a summary that covers one."""
    summary = manifest.get("summary")
    if summary and any(summary["covers_from"] <= seq <= summary["covers_through"] for seq in seqs):
        return True
    named = (each for part in manifest["parts"] for each in part["ids"])
    return any(each in ids for each in named) or any(entry[2] in ids for entry in layout)


def drop_keys(tenant_id: int, user_id: int, preference_ids: Collection[int]) -> int:
    """Take the keys of preferences out of the manifests of their owner's requests; how many."""
    count = 0
    mine = ContextRecord.objects.filter(
        chat_session__tenant=tenant_id, chat_session__user=user_id
    ).annotate(text=Cast("manifest", TextField()))
    for preference in preference_ids:
        naming = mine.filter(text__contains=f'"id": {preference},').order_by()
        for pk, manifest in naming.values_list("pk", "manifest").iterator(BATCH):
            naming_it = [each for each in _preferences_in(manifest) if each["id"] == preference]
            for line in naming_it:
                line["key"] = ""
            if naming_it:
                ContextRecord.objects.filter(pk=pk).update(manifest=manifest)
                count += 1
    return count


def drop_digest_blocks(tenant_id: int, user_id: int) -> int:
    """Delete what was sent of a person's digest, whoever wrote it; how many texts."""
    sent = ContextRecord.objects.filter(
        chat_session__tenant=tenant_id, chat_session__user=user_id
    ).annotate(text=Cast("manifest", TextField()))
    parts: list[uuid.UUID] = []
    naming = sent.filter(text__contains='"digest": {').order_by()
    for manifest, layout in naming.values_list("manifest", "layout").iterator(BATCH):
        lines = zip(manifest["parts"], layout, strict=True)
        parts += [entry[2] for line, entry in lines if line.get("digest") and _is_kept(entry)]
    return drop_parts(parts)


def _is_kept(entry: Sequence[str]) -> bool:
    """Whether a record keeps this message verbatim."""
    return entry[1] in (records.PART, records.WHOLE)


def _preferences_in(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("preferences", "preferences_left_out"):
        yield from manifest.get(name, ())
