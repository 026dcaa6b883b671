"""Messages that stand in each other's place: another wording, another answer, another branch.

What a message has beside it are the other children of its parent. A branch can also end at a
message that others follow: its newest answer failed, and the earlier ones are not shown.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from chat.models import ChatMessage

ROOT = None  # the parent of a first message


@dataclass(frozen=True)
class Siblings:
    """Children by their parent, in the order of `seq`."""

    children: dict[uuid.UUID | None, list[uuid.UUID]]
    shown: frozenset[uuid.UUID]

    def beside(self, message: ChatMessage) -> list[str]:
        """Ids of what stands in the message's place, itself among them."""
        return [str(pk) for pk in self.children.get(message.parent_id, [message.pk])]

    def hidden_after(self, message: ChatMessage) -> list[str]:
        """Ids of what follows the message, when the branch that is shown ends at it."""
        after = self.children.get(message.pk, [])
        return [] if self.shown.intersection(after) else [str(pk) for pk in after]


NONE = Siblings({}, frozenset())


def of(messages: Sequence[ChatMessage]) -> Siblings:
    """What stands beside messages of one session, and after the last of them; at most two reads."""
    if not messages:
        return NONE
    parents = {message.parent_id for message in messages}
    known = [parent for parent in parents if parent is not ROOT]
    rows = list(_rows(ChatMessage.objects.filter(parent__in=[*known, messages[-1].pk])))
    if ROOT in parents:
        session_id = messages[0].chat_session_id
        rows += _rows(ChatMessage.objects.filter(chat_session=session_id, parent=None))
    return _gathered(rows)


def of_new(message: ChatMessage) -> Siblings:
    """The same for a message that was just stored; asks nothing where its place is a new one."""
    before = message.parent.seq if message.parent is not None else 0
    return of([message]) if message.seq > before + 1 else NONE


def _rows(found: QuerySet[ChatMessage]) -> Iterable[tuple[uuid.UUID | None, uuid.UUID, bool]]:
    return found.order_by("seq").values_list("parent", "pk", "is_on_path")


def _gathered(rows: Iterable[tuple[uuid.UUID | None, uuid.UUID, bool]]) -> Siblings:
    children: dict[uuid.UUID | None, list[uuid.UUID]] = {}
    shown = set()
    for parent, pk, is_on_path in rows:
        children.setdefault(parent, []).append(pk)
        if is_on_path:
            shown.add(pk)
    return Siblings(children, frozenset(shown))
