"""Sessions: found by id, title and person; their facts and switches, and the way into the text."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from chat import events
from chat.access import may_read_content, staff_chat_sessions, staff_tenants
from chat.admin import audit, transcript
from chat.admin.base import ChatAdmin, badge, change_url, excerpt, link, moment, short
from chat.admin.filters import DateRangeFilter, TextFilter
from chat.admin.lists import by_id
from chat.admin.scope import user_ids
from chat.admin.session_actions import SessionActions
from chat.admin.session_files import SessionFiles
from chat.models import Assistant, ChatSession
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
    "use_preferences": "preferences",
}
SET_BY = {
    "session": "set for this session",
    "assistant": "the assistant's",
    "environment": "the installation's",
}
FEW = 100  # suggestions that a filter offers
RELATED = {"chatturn": "Turns", "chatmessage": "Messages", "contextrecord": "What was sent"}


class LastActiveFilter(DateRangeFilter):
    title = "last active"
    field_name = "last_active_at"


class PersonFilter(TextFilter):
    title = "user"
    parameter_name = "person"

    def matches(self, value: str) -> Q:
        return Q(user__in=user_ids(value))


class AssistantFilter(TextFilter):
    title = "assistant"
    parameter_name = "assistant"

    def suggestions(self, request: HttpRequest) -> list[str]:
        seen = Assistant.objects.all()
        if not request.user.is_superuser:
            seen = seen.filter(Q(tenant=None) | Q(tenant__in=staff_tenants(request.user)))
        return list(seen.order_by("slug").values_list("slug", flat=True)[:FEW])

    def matches(self, value: str) -> Q:
        return Q(assistant__in=list(Assistant.objects.filter(slug=value).values_list("pk")))


class TenantFilter(TextFilter):
    title = "tenant"
    parameter_name = "tenant"

    def suggestions(self, request: HttpRequest) -> list[str]:
        seen = staff_tenants(request.user).order_by("slug")
        return list(seen.values_list("slug", flat=True)[:FEW])

    def matches(self, value: str) -> Q:
        return Q(tenant__slug=value)


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"
    states = {
        "running": ("Running", ~Q(running_turn=None)),
        "held": ("Held", Q(is_held=True)),
        "archived": ("Archived", Q(is_archived=True)),
        "temporary": ("Temporary", Q(is_temporary=True)),
        "memory_off": ("Memory off", Q(memory_enabled=False)),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, label) for value, (label, _) in self.states.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        state = self.states.get(self.value() or "")
        return queryset.filter(state[1]) if state else queryset


@admin.register(ChatSession)
class ChatSessionAdmin(SessionActions, SessionFiles, ChatAdmin):
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
    list_filter = [StateFilter, LastActiveFilter, PersonFilter, AssistantFilter, TenantFilter]
    list_select_related = ["user", "assistant"]
    ordering = ["-last_active_at", "-id"]
    allowed_lookups = ["user__id__exact", "assistant__id__exact", "tenant__id__exact"]
    content_fields = ["title", "title_column"]
    search_help_text = "An exact id, or a part of the user's name or of the title."
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
        ("Retention and review", {"fields": ["is_held", "review_state"]}),
        (
            "Counters",
            {
                "fields": [
                    ("message_count", "path_count", "turn_count", "token_count"),
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
        return super().get_queryset(request).defer(*PROMPTS)

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
        names |= {"state_column", "forget_line_column", "in_force_column"}
        return sorted(names - self.hidden_names(request))

    def search(self, request: HttpRequest, term: str) -> Q:
        found = by_id(ChatSession, term) | Q(user__in=user_ids(term))
        return found | Q(title__icontains=term) if may_read_content(request.user) else found

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
            (
                chat_session.get_review_state_display().lower(),
                "accent",
                chat_session.review_state != ChatSession.ReviewState.NONE,
            ),
        ]
        shown = [(badge(word, kind),) for word, kind, holds in states if holds]
        return format_html_join(mark_safe(" "), "{}", shown) or badge("idle")

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

    def get_urls(self) -> list[URLPattern]:
        transcript_path = path(
            "<uuid:session_id>/transcript/",
            self.admin_site.admin_view(self.transcript_view),
            name="chat_chatsession_transcript",
        )
        return [transcript_path, *super().get_urls()]

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

    def transcript_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        chat_session = self.get_object(request, str(session_id))
        if chat_session is None:
            raise Http404("There is no such session.")
        with_text = may_read_content(request.user)
        place = place_of(request)
        page = transcript.read(chat_session, place, with_text=with_text)
        audit.note(
            request,
            "transcript.read",
            "session",
            chat_session.pk,
            count=len(page.entries),
            filter={"from": page.from_seq, "through": page.through_seq, "text": with_text},
        )
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": (chat_session.title or "Untitled") if with_text else short(chat_session.pk),
            "chat_session": chat_session,
            "page": page,
            "place": place,
            "text_is_hidden": not with_text,
            "is_nav_sidebar_enabled": False,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/chat/chatsession/transcript.html", context)


def _shown(value: bool | int | None) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "no limit" if value is None else f"{value:,}"


def place_of(request: HttpRequest) -> transcript.Place:
    """Where the address points; what is not a number asks for the newest messages."""

    def number(name: str) -> int | None:
        text = request.GET.get(name, "").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None

    return transcript.Place(
        before=number("before"),
        after=number("after"),
        around=number("seq"),
        every_branch=request.GET.get("branches") == "all",
    )


def session_link(session_id: uuid.UUID) -> SafeString:
    """A short id that leads to the session's page."""
    return link(change_url("chat_chatsession", session_id), short(session_id), session_id)


def transcript_link(session_id: uuid.UUID, seq: int, text: Any) -> SafeString:
    """Into the conversation, at a message."""
    url = reverse("admin:chat_chatsession_transcript", args=[session_id])
    return link(f"{url}?seq={seq}#seq-{seq}", text)
