"""One word planted in every place that can hold something of a conversation or of a person."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.cache import cache
from django.db import transaction
from django.test import Client

from chat import temporary
from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    DerivedText,
    ExportJob,
    Feedback,
    FollowUp,
    ReviewNote,
    ReviewScore,
    ReviewTag,
)
from chat.retention import verification
from chat.retention.verification import Findings, Needles
from chat.search import messages as search
from memory import preferences
from memory.models import ConversationSummary, UserDigest, UserPreference
from tests import builders
from tests.chat.api import BACKEND

WORD = "zqplanted4173"
"""One token in any language, so that an index of words holds it as it is written."""


@dataclass(frozen=True)
class Planted:
    """A person with a conversation that holds the word, another that quotes it, and more."""

    user: Any
    session: ChatSession
    turn: ChatTurn
    """The first of two exchanges; the word is in its messages alone."""
    quoting: ChatSession
    quote: ChatMessage
    """A tool's result in `quoting` that quotes the first message of `session`."""
    preference: UserPreference


def plant(name: str, word: str = WORD) -> Planted:
    """A person called `name`, with `word` in everything that they said."""
    person = builders.user(name, email=f"{name}@example.org", first_name=name.title())
    chat_session = builders.chat_session(person, title=f"About {word}")
    turn = builders.exchange(chat_session, f"I am {word}", f"Hello {word}")
    later = builders.exchange(chat_session, "And then?", "Nothing more.")
    index(chat_session)
    plant_beside(chat_session, turn, word)
    plant_sent(turn, later, word)
    kept = plant_remembered(chat_session, word)
    quoting, quote = plant_quote(chat_session, word)
    return Planted(person, chat_session, turn, quoting, quote, kept)


def index(chat_session: ChatSession) -> None:
    with transaction.atomic():
        search.index_session(chat_session.pk)


def plant_beside(chat_session: ChatSession, turn: ChatTurn, word: str) -> None:
    """What people said about the conversation, and its files."""
    person = chat_session.user
    ChatTurn.objects.filter(pk=turn.pk).update(error_detail=f"near {word}")
    Feedback.objects.create(turn=turn, user=person, value=1, comment=f"good {word}")
    ReviewNote.objects.create(chat_session=chat_session, turn=turn, text=f"odd: {word}")
    ReviewScore.objects.create(
        chat_session=chat_session,
        turn=turn,
        subject=str(turn.pk),
        name=word,
        author=person,
        value=3,
    )
    tag = ReviewTag.objects.get_or_create(tenant=chat_session.tenant, slug="odd", name="odd")[0]
    tag.chat_sessions.add(chat_session)
    AuditEvent.objects.create(
        action="transcript.read",
        object_type="session",
        object_id=str(chat_session.pk),
        reason=f"they said {word}",
    )
    image = builders.attachment(chat_session, f"{word}.png")
    image.message = turn.input
    image.save(update_fields=["message"])
    FollowUp.objects.create(
        kind="title",
        subject=str(chat_session.pk),
        chat_session=chat_session,
        due_at=turn.started_at,
        last_error=f"no title for {word}",
    )
    plant_export(chat_session, word)


def plant_export(chat_session: ChatSession, word: str) -> ExportJob:
    """An export by staff with the rows of the session."""
    name = f"exports/aa/{chat_session.pk.hex}"
    path = Path(settings.MEDIA_ROOT) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"session": "{chat_session.pk}", "content": "{word}"}}\n')
    job = ExportJob.objects.create(
        owner=builders.superuser(),
        kind="messages",
        format="jsonl",
        with_text=True,
        status="done",
        file=name,
    )
    job.tenants.add(chat_session.tenant)
    return job


def plant_sent(turn: ChatTurn, later: ChatTurn, word: str) -> None:
    """What was sent to a model: the first exchange by reference, and a block verbatim."""
    builders.proven_record(turn)
    history = list(turn.chat_session.messages.filter(seq__lte=2).order_by("seq"))
    record = builders.proven_record(later, history=history)
    part = ContextPart.objects.create(chat_session=turn.chat_session, text=f"<summary>{word}")
    record.layout[-1] = ["user", "part", str(part.pk)]
    record.save(update_fields=["layout"])


