"""What the memory doctor looks at: one value a check, and the facts that the checks are read from.

The facts are read in a number of queries that does not depend on how long the session is.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, FilteredRelation, Max, Min, Q, Sum
from django.db.models.functions import Substr

from chat import leases
from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextRecord,
    FollowUp,
    Membership,
    ModelCall,
    SearchEntry,
)
from chat.models.tenants import DEFAULT_TENANT_SLUG
from memory.text import is_blank

OK, NOTE, FINDING = "ok", "note", "finding"
LAST_ERRORS = 5
MOST_UNINDEXED = 100
BEGINNING = 200  # characters that show whether a message has any text
SPOKEN = (ChatMessage.Role.USER, ChatMessage.Role.ASSISTANT)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `remedy` is "" where nothing has to be done."""

    about: str
    state: str
    """ "ok", "note" (unusual and allowed), "finding" (this makes memory fail)."""
    found: str
    remedy: str = ""
    settings: tuple[str, ...] = ()
    """Names of `inspection.deciding`."""
    detail: str = ""
    """Words that may come from people or from a provider: for those alone who may read text."""


@dataclass(frozen=True)
class Facts:
    """Everything that the checks are read from but what `memory` itself is asked."""

    chat_session: ChatSession
    memberships: tuple[int, ...]
    rows: Mapping[str, Any]
    """Figures over all messages of the session."""
    turns: Mapping[str, Any]
    holder: leases.Holder | None
    newest: ContextRecord | None
    follow_ups: tuple[FollowUp, ...]
    failed_turns: tuple[ChatTurn, ...]
    failed_calls: tuple[ModelCall, ...]
    unindexed: int
    entries: int

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Of the newest request; empty where there is none."""
        found = self.newest.manifest if self.newest is not None else None
        return found if isinstance(found, dict) else {}

    @property
    def newest_seq(self) -> int:
        """The newest message of the chosen branch; 0: there is none."""
        return self.rows["newest_on_path"] or 0


def facts_of(session_id: uuid.UUID) -> Facts:
    chat_session = ChatSession.objects.select_related(
        "assistant__endpoint", "tenant", "user", "head"
    ).get(pk=session_id)
    memberships = Membership.objects.filter(user=chat_session.user_id)
    failed = ChatTurn.objects.filter(chat_session=session_id, status=ChatTurn.Status.FAILED)
    calls = ModelCall.objects.filter(chat_session=session_id).exclude(error_code="")
    entries = SearchEntry.objects.filter(chat_session=session_id)
    return Facts(
        chat_session=chat_session,
        memberships=tuple(memberships.values_list("tenant_id", flat=True)),
        rows=_rows(session_id),
        turns=_turns(session_id),
        holder=leases.holder(session_id),
        newest=_newest_record(session_id),
        follow_ups=tuple(FollowUp.objects.filter(chat_session=session_id).order_by("kind")),
        failed_turns=tuple(failed.order_by("-number")[:LAST_ERRORS]),
        failed_calls=tuple(calls.order_by("-pk")[:LAST_ERRORS]),
        unindexed=_unindexed(session_id),
        entries=entries.count(),
    )


def _newest_record(session_id: uuid.UUID) -> ContextRecord | None:
    records = ContextRecord.objects.filter(chat_session=session_id).select_related("turn__input")
    return records.order_by("-turn__number", "-attempt").first()


def _rows(session_id: uuid.UUID) -> Mapping[str, Any]:
    """Counts and ends; what a parent is wrong with is counted through the parent's row.

    Parents and turns are looked for among the session's own, which are read once; those that are
    not there belong to another one.
    """
    on_path = Q(is_on_path=True)
    rows = ChatMessage.objects.filter(chat_session=session_id).annotate(
        before=FilteredRelation("parent", condition=Q(parent__chat_session=session_id)),
        own_turn=FilteredRelation("turn", condition=Q(turn__chat_session=session_id)),
    )
    found: dict[str, Any] = rows.aggregate(
        stored=Count("pk"),
        on_path=Count("pk", filter=on_path),
        newest=Max("seq"),
        newest_on_path=Max("seq", filter=on_path),
        oldest_on_path=Min("seq", filter=on_path),
        beginnings=Count("pk", filter=on_path & Q(parent=None)),
        parents=Count("parent", filter=on_path, distinct=True),
        off_branch=Count("pk", filter=on_path & Q(before__is_on_path=False)),
        backwards=Count("pk", filter=Q(before__seq__gte=F("seq"))),
        strangers=Count("pk", filter=Q(before__seq=None) & ~Q(parent=None)),
        other_turns=Count("pk", filter=Q(own_turn__number=None) & ~Q(turn=None)),
        redacted=Count("pk", filter=~Q(redacted_at=None)),
        tokens=Sum("token_count"),
    )
    return found


def _turns(session_id: uuid.UUID) -> Mapping[str, Any]:
    counts = {status: Count("pk", filter=Q(status=status)) for status in ChatTurn.Status.values}
    found: dict[str, Any] = ChatTurn.objects.filter(chat_session=session_id).aggregate(
        **counts,
        newest=Max("number"),
        tokens_in=Sum("input_tokens"),
        tokens_out=Sum("output_tokens"),
    )
    return found


def _unindexed(session_id: uuid.UUID) -> int:
    """Messages with text that a search cannot find, counted to MOST_UNINDEXED.

    What a running turn has written so far is indexed when it ends.
    """
    indexed = SearchEntry.objects.filter(chat_session=session_id).values("message")
    rows = ChatMessage.objects.filter(
        ~Q(pk__in=indexed), chat_session=session_id, role__in=SPOKEN, redacted_at=None
    )
    rows = rows.exclude(content=None).exclude(content="")
    rows = rows.exclude(turn__status=ChatTurn.Status.RUNNING)
    beginnings = rows.annotate(beginning=Substr("content", 1, BEGINNING))
    found = beginnings.values_list("beginning", flat=True)[:MOST_UNINDEXED]
    return sum(not is_blank(each) for each in found)


def count(number: int, what: str) -> str:
    """ "1 message", "20 messages"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def key_is_set(variable: str) -> bool:
    return bool(os.environ.get(variable))


def belongs(facts: Facts) -> bool:
    """Whether the person may still work in the session's tenant, as `access.tenant_of` has it."""
    if facts.memberships:
        return facts.chat_session.tenant_id in facts.memberships
    return facts.chat_session.tenant.slug == DEFAULT_TENANT_SLUG
