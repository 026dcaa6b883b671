"""The page of a transcript: reading it, saying why, and what reviewers do there."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http import HttpResponseNotAllowed as NotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from chat.access import NotFound, may_read_content, may_view_context
from chat.admin import audit, beside, reasons, remarks, reviews, transcript
from chat.admin.base import REVIEW_BADGES, badge, short
from chat.admin.content import why_hidden
from chat.admin.remark_form import NOTE_LENGTH, SCORE_NAME, RemarkForm
from chat.models import ChatSession, ReviewScore, ReviewTag

FEW = 100  # tags and names of scores that are suggested


class TranscriptPages(admin.ModelAdmin):
    """Adds the transcript of a session, and what belongs to it, below the session's own address."""

    def get_urls(self) -> list[URLPattern]:
        pages = {
            "transcript": self.transcript_view,
            "reason": self.reason_view,
            "review": self.review_view,
        }
        added = [
            path(
                f"<uuid:session_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"chat_chatsession_{name}",
            )
            for name, view in pages.items()
        ]
        return [*added, *super().get_urls()]

    def opened(self, request: HttpRequest, session_id: uuid.UUID) -> ChatSession:
        """The session, if its tenant is the reader's; foreign and unknown ones end alike."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        chat_session = self.get_object(request, str(session_id))
        if chat_session is None:
            raise Http404("There is no such session.")
        return chat_session

    # --- Reading ----------------------------------------------------------------------------------

    def transcript_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        chat_session = self.opened(request, session_id)
        if reasons.is_missing(request.user, session_id):
            return reasons.ask(request, session_id)
        with_text = may_read_content(request.user)
        place = place_of(request)
        page = transcript.read(chat_session, place, reader=request.user)
        about = {"from": page.from_seq, "through": page.through_seq, "text": with_text}
        audit.note(
            request,
            "transcript.read",
            "session",
            chat_session.pk,
            count=len(page.entries),
            filter=about,
        )
        context = {
            **self.page_of(request, chat_session),
            "page": page,
            "place": place,
            "shows_contexts": may_view_context(request.user),
            "panel": self.panel(request, chat_session),
        }
        return TemplateResponse(request, "admin/chat/chatsession/transcript.html", context)

    def reason_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        """Asks why, and leads on to what was to be read."""
        chat_session = self.opened(request, session_id)
        text = reasons.given(request)
        if text:
            audit.note(request, reasons.GIVEN, "session", chat_session.pk, reason=text)
            return HttpResponseRedirect(reasons.way_back(request, session_id))
        context = {
            **self.page_of(request, chat_session),
            "title": f"Why do you read session {short(chat_session.pk)}?",
            "was_empty": request.method == "POST",
        }
        return TemplateResponse(request, "admin/chat/chatsession/reason.html", context)

    def page_of(self, request: HttpRequest, chat_session: ChatSession) -> dict[str, Any]:
        request.current_app = self.admin_site.name
        with_text = may_read_content(request.user)
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": (chat_session.title or "Untitled") if with_text else short(chat_session.pk),
            "chat_session": chat_session,
            "text_is_hidden": why_hidden(request.user),
            "is_nav_sidebar_enabled": False,
        }

    # --- Reviewing --------------------------------------------------------------------------------

    def panel(self, request: HttpRequest, chat_session: ChatSession) -> dict[str, Any]:
        """The review as it stands, and what this reader may do about it."""
        user = request.user
        seen = reviews.standing(chat_session.pk)
        if seen is None:
            raise Http404("The session was deleted meanwhile.")
        may_review = reviews.may_review(user)
        offered = ReviewTag.objects.filter(tenant=chat_session.tenant_id)
        return {
            "badge": badge(reviews.State(seen.state).label, REVIEW_BADGES[seen.state]),
            "standing": seen,
            "claimed_by": chat_session.review_claimed_by,
            "is_mine": may_review and seen.is_mine(user),
            "moves": list(seen.moves(user)) if may_review else [],
            "tags": list(chat_session.review_tags.all()),
            "said": beside.of_session(chat_session, user),
            "may_review": may_review,
            "may_score": remarks.may_score(user),
            "may_tag": remarks.may_tag(user),
            "tag_names": list(offered.values_list("name", flat=True)[:FEW]) if may_review else [],
            "score_names": score_names(user) if may_review else [],
            "note_length": NOTE_LENGTH,
            "values": range(1, 6),
        }

    def review_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        """What the forms of the transcript send: `do` says what."""
        if not reviews.may_review(request.user):
            raise PermissionDenied
        chat_session = self.opened(request, session_id)
        if request.method != "POST":
            return NotAllowed(["POST"])
        try:
            return self.reviewed(request, chat_session)
        except reviews.Refused as refused:
            self.message_user(request, str(refused), messages.ERROR)
        except NotFound as missing:
            raise Http404(str(missing)) from None
        return back_to(request, chat_session.pk)

    def reviewed(self, request: HttpRequest, chat_session: ChatSession) -> HttpResponse:
        do = request.POST.get("do", "")
        if do == "move":
            reviews.move(request, chat_session.pk, request.POST.get("to", ""))
        elif do == "remove_note":
            self.take_back(request, chat_session)
        elif do in ("save", "next"):
            if self.said(request, chat_session) and do == "next":
                return self.finished(request, chat_session)
        else:
            raise reviews.Refused("Nothing was done: the form did not say what to do.")
        return back_to(request, chat_session.pk)

    def take_back(self, request: HttpRequest, chat_session: ChatSession) -> None:
        note = request.POST.get("note", "")
        is_number = note.isascii() and note.isdigit() and len(note) <= 18
        if not is_number or not remarks.remove_note(request, chat_session, int(note)):
            raise reviews.Refused("There is no such note of yours.")

    def said(self, request: HttpRequest, chat_session: ChatSession) -> bool:
        """Store what the form says; a wrong one is named, and nothing of it is stored."""
        form = RemarkForm(request.POST, chat_session)
        if not form.is_valid():
            wrong = "; ".join(str(text) for texts in form.errors.values() for text in texts)
            self.message_user(request, f"Nothing was saved: {wrong}", messages.ERROR)
            return False
        remarks.say(request, chat_session, form.remark(request.user))
        return True

    def finished(self, request: HttpRequest, chat_session: ChatSession) -> HttpResponse:
        """Close one's own review and claim the next; what is not one's own stays as it is.

        A form that is sent twice closes one review and claims one session: the second time the
        review is closed already, and what was claimed the first time is opened.
        """
        seen = reviews.standing(chat_session.pk)
        rows = self.get_queryset(request)
        if seen is not None and seen.is_mine(request.user):
            is_flagged = request.POST.get("flag") == "on"
            to = reviews.State.FLAGGED if is_flagged else reviews.State.REVIEWED
            reviews.move(request, chat_session.pk, to)
            self.message_user(request, f"{short(chat_session.pk)}: {to.label.lower()}.")
        elif claimed := reviews.newest_claim(request.user, rows):
            return opened_next(claimed)
        elif seen is not None and seen.is_held_against(request.user):
            lost = f"{short(chat_session.pk)}: somebody else reviews it, and its state stays."
            self.message_user(request, lost, messages.WARNING)
        return next_in_queue(request, rows)


def next_in_queue(request: HttpRequest, rows: Any) -> HttpResponse:
    """Claim the next session and open it; the queue's own page when it is empty."""
    session_id = reviews.claim_next(request, rows)
    if session_id is None:
        messages.info(request, "Nothing else waits for review.")
        return HttpResponseRedirect(reverse("admin:chat_chatsession_queue"))
    return opened_next(session_id)


def opened_next(session_id: uuid.UUID) -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:chat_chatsession_transcript", args=[session_id]))


def back_to(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """To the same place of the transcript, at the turn or at the review."""
    address = reverse("admin:chat_chatsession_transcript", args=[session_id])
    number = request.POST.get("turn_number", "")
    is_turn = number.isascii() and number.isdigit()
    anchor = f"turn-{number}" if is_turn else "review"
    return HttpResponseRedirect(f"{address}?{place_of(request).query}#{anchor}")


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


def score_names(user: Any) -> list[str]:
    """The names that `user` has scored by lately."""
    lately = ReviewScore.objects.filter(author=user).order_by("-pk")
    return sorted({SCORE_NAME, *lately.values_list("name", flat=True)[:FEW]})