def plant_remembered(chat_session: ChatSession, word: str) -> UserPreference:
    """A snapshot, a summary, a digest, and a preference that was read out of the first message."""
    person, tenant = chat_session.user, chat_session.tenant
    builders.snapshot(chat_session)
    ConversationSummary.objects.create(
        chat_session=chat_session,
        version=1,
        text=f"Facts:\n- {word}",
        items=[{"kind": "facts", "text": word, "seq": 1}],
        covers_from=1,
        covers_through=2,
        last_message=chat_session.messages.get(seq=2).pk,
        memory_epoch=0,
        token_count=1,
        source_tokens=2,
    )
    UserDigest.objects.update_or_create(
        tenant=tenant,
        user=person,
        defaults={"text": f"Is {word}.", "sources": [str(chat_session.pk)]},
    )
    return preferences.remember(
        tenant.pk,
        person.pk,
        "all",
        f"name {word}",
        f"Is called {word}.",
        origin="chat",
        source_session=chat_session.pk,
        source_seq=1,
        quote=f"I am {word}",
    )


def plant_quote(source: ChatSession, word: str) -> tuple[ChatSession, ChatMessage]:
    """Another conversation of the person, in which a tool and two blocks recall the first."""
    quoting = builders.chat_session(source.user)
    asked = builders.message(quoting, "user", "What did I say?")
    turn = builders.turn(quoting, asked)
    call = {"id": "c1", "name": "search_history", "arguments": "{}"}
    builders.message(quoting, "assistant", None, turn=turn, tool_calls=[call])
    result = builders.message(
        quoting, "tool", f"Found: {word}", turn=turn, tool_call_id="c1", name="search_history"
    )
    builders.message(quoting, "assistant", "You said it.", turn=turn)
    builders.snapshot(quoting)
    plant_copy(quoting, source, f"[tool] {word}", seq=1)
    plant_copy(quoting, source, f"<digest>{word}", seq=None)
    DerivedText.objects.create(
        chat_session=quoting, message=result, source_session=source.pk, source_seq=1
    )
    return quoting, result


def plant_copy(holder: ChatSession, source: ChatSession, text: str, seq: int | None) -> ContextPart:
    part = ContextPart.objects.create(chat_session=holder, text=text)
    DerivedText.objects.create(
        chat_session=holder, part=part, source_session=source.pk, source_seq=seq
    )
    return part


def plant_temporary(person: Any, word: str = WORD) -> ChatSession:
    """A temporary conversation, whose text is in the cache alone."""
    chat_session = builders.chat_session(person, is_temporary=True)
    asked = builders.message(chat_session, "user", "")
    turn = builders.turn(chat_session, asked)
    builders.message(chat_session, "assistant", "", turn=turn)
    for row in chat_session.messages.all():
        temporary.keep(chat_session.pk, row.pk, f"{row.role} {word}")
    return chat_session


def plant_account(person: Any) -> None:
    """Rows of other apps, and free text, that name a person."""
    name = person.get_username()
    Client().force_login(person, backend=BACKEND)
    common = {"username": name, "ip_address": "192.0.2.7", "user_agent": "x", "http_accept": "x"}
    AccessAttempt.objects.create(
        get_data="", post_data=f"username={name}", failures_since_start=1, **common
    )
    AccessFailureLog.objects.create(**{**common, "username": name.upper()})
    AccessLog.objects.create(**{**common, "username": person.email})
    account = ContentType.objects.get_for_model(get_user_model())
    admin = builders.superuser()
    for user, subject in ((admin, person), (person, admin)):
        LogEntry.objects.create(
            user=user,
            content_type=account,
            object_id=subject.pk,
            object_repr=str(subject),
            action_flag=CHANGE,
        )
    AuditEvent.objects.create(action="user.change", object_type="user", object_id=str(person.pk))
    AuditEvent.objects.create(actor=person, action="x.list", filter={"q": f"from {name}"})
    AuditEvent.objects.create(
        action="preference.edit", filter={"user": person.pk, "n": 1}, reason=f"{name} wrote to us"
    )
    FollowUp.objects.create(kind="digest", subject=f"1:{person.pk}", due_at=admin.date_joined)


# --- Looking for it -------------------------------------------------------------------------------


def found(word: str = WORD) -> Findings:
    """Where the word is now: tables, files, the cache; SQLite's own file is left out."""
    findings, needles = Findings(), Needles([word])
    verification.search_tables(needles, findings)
    verification.search_files(needles, findings)
    verification.search_cache(needles, findings)
    if findings.skipped and word in repr(getattr(cache, "_cache", "")):
        findings.found["cache"] += 1
    return findings


def places(word: str = WORD) -> set[str]:
    return set(found(word).found)
