"""Receipts of deletions: what went, by place, and what must still go. They name nobody."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from chat import dues
from chat.models import DeletionReceipt, FollowUp, PendingRemoval
from chat.retention import removals
from chat.retention.notes import Actor
from chat.retention.places import Removed

By = DeletionReceipt.By
Kind = DeletionReceipt.Kind


@dataclass(frozen=True)
class Gone:
    """What one step of a deletion took: rows by place, and what must still go elsewhere."""

    rows: Removed = field(default_factory=Removed)
    pending: tuple[PendingRemoval, ...] = ()

    def __add__(self, other: Gone) -> Gone:
        return Gone(self.rows + other.rows, (*self.pending, *other.pending))


def gone(**rows: int) -> Gone:
    """Rows that went, by place."""
    return Gone(Removed({name: count for name, count in rows.items() if count}))


@dataclass(frozen=True)
class Subject:
    """What a deletion is about, and whose it was."""

    kind: str
    id: Any
    owner_id: int | None = None
    tenant_id: int | None = None


def write(subject: Subject, found: Gone, by: Actor) -> DeletionReceipt:
    """The receipt of a deletion, in its transaction; what is pending is tried once it commits."""
    counts = dict(sorted(found.rows.rows.items()))
    for kind, name in ((PendingRemoval.Kind.FILE, "files"), (PendingRemoval.Kind.CACHE, "cache")):
        if count := sum(each.kind == kind for each in found.pending):
            counts[name] = count
    receipt = DeletionReceipt.objects.create(
        kind=subject.kind,
        by=by.by or _by(by, subject.owner_id),
        subject=subject_hash(subject.kind, subject.id),
        owner_id=subject.owner_id,
        tenant_id=subject.tenant_id,
        counts=counts,
    )
    follow(found.pending, receipt)
    return receipt


def subject_hash(kind: str, identifier: Any) -> str:
    """HMAC-SHA-256 of the kind and id of what went, under CHAT_PROOF_KEY, in hex."""
    plain = f"receipt\n{kind}\n{identifier}".encode()
    return hmac.new(settings.CHAT_PROOF_KEY.encode(), plain, hashlib.sha256).hexdigest()


def _by(actor: Actor, owner_id: int | None) -> str:
    if actor.person is None:
        return By.COMMAND
    return By.OWNER if actor.person.pk == owner_id else By.STAFF


def in_words(receipt: DeletionReceipt) -> str:
    """What went, and whether something must still go."""
    counts = ", ".join(f"{count} {name}" for name, count in receipt.counts.items()) or "nothing"
    if open_count := receipt.pending_removals.count():
        counts += f"; still to be removed elsewhere: {open_count} (receipt {receipt.pk})"
    return counts


def follow(pending: Sequence[PendingRemoval], receipt: DeletionReceipt | None = None) -> None:
    """Try what is pending once the transaction commits, and again later if that fails."""
    pending = [each for each in pending if each.pk is not None]  # what is done has none
    if not pending:
        return
    if receipt is not None:
        ids = [each.pk for each in pending]
        PendingRemoval.objects.filter(pk__in=ids).update(receipt=receipt)
    for each in pending:
        if each.kind != PendingRemoval.Kind.INDEX:  # merging an index takes a while
            transaction.on_commit(partial(removals.carry_out, each))
    # Whatever the first attempt leaves, if the process lives to make it, is tried again.
    is_tried = all(each.kind != PendingRemoval.Kind.INDEX for each in pending)
    dues.mark(FollowUp.Kind.REMOVALS, "all", delay=removals.RETRY_SECONDS if is_tried else 0.0)
