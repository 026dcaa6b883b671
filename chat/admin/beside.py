"""What stands beside a conversation: notes and scores of reviewers, and what users thought."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Q

from chat.access import may_read_content
from chat.models import ChatSession, ChatTurn, Feedback, ReviewNote, ReviewScore

T = TypeVar("T")


@dataclass(frozen=True)
class Note:
    pk: int
    author: str
    is_mine: bool
    at: datetime
    text: str | None
    """None: the reader may not see text."""


@dataclass(frozen=True)
class Score:
    author: str
    name: str
    value: int


@dataclass(frozen=True)
class Vote:
    """What the user thought of an answer."""

    user: str
    is_good: bool
    has_comment: bool
    comment: str | None
    """None: the reader may not see text."""


@dataclass(frozen=True)
class Beside:
    """What stands beside a session or one of its turns."""

    notes: tuple[Note, ...] = ()
    scores: tuple[Score, ...] = ()
    votes: tuple[Vote, ...] = ()


def of_session(chat_session: ChatSession, reader: Any) -> Beside:
    """What was said of the session as a whole."""
    about = Q(chat_session=chat_session, turn=None)
    return Beside(
        notes=tuple(note for _, note in _notes(about, reader)),
        scores=tuple(score for _, score in _scores(about)),
    )


def of_turns(turns: Sequence[ChatTurn], reader: Any) -> Mapping[uuid.UUID, Beside]:
    """What was said of each turn, in three queries."""
    about = Q(turn__in=turns)
    notes, scores = _grouped(_notes(about, reader)), _grouped(_scores(about))
    votes = _grouped(_votes(about, reader))
    return {
        turn.pk: Beside(tuple(notes[turn.pk]), tuple(scores[turn.pk]), tuple(votes[turn.pk]))
        for turn in turns
    }


def _notes(about: Q, reader: Any) -> Iterator[tuple[Any, Note]]:
    with_text = may_read_content(reader)
    for row in ReviewNote.objects.filter(about).select_related("author").order_by("pk"):
        yield (
            row.turn_id,
            Note(
                pk=row.pk,
                author=str(row.author or "somebody who left"),
                is_mine=row.author_id == reader.pk,
                at=row.created_at,
                text=row.text if with_text else None,
            ),
        )


def _scores(about: Q) -> Iterator[tuple[Any, Score]]:
    rows = ReviewScore.objects.filter(about).select_related("author").order_by("name", "pk")
    for row in rows:
        yield row.turn_id, Score(author=str(row.author), name=row.name, value=row.value)


def _votes(about: Q, reader: Any) -> Iterator[tuple[Any, Vote]]:
    with_text = may_read_content(reader)
    for row in Feedback.objects.filter(about).select_related("user").order_by("pk"):
        yield (
            row.turn_id,
            Vote(
                user=str(row.user),
                is_good=row.value == Feedback.Value.GOOD,
                has_comment=bool(row.comment),
                comment=row.comment if with_text else None,
            ),
        )


def _grouped(pairs: Iterable[tuple[Any, T]]) -> Mapping[Any, list[T]]:
    found: dict[Any, list[T]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found
