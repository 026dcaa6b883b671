"""What staff do to whole sessions: clear their memory, delete, hold, release.

Deleting and clearing are asked for twice: the second page counts what goes, wants the number of
sessions typed, and takes a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from chat import leases, retention
from chat.access import address_of
from chat.admin import audit, reasons
from chat.admin.lists import count_of
from chat.models import ChatSession

NOT_HELD = Q(is_held=False)


@dataclass(frozen=True)
class Deed:
    """An action with a confirmation page."""

    name: str
    title: str
    verb: str
    done: str
    explained: str
    is_destructive: bool
    always_says_why: bool = False

    @property
    def needs_reason(self) -> bool:
        return self.always_says_why or (self.is_destructive and reasons.is_demanded())


DELETE = Deed(
    name="delete_sessions",
    title="Delete sessions",
    verb="Delete",
    done="Deleted",
    explained=(
        "Messages, turns, records of what was sent, snapshots and feedback leave with the session"
        " and cannot be brought back. Saved preferences stay. A running answer ends."
    ),
    is_destructive=True,
)
CLEAR = Deed(
    name="clear_memory",
    title="Clear memory",
    verb="Clear memory",
    done="Cleared the memory of",
    explained=(
        "The forget line is drawn after the newest message: what stands before it is not sent to a"
        " model again. The transcript stays, and so do saved preferences. A running answer is"
        " stopped first."
    ),
    is_destructive=False,
)


REDACT = Deed(
    name="redact_sessions",
    title="Redact all text of sessions",
    verb="Redact",
    done="Redacted",
    explained=(
        "The text of every message goes for good, with its images, and so does every copy: in the"
        " search, snapshots, summaries, the digest, what was sent to models, what other"
        " conversations recalled, finished exports, and preferences that were taken from it. Rows,"
        " times and figures stay. A session in which an answer is running is left alone."
    ),
    is_destructive=True,
    always_says_why=True,  # as the page of a single message does
)


DESTRUCTIVE = {DELETE.name, REDACT.name}


class SessionActions(admin.ModelAdmin):
    actions = ["clear_memory", "hold", "release", "redact_sessions", "delete_sessions"]

    def has_erase_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.delete_chatsession")

    @admin.action(description="Delete…", permissions=["erase"])
    def delete_sessions(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> Any:
        def delete(chat_session: ChatSession, reason: str) -> None:
            retention.forget_session(
                chat_session.pk,
                actor=request.user,
                reason=reason,
                ip=address_of(request),
                only_if=NOT_HELD,
            )

        return self.confirmed(request, rows, DELETE, delete)

    def has_redact_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.redact")

    @admin.action(description="Redact all text…", permissions=["redact"])
    def redact_sessions(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> Any:
        def redact(chat_session: ChatSession, reason: str) -> None:
            retention.redact(
                chat_session.pk,
                retention.ALL,
                actor=request.user,
                reason=reason,
                ip=address_of(request),
            )

        return self.confirmed(request, rows, REDACT, redact)

    @admin.action(description="Clear memory…", permissions=["change"])
    def clear_memory(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> Any:
        def clear(chat_session: ChatSession, reason: str) -> None:
            retention.clear_memory(
                chat_session.pk,
                actor=request.user,
                reason=reason,
                ip=address_of(request),
            )

        return self.confirmed(request, rows, CLEAR, clear)

    @admin.action(description="Hold: keep from every cleanup", permissions=["change"])
    def hold(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> None:
        self.set_held(request, rows, held=True)

    @admin.action(description="Release from hold", permissions=["change"])
    def release(self, request: HttpRequest, rows: QuerySet[ChatSession]) -> None:
        self.set_held(request, rows, held=False)

    def actions_on(
        self, request: HttpRequest, chat_session: ChatSession
    ) -> list[tuple[str, str, bool]]:
        """Name, label and whether it destroys, of what may be done to this one session."""
        pointless = "hold" if chat_session.is_held else "release"
        offered = self.get_action_choices(request, default_choices=[])
        return [(name, label, name in DESTRUCTIVE) for name, label in offered if name != pointless]

    def set_held(self, request: HttpRequest, rows: QuerySet[ChatSession], *, held: bool) -> None:
        ids = list(rows.order_by("pk").values_list("pk", flat=True))
        changed = ChatSession.objects.filter(pk__in=ids, is_held=not held).update(is_held=held)
        action = "session.hold" if held else "session.release"
        sessions = {"sessions": [str(pk) for pk in ids]}
        audit.note(request, action, "session", _only(ids), count=changed, filter=sessions)
        done = "Held" if held else "Released"
        self.message_user(request, f"{done} {count_of(changed, 'session', 'sessions')}.")

    # --- The second page --------------------------------------------------------------------------

    def confirmed(
        self,
        request: HttpRequest,
        rows: QuerySet[ChatSession],
        deed: Deed,
        do: Callable[[ChatSession, str], None],
    ) -> HttpResponse | None:
        """Ask on a page of its own; when the count was typed, with a reason where one is needed,
        do it session by session."""
        chosen = list(rows)
        if "typed" not in request.POST:
            return self.ask(request, rows, chosen, deed)
        if request.POST["typed"].strip() != str(len(chosen)):
            return self.ask(request, rows, chosen, deed, wrong=f"Type exactly {len(chosen)}.")
        if deed.needs_reason and not reasons.given(request):
            return self.ask(request, rows, chosen, deed, wrong="Say why.")
        self.carry_out(request, chosen, deed, do)
        return None

    def ask(
        self,
        request: HttpRequest,
        rows: QuerySet[ChatSession],
        chosen: list[ChatSession],
        deed: Deed,
        *,
        wrong: str = "",
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": deed.title,
            "deed": deed,
            "list_url": request.get_full_path(),
            "chosen": chosen,
            "counts": self.counts(rows),
            "wrong": wrong,
            "checkbox_name": ACTION_CHECKBOX_NAME,
            "reason": request.POST.get("reason", ""),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/chat/chatsession/confirm.html", context)

    def counts(self, rows: QuerySet[ChatSession]) -> list[tuple[str, int]]:
        """From the sessions' own counters: no message is looked at."""
        found = rows.order_by().aggregate(
            sessions=Count("pk"),
            people=Count("user", distinct=True),
            messages=Sum("message_count", default=0),
            turns=Sum("turn_count", default=0),
            running=Count("pk", filter=~Q(running_turn=None)),
            held=Count("pk", filter=Q(is_held=True)),
        )
        labels = {"running": "running at the moment", "held": "held, and not deleted"}
        return [(labels.get(name, name), number) for name, number in found.items()]

    def carry_out(
        self,
        request: HttpRequest,
        chosen: list[ChatSession],
        deed: Deed,
        do: Callable[[ChatSession, str], None],
    ) -> None:
        reason = reasons.given(request)
        done, refused = 0, []
        for chat_session in chosen:
            try:
                do(chat_session, reason)
            except (leases.Busy, leases.Gone) as error:
                refused.append(str(error))
            else:
                done += 1
        if done:
            self.message_user(request, f"{deed.done} {count_of(done, 'session', 'sessions')}.")
        for text in refused:
            self.message_user(request, text, messages.ERROR)


def _only(ids: list[Any]) -> Any:
    """The id, when there is exactly one."""
    return ids[0] if len(ids) == 1 else ""
