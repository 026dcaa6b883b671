"""Deleting a message with its answers out of a conversation that goes on without them."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q, QuerySet

from chat import dues, events, leases, tallies, temporary
from chat.models import (
    Attachment,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextRecord,
    DeletionReceipt,
    DerivedText,
    Feedback,
    FollowUp,
    ReviewNote,
    ReviewScore,
)
from chat.retention import copies, exports, places, receipts, removals
from chat.retention.notes import Actor, note_about
from chat.retention.places import Place
from chat.retention.preferences import drop_preference
from chat.retention.receipts import Gone, Kind, Subject, gone
from chat.search import messages as search
from chat.turns.inputs import first_title
from memory.models import UserPreference
from memory.words import question_tokens, tokens

Role = ChatMessage.Role
TitleSource = ChatSession.TitleSource


class NoSuchMessage(Exception):
    """The session has no message of its holder with this id."""


@dataclass(frozen=True)
class Pair:
    """A message of a person, everything that answers it in any branch, and the turns that did."""

    session_id: uuid.UUID
    asked: ChatMessage
    messages: dict[uuid.UUID, int]
    """Their seqs by id."""
    turns: tuple[uuid.UUID, ...]

    @property
    def rows(self) -> QuerySet[ChatMessage]:
        return ChatMessage.objects.filter(pk__in=list(self.messages))


def forget_pair(
    session_id: uuid.UUID,
    message_id: uuid.UUID,
    *,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
) -> DeletionReceipt:
    """Delete a message that a person wrote, its answers, and everything made of them.

    What followed hangs on what stood before; `seq` has a gap. Preferences that were taken from
    the message go, and what they had replaced is offered again. `leases.Busy` while a turn runs,
    `leases.Gone` without such a session, `NoSuchMessage`, `temporary.TextsUnavailable`.
    """
    acts = Actor(actor, reason, ip)
    with transaction.atomic():
        copies.claim(copies.touched(session_id))
        leases.lock_idle(session_id, memory_epoch=F("memory_epoch") + 1)
        pair = find(session_id, message_id)
        chat_session = ChatSession.objects.get(pk=session_id)
        taken = take_out(pair, chat_session)
        note_about("message.delete", "message", str(message_id), acts, count=len(pair.messages))
        owner = chat_session.user_id, chat_session.tenant_id
        return receipts.write(Subject(Kind.MESSAGE, message_id, *owner), taken, acts)


def find(session_id: uuid.UUID, message_id: uuid.UUID) -> Pair:
    """The message and what answers it: down to, and without, whatever a person wrote next."""
    messages = ChatMessage.objects.filter(chat_session=session_id)
    asked = messages.filter(pk=message_id, role=Role.USER).first()
    if asked is None:
        raise NoSuchMessage(f"There is no message {message_id} of yours in this session.")
    found = newest = {asked.pk: asked.seq}
    turns = tuple(ChatTurn.objects.filter(input=asked).values_list("pk", flat=True))
    while newest:
        answers = messages.filter(Q(parent__in=list(newest)) | Q(turn__in=turns))
        rows = answers.exclude(role=Role.USER).exclude(pk__in=list(found))
        newest = dict(rows.values_list("pk", "seq"))
        found = found | newest
    return Pair(session_id, asked, found, turns)


def take_out(pair: Pair, chat_session: ChatSession) -> Gone:
    """Delete the pair in a transaction that has locked the idle session."""
    quoted = quoting_seqs(chat_session, pair.messages)
    taken = copies.forget_in_memory(pair.session_id, pair.messages)
    taken += copies.drop(copies.from_session(pair.session_id, quoted))
    taken += drop_preferences(pair, chat_session) + drop_images(pair)
    taken += exports.drop_holding(chat_session.tenant_id, pair.session_id)
    taken += gone(search_entries=search.remove_messages(list(pair.messages)))
    taken += Gone(pending=removals.of_index(taken.rows))
    count, on_path = pair.rows.count(), pair.rows.filter(is_on_path=True).count()
    close_gap(pair)
    ChatSession.objects.filter(pk=pair.session_id, head__in=list(pair.messages)).update(head=None)
    taken += Gone(places.empty(PAIR_PLACES, pair))
    head, joined = find_head(pair.session_id)
    changes = {
        "head": head,
        "message_count": F("message_count") - count,
        # `turn_count` stays: it numbers the turns, and no number comes twice.
        "path_count": F("path_count") - on_path + joined,
        **new_title(chat_session),
    }
    ChatSession.objects.filter(pk=pair.session_id).update(**changes)
    tallies.recount(pair.session_id)
    if chat_session.is_temporary:
        temporary.drop(pair.session_id, pair.messages)
    told = {name: changes[name] for name in ("title", "title_source") if name in changes}
    frame = events.session_updated(chat_session, head=str(head) if head else None, **told)
    transaction.on_commit(partial(events.publish_from_thread, pair.session_id, frame))
    return taken


PAIR_PLACES = (
    Place("feedback", lambda pair: Feedback.objects.filter(turn__in=pair.turns)),
    Place("review_scores", lambda pair: ReviewScore.objects.filter(turn__in=pair.turns)),
    Place("review_notes", lambda pair: ReviewNote.objects.filter(turn__in=pair.turns)),
    Place("context_records", lambda pair: ContextRecord.objects.filter(turn__in=pair.turns)),
    Place("derived_texts", lambda pair: DerivedText.objects.filter(message__in=pair.rows)),
    Place("attachments", lambda pair: Attachment.objects.filter(message__in=pair.rows)),
    Place("turns", lambda pair: ChatTurn.objects.filter(pk__in=pair.turns)),
    Place("messages", lambda pair: pair.rows),
)


def close_gap(pair: Pair) -> None:
    """What followed hangs on what stood before; the links among what goes are taken out."""
    following = ChatMessage.objects.filter(parent__in=list(pair.messages))
    following.exclude(pk__in=list(pair.messages)).update(parent=pair.asked.parent_id)
    pair.rows.update(parent=None, turn=None)


def drop_preferences(pair: Pair, chat_session: ChatSession) -> Gone:
    """What was taken from the message goes; what people wrote themselves loses its source."""
    owner = chat_session.tenant_id, chat_session.user_id
    said = UserPreference.objects.filter(
        source_session=pair.session_id, source_seq__in=list(pair.messages.values())
    )
    taken = Gone()
    for each in list(said.filter(origin=UserPreference.Origin.CHAT).order_by("-pk")):
        taken += drop_preference(*owner, each.pk, offer_older=True)
    said.update(source_session=None, source_seq=None, quote="")
    return taken


def drop_images(pair: Pair) -> Gone:
    """Images go with their file, unless another wording of the message shows them too."""
    others = ChatMessage.objects.filter(
        chat_session=pair.session_id, parent=pair.asked.parent_id, role=Role.USER
    ).exclude(pk=pair.asked.pk)
    shown = {
        part["attachment"]: other.pk
        for other in others.exclude(parts=[])
        for part in other.parts
        if isinstance(part, dict) and "attachment" in part
    }
    images = Attachment.objects.filter(message__in=pair.rows)
    for image in list(images):
        if (other := shown.get(str(image.pk))) is not None:
            Attachment.objects.filter(pk=image.pk).update(message=other)
    return Gone(pending=removals.of_files(images))


def find_head(session_id: uuid.UUID) -> tuple[uuid.UUID | None, int]:
    """The end of the branch that is shown, which leads down to the newest of what hangs on it;
    and how many messages joined it."""
    messages = ChatMessage.objects.filter(chat_session=session_id)
    newest = messages.filter(is_on_path=True).aggregate(seq=Max("seq"))["seq"]
    head = messages.filter(seq=newest).values_list("pk", flat=True).first() if newest else None
    joined = 0
    while (below := messages.filter(parent=head).order_by("-seq").first()) is not None:
        head, joined = below.pk, joined + 1
        messages.filter(pk=head).update(is_on_path=True)
    return head, joined


def quoting_seqs(
    chat_session: ChatSession, messages: dict[uuid.UUID, int]
) -> Collection[int] | None:
    """By which messages (their seqs) other conversations may quote words of these; None: by any.

    A quotation names the conversation by its title, and one that nobody gave may be made of them.
    """
    named = set(question_tokens(chat_session.title))
    if named and chat_session.title_source != TitleSource.USER:
        rows = ChatMessage.objects.filter(pk__in=list(messages)).exclude(content=None)
        for text in rows.values_list("content", flat=True).iterator():
            if not named.isdisjoint(tokens(text or "")):
                return None
    return set(messages.values())


def new_title(chat_session: ChatSession) -> dict[str, str]:
    """A title that nobody gave may hold words of what went: it is made anew from what is left."""
    if chat_session.title_source == TitleSource.USER or not chat_session.title:
        return {}
    asked = ChatMessage.objects.filter(
        chat_session=chat_session, role=Role.USER, is_on_path=True
    ).order_by("seq")
    first = asked.exclude(content=None).exclude(content="").first()
    if chat_session.title_source == TitleSource.MODEL and first is not None:
        dues.mark_session(FollowUp.Kind.TITLE, chat_session.pk)
    title = first_title(first.content or "") if first is not None else ""
    return {"title": title, "title_source": TitleSource.AUTO}
