"""The index of what was said: written with each message, asked by people, by models and by staff.

Every user message and every finished answer with text has an entry, wherever it stands; sessions
that are temporary have none. A message is found by its own words, by those of the messages before
and after it, and by its date. See docs/memory.md, "Search and recall".
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from chat.models import ChatMessage, ChatSession, ChatTurn, SearchEntry
from chat.search import embeddings, entries
from chat.search.asking import (
    NOT_INDEXED,
    Found,
    find,
    find_for_staff,
    is_supported,
    notice,
    notice_for,
)
from chat.search.engines import Engine, engine
from chat.search.neighbours import Neighbourhood, is_indexed

BATCH = 500

__all__ = [
    "NOT_INDEXED",
    "Batch",
    "Found",
    "find",
    "find_for_staff",
    "index",
    "index_answers",
    "index_batch",
    "index_session",
    "is_supported",
    "notice",
    "notice_for",
    "optimise",
    "remove_messages",
    "remove_session",
]


@dataclass(frozen=True)
class Batch:
    """How many messages of a batch are indexed, and the seq that it ends with."""

    messages: int
    through: int


def index(
    message: ChatMessage, parent: ChatMessage | None, *, tenant_id: int, user_id: int
) -> None:
    """Add or replace the entry of a message, and put its words behind what stands before it.

    Part of the caller's transaction. `parent` is the row that `message` names as its parent, where
    it is at hand. A message of a role or a content that is not indexed changes nothing. Never call
    it for a temporary session.
    """
    if not is_indexed(message):
        return
    around = Neighbourhood([message] if parent is None else [message, parent])
    around.look_before([message.pk])
    before = around.before(message.pk)
    known = _entry_ids([message.pk] if before is None else [message.pk, before.pk])
    if message.pk in known:
        around.look_after([message.pk])
    else:
        entry = _entry(message, tenant_id, user_id)
        entry.save(force_insert=True)
        known[message.pk] = entry.pk
    if (words := engine()) is None:
        return
    owner = entries.owner_words(tenant_id, user_id)
    words.write({known[message.pk]: _words(message, around, owner)})
    embeddings.write(words, {known[message.pk]: message.content or ""})
    if before is not None and before.pk in known:
        around.look_after([before.pk])
        words.replace(known[before.pk], "next", _next(before, around))


def index_answers(session_id: uuid.UUID, turn_id: uuid.UUID) -> None:
    """Index what a turn answered, when it ends; a temporary session's is left alone.

    Part of the caller's transaction.
    """
    chat_session = ChatSession.objects.filter(pk=session_id, is_temporary=False).first()
    if chat_session is None:
        return
    answers = ChatMessage.objects.filter(
        chat_session=session_id, turn=turn_id, role=ChatMessage.Role.ASSISTANT
    )
    for answer in answers.order_by("seq"):
        index(answer, None, tenant_id=chat_session.tenant_id, user_id=chat_session.user_id)


def index_session(session_id: uuid.UUID, *, after: int = 0) -> int:
    """Make the entries of a session's messages with seq > `after` anew; how many there are.

    Part of the caller's transaction, which has updated the session's row.
    """
    count = 0
    while (batch := index_batch(session_id, after)) is not None:
        count += batch.messages
        after = batch.through
    return count


def index_batch(session_id: uuid.UUID, after: int) -> Batch | None:
    """Make the entries of the next messages after a seq anew; None when there are no more.

    Part of the caller's transaction, which has updated the session's row. A session that is
    temporary, or gone, has nothing to index.
    """
    chat_session = ChatSession.objects.filter(pk=session_id, is_temporary=False).first()
    rows = ChatMessage.objects.filter(chat_session=chat_session, seq__gt=after).order_by("seq")
    if chat_session is None or not (batch := list(rows[:BATCH])):
        return None
    return Batch(_index_batch(chat_session, batch), batch[-1].seq)


def remove_messages(ids: Collection[uuid.UUID]) -> int:
    """Remove the entries of messages, and their words from what stands beside them; how many went.

    Part of the caller's transaction; called before the messages themselves go or lose their text.
    """
    gone = SearchEntry.objects.filter(message__in=ids)
    if (words := engine()) is not None:
        rows = list(ChatMessage.objects.filter(pk__in=ids))
        _forget_beside(words, Neighbourhood(rows, left_out=ids), [row.pk for row in rows])
    return gone.delete()[0]


def remove_session(session_id: uuid.UUID) -> int:
    """Remove all entries of a session, in the caller's transaction; how many went."""
    return SearchEntry.objects.filter(chat_session=session_id).delete()[0]


