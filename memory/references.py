"""References: passages that a project hands to a turn, with the source of each.

A source is any callable that takes a Question and gives Passages, best first, or None when it has
nothing to search in (the assistant has no documents, say). It is called before the turn's
transaction, in a worker thread, at every turn and every retry; what it gives is for that turn
only. History keeps the plain text of the user.

    def handbook(question: Question) -> Sequence[Passage] | None:
        hits = my_index.search(question.text, assistant=question.assistant)
        return [Passage(hit.id, f"handbook, page {hit.page}", hit.text) for hit in hits]

    CHAT_REFERENCE_SOURCES=my_project.references.handbook
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Protocol

from memory.text import clean

logger = logging.getLogger(__name__)

SOURCE_LENGTH = 200  # characters of a source's name that are sent and recorded
ID_LENGTH = 200


@dataclass(frozen=True)
class Question:
    """What is asked: the user's text, of whom (an assistant's slug), and by whom."""

    text: str
    assistant: str
    tenant_id: int
    user_id: int


@dataclass(frozen=True)
class Passage:
    """A piece of text with the name of where it stands. `rank` is given by `gather`: 1 is best."""

    id: str
    source: str
    text: str
    rank: int = 0


class ReferenceSource(Protocol):
    """How passages are found."""

    def __call__(self, question: Question, /) -> Sequence[Passage] | None:
        """Passages for `question`, best first; empty: nothing matched; None: nothing to search."""


@dataclass(frozen=True)
class References:
    """What all sources together gave for one input."""

    passages: tuple[Passage, ...] = ()
    was_searched: bool = False
    """Some source had something to search in."""
    failed: tuple[str, ...] = ()
    """Names of the sources that raised."""


def gather(sources: Mapping[str, ReferenceSource], question: Question, limit: int) -> References:
    """At most `limit` passages out of all sources, their first ones first, numbered from 1.

    A source that raises is logged and named in `failed`; the turn goes on without it, and says so.
    """
    found: list[list[Passage]] = []
    failed = []
    for name, source in sources.items():
        try:
            passages = source(question)
            if passages is not None:
                found.append([_cleaned(each) for each in passages[:limit]])
        except Exception:
            logger.exception("The reference source %s failed.", name)
            failed.append(name)
    rounds = zip_longest(*found)
    ordered = [each for one in rounds for each in one if each is not None and each.text]
    ranked = [replace(each, rank=rank) for rank, each in enumerate(ordered[:limit], start=1)]
    return References(tuple(ranked), bool(found), tuple(failed))


def _cleaned(passage: Passage) -> Passage:
    """With text that every endpoint takes and names that fit into a manifest."""
    return replace(
        passage,
        id=clean(str(passage.id))[:ID_LENGTH],
        source=" ".join(clean(passage.source).split())[:SOURCE_LENGTH],
        text=clean(passage.text).strip(),
    )
