"""Which message stands before another, and which after it, as the index sees a conversation.

Only messages that are indexed count; what lies between them, as calls of tools and their results,
is passed over.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable

from chat.models import ChatMessage
from chat.search.entries import words_of
from memory.text import is_blank

ROLES = (ChatMessage.Role.USER, ChatMessage.Role.ASSISTANT)
MOST_STEPS = 100  # messages between two that are indexed
MOST_AFTER = 8  # branches that begin behind a message, the newest first


def is_indexed(message: ChatMessage) -> bool:
    """Whether a message has words to be found by (that of a temporary session has none stored)."""
    return (
        message.role in ROLES
        and message.redacted_at is None
        and not is_blank(message.content or "")
    )


class Neighbourhood:
    """Messages with what stands around them; those of `left_out` are passed over too."""

    def __init__(
        self, messages: Iterable[ChatMessage], left_out: Collection[uuid.UUID] = ()
    ) -> None:
        self._rows: dict[uuid.UUID, ChatMessage] = {}
        self._children: defaultdict[uuid.UUID, list[ChatMessage]] = defaultdict(list)
        self._left_out = set(left_out)
        self._words: dict[uuid.UUID, list[str]] = {}
        self._add(messages)

    def look_before(self, ids: Iterable[uuid.UUID]) -> None:
        """Read what stands before each of `ids`, as far as `before` needs it."""
        for _ in range(MOST_STEPS):
            ends = (self._up(each) for each in ids)
            missing = {end for end in ends if end is not None and end not in self._rows}
            if not missing:
                return
            self._add(ChatMessage.objects.filter(pk__in=missing))

    def look_after(self, ids: Iterable[uuid.UUID]) -> None:
        """Read what stands after each of `ids`, as far as `after` needs it."""
        front = set(ids)
        for _ in range(MOST_STEPS):
            if not front:
                return
            self._add(ChatMessage.objects.filter(parent__in=front))
            children = [each for parent in front for each in self._children[parent]]
            front = {each.pk for each in children if not self._counts(each)}

    def before(self, message_id: uuid.UUID) -> ChatMessage | None:
        end = self._up(message_id)
        return self._rows.get(end) if end is not None else None

    def after(self, message_id: uuid.UUID) -> list[ChatMessage]:
        """What follows on any branch, the newest first."""
        found: list[ChatMessage] = []
        front = [message_id]
        while front:
            children = [each for parent in front for each in self._children[parent]]
            found += [each for each in children if self._counts(each)]
            front = [each.pk for each in children if not self._counts(each)]
        return sorted(found, key=lambda each: -each.seq)[:MOST_AFTER]

    def words(self, message: ChatMessage) -> list[str]:
        """The words of a message's text, read once."""
        known = self._words.get(message.pk)
        if known is None:
            known = self._words[message.pk] = words_of(message.content or "")
        return known

    def _up(self, message_id: uuid.UUID) -> uuid.UUID | None:
        """The first message before this one that counts, or that is not read yet."""
        end = self._rows[message_id].parent_id
        while end is not None and end in self._rows and not self._counts(self._rows[end]):
            end = self._rows[end].parent_id
        return end

    def _counts(self, message: ChatMessage) -> bool:
        return message.pk not in self._left_out and is_indexed(message)

    def _add(self, messages: Iterable[ChatMessage]) -> None:
        for each in messages:
            if each.pk in self._rows:
                continue
            self._rows[each.pk] = each
            if each.parent_id is not None:
                self._children[each.parent_id].append(each)
