"""Sessions: found by id, title and person; their facts and switches, and the way into the text."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from chat import events
from chat.access import may_read_content, staff_chat_sessions, staff_tenants
from chat.admin import audit
from chat.admin.audit import RecordedReads
from chat.admin.base import (
    REVIEW_BADGES,
    ChatAdmin,
    badge,
    change_url,
    excerpt,
    link,
    moment,
    short,
)
from chat.admin.delete_matching import DeleteMatching
from chat.admin.lists import by_id
from chat.admin.review_queue import ReviewQueue
from chat.admin.scope import user_ids
from chat.admin.session_actions import SessionActions
from chat.admin.session_files import SessionFiles
from chat.admin.session_filters import (
    AssistantFilter,
    ErrorFilter,
    FeedbackFilter,
    LastActiveFilter,
    PersonFilter,
    ReviewFilter,
    StateFilter,
    TagFilter,
    TenantFilter,
)
from chat.admin.transcript_page import TranscriptPages
from chat.models import ChatSession
from chat.search.messages import find_for_staff
from chat.turns.policies import switches

PROMPTS = (
    "assistant__system_prompt",
    "assistant__parameters",
    "assistant__tools",
    "assistant__output_schema",
)
TOLD = ("memory_enabled", "max_messages", "max_tokens")  # to whoever has the session open
SWITCHES = {
    "enabled": "memory",
    "max_messages": "messages in the window",
    "max_tokens": "tokens in the window",
    "stride": "steps of the window's start",
    "summarize": "summaries",
    "use_preferences": "preferences",
    "use_digest": "the digest of earlier sessions",
}
SET_BY = {
    "session": "set for this session",
    "assistant": "the assistant's",
    "environment": "the installation's",
}
MOST_HITS = 200  # messages that a search finds, best first; and sessions by title, newest first
NEWEST = 5_000  # sessions among which a title is looked for first
CUT_OFF = (
    f"There is more than is listed: a search finds the {MOST_HITS} messages that fit best, and the"
    f" {MOST_HITS} sessions that were active last among those with such a title."
)
RELATED = {"chatturn": "Turns", "chatmessage": "Messages", "contextrecord": "What was sent"}


@admin.register(ChatSession)
class ChatSessionAdmin(
    SessionActions,
    DeleteMatching,
    ReviewQueue,
    TranscriptPages,
    SessionFiles,
    RecordedReads,
    ChatAdmin,
):
    object_type = "session"
    list_shows_text = True  # titles, and what a search found
    list_display = [
        "title_column",
        "id_column",
        "user",
        "assistant",
        "state_column",
        "message_count",
        "tokens_column",
        "last_active_column",
    ]
    list_filter = [
        ReviewFilter,
        TagFilter,
        FeedbackFilter,
        ErrorFilter,
        StateFilter,
        LastActiveFilter,
        PersonFilter,
        AssistantFilter,
        TenantFilter,
    ]
    actions: list[Any] = [*ReviewQueue.actions, *SessionActions.actions]
    change_list_template = "admin/chat/chatsession/change_list.html"
    list_select_related = ["user", "assistant"]
    ordering = ["-last_active_at", "-id"]
    allowed_lookups = ["user__id__exact", "assistant__id__exact", "tenant__id__exact"]
    content_fields = ["title", "title_column"]
    search_help_text = "An exact id, a part of the user's name or of the title, or what was said."
    change_form_template = "admin/chat/chatsession/change_form.html"
    fieldsets = [
        (None, {"fields": ["title", ("user", "tenant"), "assistant", "state_column"]}),
        (
            "Memory",
            {
                "description": "An empty limit is the assistant's.",
                "fields": [
                    "memory_enabled",
                    ("max_messages", "max_tokens"),
                    "forget_line_column",
                    "in_force_column",
                ],
            },
        ),
        ("Retention and review", {"fields": ["is_held", "review_column"]}),
        (
            "Counters",
            {
                "fields": [
                    ("message_count", "path_count", "turn_count", "token_count"),
                    ("failed_turns", "interrupted_turns", "stopped_turns"),
                    ("good_votes", "bad_votes"),
                    ("created_at", "last_active_at"),
                ]
            },
        ),
        (
            "Inside",
            {
                "classes": ["collapse"],
                "fields": [
                    "id",
                    ("head", "next_seq"),
                    ("memory_starts_after", "memory_epoch"),
                    ("running_turn", "lease_owner", "lease_expires_at"),
                ],
            },
        ),
    ]
    editable = {"memory_enabled", "max_messages", "max_tokens", "is_held"}

    def get_queryset(self, request: HttpRequest) -> QuerySet[ChatSession]:
        return super().get_queryset(request).defer(*PROMPTS).prefetch_related("review_tags")

    def scoped(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        return rows if user.is_superuser else rows & staff_chat_sessions(user)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never here: a session leaves through the action, which counts and tells everyone."""
        return False

    def get_list_display(self, request: HttpRequest) -> Any:
        """The title leads to the session; for who may not read it, the id does."""
        names = super().get_list_display(request)
        return [name for name in names if name != "id_column" or "title_column" not in names]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        names = {field.name for field in self.model._meta.fields} - self.editable
        names |= {"state_column", "forget_line_column", "in_force_column", "review_column"}
        return sorted(names - self.hidden_names(request))

    def search(self, request: HttpRequest, term: str) -> Q:
        found = by_id(ChatSession, term) | Q(user__in=user_ids(term))
        if not may_read_content(request.user):
            return found
        tenants = None if request.user.is_superuser else staff_tenants(request.user)
        hits = find_for_staff(tenants=tenants, question=term, limit=MOST_HITS)
        titled = self.titled(request, term)
        if MOST_HITS in (len(hits), len(titled)):
            messages.info(request, CUT_OFF, fail_silently=True)  # a job has nobody to tell
        return found | Q(pk__in={hit.session_id for hit in hits} | set(titled))

    def titled(self, request: HttpRequest, term: str) -> list[uuid.UUID]:
        """The newest sessions with `term` in their title; older ones where these are too few."""
        seen = self.scoped(ChatSession.objects.order_by(*self.ordering), request.user)
        rows = seen.filter(title__icontains=term).values_list("pk", flat=True)
        oldest = seen.values_list("last_active_at", flat=True)[NEWEST : NEWEST + 1].first()
        if oldest is not None:
            found = list(rows.filter(last_active_at__gte=oldest)[:MOST_HITS])
            if len(found) == MOST_HITS:
                return found
        return list(rows[:MOST_HITS])

    def save_model(
        self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool
    ) -> None:
        """Only the fields that were changed: the row's counters and lease may have moved on."""
        changes = {name: form.cleaned_data[name] for name in form.changed_data}
        if not changes:
            return
        if not ChatSession.objects.filter(pk=obj.pk).update(**changes):
            raise Http404("The session was deleted meanwhile.")
        audit.note(request, "session.change", "session", obj.pk, filter={"set": changes})
        told = {name: value for name, value in changes.items() if name in TOLD}
        if told:
            frame = events.session_updated(obj, **told)
            transaction.on_commit(partial(events.publish_from_thread, obj.pk, frame))

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "memory_enabled" and field is not None:
            field.widget.choices = [
                ("unknown", "As the assistant says"),
                ("true", "On"),
                ("false", "Off"),
            ]
        return field

    # --- Columns ----------------------------------------------------------------------------------

    @admin.display(description="session")
    def title_column(self, chat_session: ChatSession) -> SafeString:
        return excerpt(chat_session.title or "Untitled", 80)

    @admin.display(description="session")
    def id_column(self, chat_session: ChatSession) -> str:
        return short(chat_session.pk)

    @admin.display(description="tokens")
    def tokens_column(self, chat_session: ChatSession) -> str:
        return f"{chat_session.token_count:,}"

    @admin.display(description="last active")
    def last_active_column(self, chat_session: ChatSession) -> str:
        return moment(chat_session.last_active_at)

    @admin.display(description="state")
    def state_column(self, chat_session: ChatSession) -> SafeString:
        states = [
            ("running", "accent", chat_session.running_turn is not None),
            ("held", "warning", chat_session.is_held),
            ("temporary", "quiet", chat_session.is_temporary),
            ("archived", "quiet", chat_session.is_archived),
            ("pinned", "quiet", chat_session.is_pinned),
            ("memory off", "warning", chat_session.memory_enabled is False),
            ("failed", "bad", chat_session.failed_turns),
            ("interrupted", "warning", chat_session.interrupted_turns),
            ("rated good", "good", chat_session.good_votes),
            ("rated bad", "bad", chat_session.bad_votes),
            (
                chat_session.get_review_state_display().lower(),
                REVIEW_BADGES[chat_session.review_state],
                chat_session.review_state != ChatSession.ReviewState.NONE,
            ),
            *((tag.name, "tag", True) for tag in chat_session.review_tags.all()),
        ]
        shown = [(badge(word, kind),) for word, kind, holds in states if holds]
        return format_html_join(mark_safe(" "), "{}", shown) or badge("idle")

    @admin.display(description="review")
    def review_column(self, chat_session: ChatSession) -> SafeString:
        """The state, who claimed it since when, and the tags."""
        state = chat_session.review_state
        shown = badge(chat_session.get_review_state_display(), REVIEW_BADGES[state])
        parts: list[tuple[str]] = [(shown,)]
        if chat_session.review_claimed_by is not None:
            since = moment(chat_session.review_claimed_at)
            parts.append((f"claimed by {chat_session.review_claimed_by}, {since}",))
        parts += [(badge(tag.name, "tag"),) for tag in chat_session.review_tags.all()]
        return format_html_join(mark_safe(" "), "{}", parts)

    @admin.display(description="forget line")
    def forget_line_column(self, chat_session: ChatSession) -> str:
        line = chat_session.memory_starts_after
        return f"after message {line}" if line else "none"

    @admin.display(description="in force")
    def in_force_column(self, chat_session: ChatSession) -> SafeString:
        """What the next turn goes by, and who said so."""
        rows = [
            (SWITCHES[each.name], _shown(each.value), SET_BY[each.source])
            for each in switches(chat_session)
        ]
        return format_html_join(mark_safe("<br>"), "{}: {} ({})", rows)

    # --- Pages ------------------------------------------------------------------------------------

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        chat_session = context["original"]
        of_this = f"?chat_session__id__exact={chat_session.pk}"
        context["related_lists"] = [
            (label, reverse(f"admin:chat_{name}_changelist") + of_this)
            for name, label in RELATED.items()
        ]
        context["session_actions"] = self.actions_on(request, chat_session)
        return super().render_change_form(request, context, *args, **kwargs)


def _shown(value: bool | int | None) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "no limit" if value is None else f"{value:,}"


def session_link(session_id: uuid.UUID) -> SafeString:
    """A short id that leads to the session's page."""
    return link(change_url("chat_chatsession", session_id), short(session_id), session_id)


def transcript_link(session_id: uuid.UUID, seq: int, text: Any) -> SafeString:
    """Into the conversation, at a message."""
    url = reverse("admin:chat_chatsession_transcript", args=[session_id])
    return link(f"{url}?seq={seq}#seq-{seq}", text)
