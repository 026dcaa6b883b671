"""Why not? A message, or a pasted text, held against what one turn sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from chat import records
from chat.access import may_read_content
from chat.admin import audit, reasons
from chat.admin.base import short
from chat.admin.inspection_pages import SessionPages, SettingLink, links_of, number, numbers_of
from chat.inspection import finding, remembered, why_not
from chat.inspection.finding import Place
from chat.inspection.remembered import Remembered
from chat.inspection.why_not import Distance, Verdict, Wanted
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord

EXCERPT = 300  # characters of a message


@dataclass(frozen=True)
class Asked:
    """What the reader asks about: a turn, and a message by its number or by its words."""

    turn: int | None
    seq: int | None
    text: str


@dataclass(frozen=True)
class Attempt:
    """What one request of the turn says of the message."""

    record: ContextRecord
    verdict: Verdict


@dataclass(frozen=True)
class Answer:
    """One message and what became of it, with the settings that decided."""

    wanted: Wanted
    place: Place | None
    excerpt: str | None
    attempts: tuple[Attempt, ...]
    settings: tuple[SettingLink, ...]
    distance: Distance | None
    what_if: str
    """The query of a what-if that reaches the message; "" where no limit keeps it out."""

    @property
    def verdict(self) -> Verdict:
        return self.attempts[-1].verdict

    @property
    def differs(self) -> bool:
        """Whether an earlier request of the turn did something else with it."""
        return len({each.verdict.state + each.verdict.reason for each in self.attempts}) > 1


class WhyNotPages(SessionPages):
    """Adds the page that answers "why did it not know this?"."""

    def why_not_view(self, request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
        chat_session = self.inspected(request, session_id)
        if reasons.is_missing(request.user, session_id):
            return reasons.ask(request, session_id)
        asked = asked_by(request)
        with_text = may_read_content(request.user) and not chat_session.is_temporary
        turn = why_not.turn_of(chat_session, asked.turn)
        context = {
            **self.page_about(request, chat_session),
            "title": f"Why not? Session {short(chat_session.pk)}",
            "asked": asked,
            "turn": turn,
            "turns": numbers_of(chat_session),
            "reads_text": with_text,
            "longest": finding.LONGEST,
        }
        is_asked = bool(asked.seq or (asked.text and with_text))
        if turn is not None and is_asked:
            turn.chat_session = chat_session
            context |= _answered(request, turn, asked, with_text)
        if is_asked:
            audit.note(
                request,
                "why_not.read",
                "session",
                chat_session.pk,
                filter={
                    "turn": asked.turn,
                    "seq": asked.seq,
                    "searched": bool(asked.text),
                    "text": with_text,
                },
            )
        return TemplateResponse(request, "admin/chat/why_not.html", context)


def asked_by(request: HttpRequest) -> Asked:
    """A text is only ever posted: addresses stay in logs and histories."""
    given = request.POST if request.method == "POST" else request.GET
    text = finding.asked(request.POST.get("text", "")) if request.method == "POST" else ""
    seq = number(given.get("seq"))
    return Asked(turn=number(given.get("turn")), seq=seq or None, text=text)


def _answered(
    request: HttpRequest, turn: ChatTurn, asked: Asked, with_text: bool
) -> dict[str, Any]:
    chat_session = turn.chat_session
    sent = why_not.requests_of(turn)
    places = finding.in_session(chat_session, asked.text) if asked.text and with_text else []
    wanted: list[tuple[Wanted, Place | None]] = [
        (Wanted(each.message.seq, each.message), each) for each in places
    ]
    if asked.seq is not None and asked.seq not in {each.seq for each, _ in wanted}:
        wanted.insert(0, (why_not.wanted(chat_session, asked.seq), None))
    answers = [_answer(request, turn, sent, each, place, with_text) for each, place in wanted]
    manifest = why_not.manifest_of(sent[-1]) if sent else {}
    return {
        "is_answered": True,
        "sent": sent,
        "answers": answers,
        **_words(turn, sent, asked, with_text),
        "remembered": _remembered(request, turn, asked, manifest, with_text),
        "was_forgotten": _forgotten(chat_session, asked, with_text),
    }


def _answer(
    request: HttpRequest,
    turn: ChatTurn,
    sent: Sequence[ContextRecord],
    wanted: Wanted,
    place: Place | None,
    with_text: bool,
) -> Answer:
    attempts = tuple(
        Attempt(record, why_not.verdict(why_not.manifest_of(record), turn, wanted))
        for record in sent
    )
    settings: Sequence[SettingLink] = ()
    what_if, distance = "", None
    if attempts and attempts[-1].verdict.state == why_not.LEFT_OUT:
        verdict = attempts[-1].verdict
        settings = links_of(request, turn.chat_session)(verdict.explained.settings)
        distance = why_not.distance(wanted, turn)
        what_if = _what_if(turn, wanted, verdict, distance)
    return Answer(
        wanted=wanted,
        place=place,
        excerpt=_excerpt(wanted.row) if with_text else None,
        attempts=attempts,
        settings=tuple(settings),
        distance=distance,
        what_if=what_if,
    )


def _excerpt(row: ChatMessage | None) -> str:
    text = (row.content or "") if row is not None else ""
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def _what_if(turn: ChatTurn, wanted: Wanted, verdict: Verdict, distance: Distance | None) -> str:
    """The policy under which the message would have been in reach."""
    changes: dict[str, Any] = {}
    if verdict.reason == "memory_off":
        changes["enabled"] = "on"
    elif verdict.reason == "max_messages" and distance is not None:
        changes["max_messages"] = distance.messages
    elif verdict.reason == "max_tokens" and distance is not None:
        changes["max_tokens"] = max(distance.tokens, 1)
    elif verdict.reason == "covered_by_summary":
        changes["summarize"] = "off"
    if not changes:
        return ""
    address = reverse("admin:chat_contextrecord_what_if", args=[turn.chat_session_id])
    query = {"turn": turn.number, "seq": wanted.seq, **changes}
    return f"{address}?{urlencode(query)}"


def _words(
    turn: ChatTurn, sent: Sequence[ContextRecord], asked: Asked, with_text: bool
) -> dict[str, Any]:
    """Where else a pasted text stands: in the request as it was sent, in other sessions."""
    if not (asked.text and with_text):
        return {"in_request": [], "elsewhere": []}
    held = []
    if sent:
        manifest = why_not.manifest_of(sent[-1])
        held = finding.in_request(records.rebuild(sent[-1]), manifest, asked.text)
    return {
        "in_request": held,
        "elsewhere": finding.elsewhere(turn.chat_session, asked.text),
    }


def _remembered(
    request: HttpRequest,
    turn: ChatTurn,
    asked: Asked,
    manifest: Mapping[str, Any],
    with_text: bool,
) -> list[tuple[Remembered, list[SettingLink]]]:
    found: dict[int, Remembered] = {}
    if asked.seq is not None:
        taken = remembered.taken_from(turn.chat_session, asked.seq, manifest, turn)
        found |= {each.row.pk: each for each in taken}
    if asked.text and with_text:
        say = remembered.that_say(turn.chat_session, asked.text, manifest, turn)
        found |= {each.row.pk: each for each in say}
    links = links_of(request, turn.chat_session)
    return [(each, links(each.settings)) for each in found.values()]


def _forgotten(chat_session: ChatSession, asked: Asked, with_text: bool) -> bool:
    text = asked.text if with_text else ""
    if not text and asked.seq is None:
        return False
    return remembered.was_forgotten(chat_session, text, asked.seq)
