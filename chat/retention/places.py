"""Every place that holds what a session said or names a person, third-party tables included.

Whatever deletes walks these lists; tests hold them against all tables that point at a session or
a person. Rows leave by plain DELETE statements, so memory does not grow with their number.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from chat.models import (
    Attachment,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    DerivedText,
    Feedback,
    FollowUp,
    ReviewNote,
    ReviewScore,
    ReviewTag,
    SearchEntry,
)
from memory.models import ConversationSummary, MemorySnapshot


@dataclass(frozen=True)
class Removed:
    """How many rows left, by the name of their place."""

    rows: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Removed) -> Removed:
        return Removed(dict(Counter(self.rows) + Counter(other.rows)))

    @property
    def total(self) -> int:
        return sum(self.rows.values())


@dataclass(frozen=True)
class Place:
    """A table with rows that derive from a subject, and which those are."""

    name: str
    rows: Callable[[Any], QuerySet[Any]]


def feedback_of(session_id: uuid.UUID) -> QuerySet[Feedback]:
    return Feedback.objects.filter(turn__in=ChatTurn.objects.filter(chat_session=session_id))


def tagged(session_id: uuid.UUID) -> QuerySet[Any]:
    return ReviewTag.chat_sessions.through._default_manager.filter(chatsession=session_id)


def owned(model: Any) -> Callable[[uuid.UUID], QuerySet[Any]]:
    """The rows of `model` that name the session as theirs."""
    return lambda session_id: model.objects.filter(chat_session=session_id)


# Everything of a session, in an order that immediate foreign keys accept.
SESSION_PLACES = (
    Place("feedback", feedback_of),
    Place("review_tags", tagged),
    Place("review_scores", owned(ReviewScore)),
    Place("review_notes", owned(ReviewNote)),
    Place("follow_ups", owned(FollowUp)),
    Place("derived_texts", owned(DerivedText)),
    Place("context_records", owned(ContextRecord)),
    Place("context_parts", owned(ContextPart)),
    Place("search_entries", owned(SearchEntry)),
    Place("summaries", owned(ConversationSummary)),
    Place("snapshots", owned(MemorySnapshot)),
    Place("attachments", owned(Attachment)),
    Place("turns", owned(ChatTurn)),
    Place("messages", owned(ChatMessage)),
    Place("sessions", lambda session_id: ChatSession.objects.filter(pk=session_id)),
)


def empty(places: Iterable[Place], subject: Any) -> Removed:
    """Delete the rows of `subject` in every place; places without any are not counted."""
    removed = {}
    for place in places:
        rows = place.rows(subject)
        if count := rows._raw_delete(rows.db):
            removed[place.name] = count
    return Removed(removed)


def loosen(messages: QuerySet[ChatMessage]) -> None:
    """Take the links out of messages that are about to go, where each row is checked by itself."""
    if not connection.features.can_defer_constraint_checks:  # MariaDB
        messages.update(parent=None, turn=None)