def optimise() -> None:
    """Take what was deleted out of the index's files too. Outside of any transaction."""
    if (words := engine()) is not None:
        words.optimise()


def _unfinished_answers(chat_session: ChatSession) -> set[uuid.UUID]:
    """What a running turn has stored so far: it is indexed when the turn ends."""
    running = ChatMessage.objects.filter(
        chat_session=chat_session,
        role=ChatMessage.Role.ASSISTANT,
        turn__status=ChatTurn.Status.RUNNING,
    )
    return set(running.values_list("pk", flat=True))


def _index_batch(chat_session: ChatSession, batch: Sequence[ChatMessage]) -> int:
    unfinished = _unfinished_answers(chat_session)
    wanted = [each for each in batch if is_indexed(each) and each.pk not in unfinished]
    unwanted = {each.pk for each in batch} - {each.pk for each in wanted}
    SearchEntry.objects.filter(message__in=unwanted).delete()
    known = _make_entries(chat_session, wanted)
    words = engine()
    if words is not None and wanted:
        around = Neighbourhood(batch, left_out=unfinished)
        around.look_before(known)
        around.look_after(known)
        owner = entries.owner_words(chat_session.tenant_id, chat_session.user_id)
        words.write({known[each.pk]: _words(each, around, owner) for each in wanted})
        _write_before(words, wanted[0], around)
        embeddings.write(words, {known[each.pk]: each.content or "" for each in wanted})
    return len(wanted)


def _make_entries(chat_session: ChatSession, wanted: Sequence[ChatMessage]) -> dict[uuid.UUID, int]:
    """The entry of each message, made where there is none; all are the session's holder's."""
    ids = [each.pk for each in wanted]
    owner = chat_session.tenant_id, chat_session.user_id
    known = _entry_ids(ids)
    SearchEntry.objects.filter(pk__in=known.values()).update(tenant=owner[0], user=owner[1])
    SearchEntry.objects.bulk_create(_entry(each, *owner) for each in wanted if each.pk not in known)
    return _entry_ids(ids)


def _write_before(words: Engine, first: ChatMessage, around: Neighbourhood) -> None:
    """Put what follows behind the message that stands before a batch."""
    before = around.before(first.pk)
    if before is None:
        return
    around.look_after([before.pk])
    for entry_id in _entry_ids([before.pk]).values():
        words.replace(entry_id, "next", _next(before, around))


def _entry(message: ChatMessage, tenant_id: int, user_id: int) -> SearchEntry:
    return SearchEntry(
        message=message,
        chat_session_id=message.chat_session_id,
        tenant_id=tenant_id,
        user_id=user_id,
        seq=message.seq,
    )


def _entry_ids(message_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    rows = SearchEntry.objects.filter(message__in=list(message_ids))
    return dict(rows.values_list("message_id", "pk"))


def _words(message: ChatMessage, around: Neighbourhood, owner: tuple[str, ...]) -> entries.Words:
    return entries.Words(
        own=entries.own_words(around.words(message)),
        previous=_previous(message, around),
        next=_next(message, around),
        day=entries.day_words(message.created_at),
        owner=owner,
    )


def _previous(message: ChatMessage, around: Neighbourhood) -> tuple[str, ...]:
    before = around.before(message.pk)
    return entries.beside_words([around.words(before)] if before is not None else [])


def _next(message: ChatMessage, around: Neighbourhood) -> tuple[str, ...]:
    return entries.beside_words(map(around.words, around.after(message.pk)))


def _forget_beside(words: Engine, around: Neighbourhood, ids: Sequence[uuid.UUID]) -> None:
    """Give what stands beside `ids` the words of what stands there without them."""
    around.look_before(ids)
    around.look_after(ids)
    befores = {each.pk: each for each in map(around.before, ids) if each is not None}
    afters = {each.pk: each for message_id in ids for each in around.after(message_id)}
    around.look_after(befores)
    for message_id, entry_id in _entry_ids([*befores, *afters]).items():
        if message_id in befores:
            words.replace(entry_id, "next", _next(befores[message_id], around))
        if message_id in afters:
            words.replace(entry_id, "previous", _previous(afters[message_id], around))
