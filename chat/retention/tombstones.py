"""What was deleted, kept outside of the database, so that a restored backup can be told.

A file has a line of JSON for each deleted session, and for each receipt about a person, a
preference or a message: those name their subject by a keyed hash alone, so CHAT_PROOF_KEY must be
the one that they were written under.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from chat import leases
from chat.models import ChatMessage, ChatSession, DeletionReceipt, SessionTombstone
from chat.retention.deletion import forget_session
from chat.retention.forgetting import digest_id, forget_digest
from chat.retention.pairs import NoSuchMessage, forget_pair
from chat.retention.people import forget_user
from chat.retention.preferences import forget_preference
from chat.retention.receipts import Kind, subject_hash
from memory.models import UserDigest, UserPreference

REASON = "Deleted again after a backup was restored"
BY_HASH = (Kind.USER, Kind.MEMORY, Kind.PREFERENCE, Kind.MESSAGE)


class BadLine(ValueError):
    """A line that no export wrote."""


@dataclass(frozen=True)
class Deleted:
    """One deletion: a session by its id, anything else by its hash.

    `accounts` is 1 where a person's account went too; `tenant` is the one that it was in.
    """

    kind: str
    subject: str
    at: datetime
    accounts: int = 0
    tenant: int | None = None


def export() -> Iterator[str]:
    """Everything that was deleted, as lines."""
    for tombstone in SessionTombstone.objects.order_by("deleted_at", "pk").iterator():
        yield _line(Kind.SESSION, str(tombstone.pk), tombstone.deleted_at)
    rows = DeletionReceipt.objects.filter(kind__in=BY_HASH).order_by("created_at", "pk")
    for receipt in rows.iterator():
        more = {"accounts": receipt.counts.get("accounts", 0), "tenant": receipt.tenant_id}
        yield _line(receipt.kind, receipt.subject, receipt.created_at, **more)


def _line(kind: str, subject: str, at: datetime, **more: int | None) -> str:
    return json.dumps({"kind": kind, "subject": subject, "at": at.isoformat(), **more})


def read(lines: Iterable[str]) -> list[Deleted]:
    """The deletions of a file; `BadLine` names a line that is none."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            at = datetime.fromisoformat(data["at"])
            more = int(data.get("accounts", 0)), data.get("tenant")
            found.append(Deleted(str(data["kind"]), str(data["subject"]), at, *more))
        except (ValueError, KeyError, TypeError) as error:
            raise BadLine(f"Line {number} is not one of an export: {error!r}") from None
    return found


def replay(deletions: Iterable[Deleted]) -> Counter[str]:
    """Delete again what a restored backup has brought back: how many, by kind.

    Only what was there before its deletion counts, so a newer row under the same number stays.
    """
    known: dict[str, Known] = {}
    for each in deletions:
        of_kind = known.setdefault(each.kind, {})
        of_kind.setdefault(each.subject, {})[each.tenant] = each
    counts = Counter(
        {
            kind: sum(map(forget, list(_found(known.get(kind, {}), kind, rows, made))))
            for kind, rows, made, forget in _kinds()
        }
    )
    counts[Kind.MEMORY] += _forget_digests(known.get(Kind.MEMORY, {}))
    return counts


Known = dict[str, dict[int | None, Deleted]]
"""Deletions of one kind by their subject, the newest of each tenant: a person may have what is
remembered forgotten in one after the other."""
Forget = Callable[[tuple[Any, Deleted]], bool]


def _kinds() -> list[tuple[str, QuerySet[Any], str, Forget]]:
    """People first: most goes with them. With when rows were made, where numbers come twice."""
    people = get_user_model()._default_manager.all()
    return [
        (Kind.USER, people, "date_joined", _forget_user),
        (Kind.MEMORY, people, "date_joined", _forget_remembered),
        (Kind.SESSION, ChatSession.objects.all(), "", _forget_session),
        (Kind.MESSAGE, ChatMessage.objects.filter(role="user"), "", _forget_message),
        (Kind.PREFERENCE, UserPreference.objects.all(), "created_at", _forget_preference),
    ]


def _found(
    known: Known, kind: str, rows: QuerySet[Any], made: str
) -> Iterator[tuple[Any, Deleted]]:
    """Ids of rows that were deleted once, each with its deletion."""
    if not known:
        return
    for pk, *at in rows.order_by("pk").values_list("pk", *([made] if made else [])).iterator():
        subject = str(pk) if kind == Kind.SESSION else subject_hash(kind, pk)
        for deleted in known.get(subject, {}).values():
            if not at or at[0] <= deleted.at:
                yield pk, deleted


def _forget_user(found: tuple[Any, Deleted]) -> bool:
    """Where the account was kept its sessions have tombstones, and newer ones may stay."""
    pk, deleted = found
    if not deleted.accounts:
        return _forget_remembered(found)
    forget_user(pk, reason=REASON)
    return True


def _forget_remembered(found: tuple[Any, Deleted]) -> bool:
    """Preferences and a digest that a person had forgotten at that time."""
    pk, deleted = found
    where = {"user": pk} if deleted.tenant is None else {"user": pk, "tenant": deleted.tenant}
    old = UserPreference.objects.filter(created_at__lte=deleted.at, **where).order_by("-pk")
    gone = [_forget_preference((each, deleted)) for each in list(old.values_list("pk", flat=True))]
    made = UserDigest.objects.filter(updated_at__lte=deleted.at, **where).exclude(text="")
    for digest in made:
        forget_digest(digest.tenant_id, pk, reason=REASON)
    return any(gone) or bool(made)


def _forget_digests(known: Known) -> int:
    """Digests that were deleted by themselves: how many were there again."""
    count = 0
    for row in list(UserDigest.objects.exclude(text="")) if known else []:
        owner = row.tenant_id, row.user_id
        subject = subject_hash(Kind.MEMORY, digest_id(*owner))
        for deleted in known.get(subject, {}).values():
            if row.updated_at <= deleted.at:
                forget_digest(*owner, reason=REASON)
                count += 1
    return count


def _forget_session(found: tuple[Any, Deleted]) -> bool:
    try:
        forget_session(found[0], reason=REASON)
    except leases.Gone:
        return False  # with its person, or by somebody else
    return True


def _forget_message(found: tuple[Any, Deleted]) -> bool:
    row = ChatMessage.objects.filter(pk=found[0]).first()
    if row is None:
        return False
    leases.quiesce(row.chat_session_id)
    try:
        forget_pair(row.chat_session_id, row.pk, reason=REASON)
    except (leases.Gone, NoSuchMessage):
        return False
    return True


def _forget_preference(found: tuple[Any, Deleted]) -> bool:
    row = UserPreference.objects.filter(pk=found[0]).first()
    if row is None:
        return False
    forget_preference(row.tenant_id, row.user_id, row.pk, reason=REASON, by="command")
    return True
