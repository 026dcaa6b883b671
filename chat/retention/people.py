"""Everything about a person: what they said, what is remembered of them, and their account."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Count, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast

from chat import leases
from chat.models import (
    Attachment,
    AuditEvent,
    ChatSession,
    DeletionReceipt,
    ExportJob,
    Feedback,
    FollowUp,
    Membership,
    PendingRemoval,
    ReviewScore,
    SavedFilter,
    SearchEntry,
    Tenant,
)
from chat.retention import exports, places, receipts, removals
from chat.retention.deletion import erase
from chat.retention.needles import spellings, whole_word
from chat.retention.notes import Actor, note_about
from chat.retention.places import Place
from chat.retention.receipts import Gone, Kind, Subject, gone, subject_hash
from memory.models import ForgottenPreference, UserDigest, UserPreference

PLACES_OF_NAMES = ("axes.AccessAttempt", "axes.AccessFailureLog", "axes.AccessLog")


@dataclass(frozen=True)
class Person:
    """By what a person is named in other people's rows."""

    id: int
    names: tuple[str, ...]
    """Account name, e-mail address and full name, those that there are."""

    @classmethod
    def of(cls, user: Any) -> Person:
        written = (user.get_username(), getattr(user, "email", ""), user.get_full_name())
        return cls(user.pk, tuple(dict.fromkeys(each for each in written if each)))

    def is_named_in(self, text: str) -> bool:
        """Whether a text names the person: whole words, without regard to case."""
        return any(whole_word(each).search(text) for each in self.spellings)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names in every way in which they are looked for."""
        return tuple(form for name in self.names for form in spellings(name))


def mine(model: Any, field: str = "user") -> Callable[[Person], QuerySet[Any]]:
    return lambda person: model._default_manager.filter(**{field: person.id})


def digests_due(person: Person) -> QuerySet[FollowUp]:
    return FollowUp.objects.filter(kind=FollowUp.Kind.DIGEST, subject__endswith=f":{person.id}")


# What a person said and what is remembered of it, beside their sessions.
CONTENT_PLACES = (
    Place("follow_ups", digests_due),
    Place("search_entries", mine(SearchEntry)),
    Place("feedback", mine(Feedback)),
    Place("preferences", mine(UserPreference)),
    Place("forgotten_preferences", mine(ForgottenPreference)),
    Place("digests", mine(UserDigest)),
    Place("attachments", mine(Attachment, "uploader")),
)


def log_entries(person: Person) -> QuerySet[LogEntry]:
    """What they did in the admin, and what others did to their account."""
    account = ContentType.objects.get_for_model(get_user_model())
    return LogEntry.objects.filter(
        Q(user=person.id) | Q(content_type=account, object_id=str(person.id))
    )


def sign_ins(model: str) -> Callable[[Person], QuerySet[Any]]:
    """Rows of a table that knows people by the name that they typed."""

    def rows(person: Person) -> QuerySet[Any]:
        typed = Q(pk__in=[])
        for name in person.spellings:
            typed |= Q(username__iexact=name)
        return apps.get_model(model)._default_manager.filter(typed)

    return rows


def browser_sessions(person: Person) -> QuerySet[Session]:
    keys = [
        row.pk
        for row in Session.objects.iterator()
        if row.get_decoded().get(SESSION_KEY) == str(person.id)
    ]
    return Session.objects.filter(pk__in=keys)


def account_places() -> Iterator[Place]:
    """What belongs to the account itself; the rest that points at it goes by its foreign keys."""
    yield Place("browser_sessions", browser_sessions)
    yield Place("admin_log", log_entries)
    for label in PLACES_OF_NAMES:
        if apps.is_installed(label.split(".")[0]):
            yield Place(label.split(".")[1].lower(), sign_ins(label))
    yield Place("memberships", mine(Membership))
    yield Place("review_scores", mine(ReviewScore, "author"))
    yield Place("saved_filters", mine(SavedFilter, "owner"))


def survey(user: Any) -> dict[str, int]:
    """What would go with everything about a person: how many of each."""
    person = Person.of(user)
    sessions = ChatSession.objects.filter(user=user)
    counts = sessions.aggregate(sessions=Count("pk"), messages=Sum("message_count", default=0))
    for place in (*CONTENT_PLACES, *account_places()):
        counts[place.name] = counts.get(place.name, 0) + place.rows(person).count()
    return {name: count for name, count in counts.items() if count}


# --- Forgetting a person --------------------------------------------------------------------------


class _NewSessions(Exception):
    """They began another conversation while the others were being deleted."""


def forget_user(
    user_id: int,
    *,
    keep_account: bool = False,
    actor: Any = None,
    reason: str = "",
    ip: str | None = None,
) -> DeletionReceipt:
    """Delete everything about a person, session by session, and their account at last.

    With `keep_account` the account stays, with what belongs to it: memberships, sign-ins, what
    they did as staff. A run that was cut short is finished by the next one, whose receipt counts
    the rest. The user model's DoesNotExist when there is no such person.
    """
    acts = Actor(actor, reason, ip)
    person = Person.of(get_user_model()._default_manager.get(pk=user_id))
    taken = Gone() if keep_account else lock_out(person)
    while True:
        taken += forget_sessions(person, acts)
        try:
            with transaction.atomic():
                return forget_rest(person, taken, acts, keep_account=keep_account)
        except _NewSessions:
            continue


def lock_out(person: Person) -> Gone:
    """From now on they can neither sign in nor begin anything."""
    with transaction.atomic():
        get_user_model()._default_manager.filter(pk=person.id).update(is_active=False)
        return gone(browser_sessions=browser_sessions(person).delete()[0])


def forget_sessions(person: Person, by: Actor) -> Gone:
    """Delete their sessions, each in a transaction of its own."""
    taken = Gone()
    ids = ChatSession.objects.filter(user=person.id).order_by("pk")
    for session_id in list(ids.values_list("pk", flat=True)):
        try:
            with transaction.atomic():
                part, _ = erase(session_id, by, Q(user=person.id))
                receipts.follow(part.pending)
        except leases.Gone:
            continue  # somebody else deleted it meanwhile
        taken += part
    return taken


def forget_rest(person: Person, taken: Gone, by: Actor, *, keep_account: bool) -> DeletionReceipt:
    """Delete what outlives sessions, in one transaction, and give the receipt for all of it."""
    user = get_user_model()._default_manager.select_for_update().get(pk=person.id)
    if ChatSession.objects.filter(user=user).exists():
        raise _NewSessions
    taken += Gone(pending=removals.of_files(Attachment.objects.filter(uploader=user)))
    taken += Gone(places.empty(CONTENT_PLACES, person))
    taken += exports.drop_all(list(Tenant.objects.values_list("pk", flat=True)))
    taken += drop_names(person)
    if not keep_account:
        taken += forget_account(person, user)
    subject = subject_hash(Kind.USER, person.id)
    note_about("user.forget", "user", subject, by)
    owner = person.id if keep_account else None
    if by.person is not None and by.person.pk == person.id and not keep_account:
        by = Actor(None, by.reason, by.ip, receipts.By.OWNER)
    return receipts.write(Subject(Kind.USER, person.id, owner), taken, by)


def counters_of(person: Person) -> tuple[PendingRemoval, ...]:
    """Counters of rate limits in the cache, whose keys hold the person's number."""
    minute = int(time.time() // 60)
    keys = [f"limit:turns:{person.id}:{each}" for each in (minute - 1, minute)]
    return tuple(
        PendingRemoval.objects.create(kind=PendingRemoval.Kind.CACHE, name=name)
        for name in (*keys, f"throttle_requests_{person.id}")
    )


def forget_account(person: Person, user: Any) -> Gone:
    files = ExportJob.objects.filter(owner=user).exclude(file="")
    pending = tuple(
        PendingRemoval.objects.create(kind=PendingRemoval.Kind.FILE, name=name)
        for name in files.values_list("file", flat=True)
    )
    taken = Gone(places.empty(account_places(), person), pending + counters_of(person))
    _, by_model = user.delete()
    others = {label: count for label, count in by_model.items() if label != user._meta.label}
    return taken + gone(accounts=1, **others)


def drop_names(person: Person) -> Gone:
    """Take the person out of audit events: reasons and filters that name them, and their id."""
    subject = subject_hash(Kind.USER, person.id)
    about = AuditEvent.objects.filter(object_type="user", object_id=str(person.id))
    count = about.update(object_id=subject, reason="")
    for event in AuditEvent.objects.filter(filter__user=person.id):
        values = {**event.filter, "user": subject}
        count += AuditEvent.objects.filter(pk=event.pk).update(filter=values)
    for event in naming(person):
        kept = without_names(person, event.filter)
        reason = "" if person.is_named_in(event.reason) else event.reason
        if (reason, kept) != (event.reason, event.filter):
            count += AuditEvent.objects.filter(pk=event.pk).update(reason=reason, filter=kept)
    return gone(audit_events=count, saved_filters=drop_filters(person))


def drop_filters(person: Person) -> int:
    """Delete other people's saved filters that find the person, or are named after them."""
    others = SavedFilter.objects.exclude(owner=person.id)
    found = [row.pk for row in others.iterator() if finds(row, person)]
    return SavedFilter.objects.filter(pk__in=found).delete()[0]


def finds(row: SavedFilter, person: Person) -> bool:
    by_id = ("user__id__exact", str(person.id)) in row.asked
    texts = [row.name, *(value for _, value in row.asked)]
    return by_id or any(person.is_named_in(each) for each in texts)


def naming(person: Person) -> Iterator[AuditEvent]:
    """Events whose reason or filter may hold one of the person's names."""
    held = Q(pk__in=[])
    for name in person.spellings:
        held |= Q(reason__icontains=name) | Q(filter_text__icontains=name)
        held |= Q(filter_text__icontains=json.dumps(name)[1:-1])  # as SQLite keeps it
    events = AuditEvent.objects.annotate(filter_text=Cast("filter", TextField()))
    yield from events.filter(held)


def without_names(person: Person, value: Any) -> Any:
    """JSON without the texts in it that name the person."""
    if isinstance(value, dict):
        return {key: without_names(person, each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_names(person, each) for each in value]
    if isinstance(value, str) and person.is_named_in(value):
        return ""
    return value
