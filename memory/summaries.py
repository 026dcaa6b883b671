"""Summaries of sessions: rows that stand for the older turns of a branch.

A version is never changed; a new one is made. It is used while it was made after the forget line
and the newest message that it covers is on the chosen branch; so after another branch was chosen an
earlier version may be the one in use.
"""

from __future__ import annotations

import logging
import uuid
from bisect import bisect, bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from memory.blocks import SummaryText
from memory.models import ConversationSummary
from memory.summary_items import Item, as_data, from_data
from memory.summary_plan import Chunk, chunk, due_before, entries

__all__ = [
    "Chunk",
    "Made",
    "Summary",
    "chunk",
    "drop",
    "drop_covering",
    "due_before",
    "entries",
    "newest_version",
    "save",
    "usable",
    "usable_version",
]

logger = logging.getLogger(__name__)

LOOKED_AT = 20  # versions, the newest first, among which the one in use is found


class Branch(Protocol):
    """The chosen branch of a session."""

    def holds(self, message_id: str) -> bool:
        """Whether the message is on it."""


@dataclass(frozen=True)
class Summary:
    """A stored version with its items."""

    text: SummaryText
    items: tuple[Item, ...]
    tokens: int
    source_tokens: int
    """Of all the messages that it stands for."""


@dataclass(frozen=True)
class Made:
    """A summary that was made and is not stored yet.

    `newest_version` is the newest that was stored when it was begun (0: none), `memory_epoch` the
    session's then.
    """

    newest_version: int
    memory_epoch: int
    text: str
    items: tuple[Item, ...]
    covers_from: int
    covers_through: int
    last_message: str
    turns: tuple[str, ...]
    endpoint_name: str
    model_name: str
    tokens: int
    encoding: str
    source_tokens: int


def usable(session_id: uuid.UUID, *, forget_line: int, reader: Branch) -> SummaryText | None:
    """The summary that may stand for the older part of the branch now; None: there is none."""
    found = usable_version(session_id, forget_line=forget_line, reader=reader)
    return found.text if found is not None else None


def usable_version(session_id: uuid.UUID, *, forget_line: int, reader: Branch) -> Summary | None:
    """As `usable`, with what it is made of."""
    made_since = _of(session_id).filter(covers_from__gt=forget_line).order_by("-version")
    for row in made_since[:LOOKED_AT]:
        if reader.holds(str(row.last_message)):
            return _value(row)
    return None


def newest_version(session_id: uuid.UUID) -> int:
    """The number of the newest stored version, in use or not; 0: there is none."""
    found: int | None = _of(session_id).aggregate(newest=Max("version"))["newest"]
    return found or 0


def save(session_id: uuid.UUID, made: Made, reader: Branch) -> ConversationSummary | None:
    """Store the next version, inside the transaction that has locked the session's row.

    Nothing is stored, and None returned, unless everything that it was made from still stands: the
    epoch, the branch, and the newest version.
    """
    stands = (
        _sessions().filter(pk=session_id, memory_epoch=made.memory_epoch).exists()
        and newest_version(session_id) == made.newest_version
        and reader.holds(made.last_message)
    )
    if not stands:
        return None
    try:
        with transaction.atomic():
            return ConversationSummary.objects.create(
                chat_session_id=session_id,
                version=made.newest_version + 1,
                text=made.text,
                items=as_data(made.items),
                covers_from=made.covers_from,
                covers_through=made.covers_through,
                last_message=uuid.UUID(made.last_message),
                turns=list(made.turns),
                memory_epoch=made.memory_epoch,
                endpoint_name=made.endpoint_name,
                model_name=made.model_name,
                token_count=made.tokens,
                token_encoding=made.encoding,
                source_tokens=made.source_tokens,
            )
    except IntegrityError as error:  # somebody else's version has the number
        logger.info(
            "Summary %d of session %s was not stored: %s",
            made.newest_version + 1,
            session_id,
            error,
        )
        return None


def drop(session_id: uuid.UUID) -> int:
    """Delete every version of a session, in the caller's transaction; how many there were."""
    return _of(session_id).delete()[0]


def drop_covering(session_id: uuid.UUID, seqs: Collection[int]) -> int:
    """Delete every version that holds words of a message at one of `seqs`, or may; how many."""
    ordered = sorted(seqs)
    versions = _of(session_id).values_list("pk", "covers_from", "covers_through")
    covering = [
        pk for pk, first, last in versions if bisect_left(ordered, first) < bisect(ordered, last)
    ]
    return _of(session_id).filter(pk__in=covering).delete()[0]


def _of(session_id: uuid.UUID) -> QuerySet[ConversationSummary]:
    return ConversationSummary.objects.filter(chat_session_id=session_id)


def _sessions() -> Any:
    """The sessions that summaries belong to; memory knows them by the foreign key alone."""
    return ConversationSummary._meta.get_field("chat_session").related_model._default_manager


def _value(row: ConversationSummary) -> Summary:
    return Summary(
        SummaryText(row.pk, row.version, row.text, row.covers_from, row.covers_through),
        tuple(from_data(row.items)),
        row.token_count,
        row.source_tokens,
    )
