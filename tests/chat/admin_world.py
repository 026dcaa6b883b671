"""A row of every model that the admin lists, in one tenant."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from chat.models import (
    AssistantDocument,
    AuditEvent,
    ChatSession,
    CleanupRun,
    ContextPart,
    ContextRecord,
    DailyUsage,
    DeletionReceipt,
    ExportJob,
    Feedback,
    FollowUp,
    ModelCall,
    PendingRemoval,
    ReviewTag,
    SavedFilter,
    SessionTombstone,
)
from memory.models import ConversationSummary, UserDigest
from tests import builders


@dataclass(frozen=True)
class World:
    """A row of every model in one tenant, and what an address can name beside its own model."""

    rows: dict[type[Any], Any]
    attachment: Any
    saved_filter: Any

    def keys(self, model: type[Any] | None) -> dict[str, Any]:
        """What stands in the places of an address."""
        row = self.rows.get(model) if model else None
        return {
            "object_id": row.pk if row else uuid.uuid4(),
            "id": row.pk if row else 0,
            "session_id": self.rows[ChatSession].pk,
            "record_id": self.rows[ContextRecord].pk,
            "attachment_id": self.attachment.pk,
            "job_id": self.rows[ExportJob].pk,
            "filter_id": self.saved_filter.pk,
            "source": "chatsession",
            "app_label": "chat",
            "content_type_id": ContentType.objects.get_for_model(ChatSession).pk,
            "url": "nothing/here",
        }


def world_of(slug: str) -> World:
    tenant = builders.tenant(slug)
    person = builders.user(f"{slug}-person", tenants=[tenant])
    assistant = builders.assistant(f"{slug}-assistant", tenant=tenant)
    chat_session = builders.chat_session(
        person, tenant=tenant, assistant=assistant, title=f"{slug} title"
    )
    turn = builders.exchange(chat_session, f"{slug} question", f"{slug} answer")
    document = AssistantDocument.objects.create(
        assistant=assistant, name=f"{slug}.md", text="text", sha256="0" * 64, size=4
    )
    tag = ReviewTag.objects.create(tenant=tenant, slug=f"{slug}-tag", name=f"{slug} tag")
    tag.chat_sessions.add(chat_session)
    attempt = {"username": slug, "ip_address": "192.0.2.1", "http_accept": "", "path_info": "/"}
    rows = [
        chat_session,
        chat_session.messages.order_by("seq")[0],
        turn,
        builders.record(turn),
        ContextPart.objects.create(chat_session=chat_session, text="a part"),
        builders.snapshot(chat_session),
        builders.preference(person, tenant=tenant),
        _summary(chat_session),
        UserDigest.objects.create(tenant=tenant, user=person, text="lines about them"),
        FollowUp.objects.create(
            kind="title", subject=slug, chat_session=chat_session, due_at=timezone.now()
        ),
        assistant,
        assistant.endpoint,
        document,
        tag,
        tenant,
        person,
        person.memberships.get(),
        AuditEvent.objects.create(actor=person, action="test", object_type="session"),
        Feedback.objects.create(turn=turn, user=person, value=1, comment=f"{slug} comment"),
        PendingRemoval.objects.create(kind="file", name=f"{slug}.png"),
        SessionTombstone.objects.create(pk=uuid.uuid4()),
        DeletionReceipt.objects.create(kind="session", by="owner", subject="0" * 64, owner=person),
        DailyUsage.objects.create(day=timezone.now().date(), tenant=tenant, model_name="demo"),
        ModelCall.objects.create(kind="title", tenant=tenant, started_at=timezone.now()),
        CleanupRun.objects.create(command=slug, started_at=timezone.now()),
        ExportJob.objects.create(owner=person, kind="sessions", format="csv"),
        Group.objects.create(name=f"{slug} group"),
        AccessAttempt.objects.create(**attempt, failures_since_start=1),
        AccessLog.objects.create(**attempt),
        AccessFailureLog.objects.create(**attempt, attempt_time=timezone.now()),
    ]
    saved = SavedFilter.objects.create(
        owner=person, list="chat_chatsession", name=slug, query=f"q={slug}"
    )
    return World({type(row): row for row in rows}, builders.attachment(chat_session), saved)


def _summary(chat_session: ChatSession) -> ConversationSummary:
    return ConversationSummary.objects.create(
        chat_session=chat_session,
        version=1,
        text="Facts:\n- a fact",
        items=[{"kind": "facts", "text": "a fact", "seq": 1}],
        covers_from=1,
        covers_through=2,
        last_message=uuid.uuid4(),
        memory_epoch=0,
        token_count=5,
        source_tokens=50,
    )
