"""A conversation as a conversation: fifty messages at a time by `seq`, each turn with its facts."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Max, Min, Q, QuerySet

from chat import attachments, rendering
from chat.access import may_read_content, path_messages
from chat.admin import beside
from chat.admin.base import status_badge
from chat.admin.requests import pretty
from chat.models import ChatMessage, ChatSession, ChatTurn, ContextRecord

PAGE = 50
BEFORE_JUMP = 5  # messages shown above the one that was asked for
SHOWN_CHARACTERS = 20_000  # of one message; the rest is on the message's own page


@dataclass(frozen=True)
class Place:
    """Where to read; at most one of the three is set, none means the newest messages."""

    before: int | None = None
    after: int | None = None
    around: int | None = None
    every_branch: bool = False

    @property
    def suffix(self) -> str:
        """What every link of the page says beside the place it leads to."""
        return "&branches=all" if self.every_branch else ""

    @property
    def query(self) -> str:
        """The part of an address that leads here."""
        places = {"before": self.before, "after": self.after, "seq": self.around}
        named = {name: seq for name, seq in places.items() if seq is not None}
        return urlencode(named | ({"branches": "all"} if self.every_branch else {}))


@dataclass(frozen=True)
class Sent:
    """One model request of a turn, in figures."""

    record: uuid.UUID
    attempt: int
    messages: int
    tokens: int
    budget: int | None


@dataclass(frozen=True)
class TurnFacts:
    turn: ChatTurn
    error_detail: str
    sent: tuple[Sent, ...]
    answers: int
    beside: beside.Beside

    @property
    def badge(self) -> str:
        return status_badge(self.turn)

    @property
    def ms(self) -> int | None:
        return _ms(self.turn.started_at, self.turn.finished_at)

    @property
    def first_token_ms(self) -> int | None:
        return _ms(self.turn.started_at, self.turn.first_token_at)


@dataclass(frozen=True)
class Entry:
    """One message, the turns to show beneath it, and the lines to draw above it."""

    message: ChatMessage
    html: str | None
    """None: the reader may not see text."""
    hidden_characters: int
    attachments: tuple[Mapping[str, Any], ...]
    calls: str
    """The tools that were asked for, as JSON; "" when none were, or they may not be seen."""
    turns: tuple[TurnFacts, ...]
    is_first_after_forget_line: bool = False
    is_window_start: bool = False


@dataclass(frozen=True)
class Page:
    entries: tuple[Entry, ...]
    has_before: bool
    has_after: bool
    first_seq: int
    last_seq: int
    """The ends of the whole conversation; 0 when it is empty."""
    forget_line_at_end: bool = False

    @property
    def from_seq(self) -> int:
        return self.entries[0].message.seq if self.entries else 0

    @property
    def through_seq(self) -> int:
        return self.entries[-1].message.seq if self.entries else 0


def read(chat_session: ChatSession, place: Place, *, reader: Any) -> Page:
    """The messages around `place`, in a constant number of queries."""
    with_text = may_read_content(reader)
    rows = chat_session.messages.all() if place.every_branch else path_messages(chat_session)
    ends = rows.order_by().aggregate(first=Min("seq"), last=Max("seq"))
    shown = rows if with_text else rows.defer("content", "parts", "tool_calls")
    messages = _slice(shown, place)
    turns = _turns_below(chat_session, messages, reader)
    start = _window_start(chat_session)
    line = chat_session.memory_starts_after
    after_line = rows.filter(seq__gt=line).aggregate(seq=Min("seq"))["seq"] if line else 0
    first, last = ends["first"] or 0, ends["last"] or 0
    has_after = bool(messages) and messages[-1].seq < last
    return Page(
        entries=tuple(
            _entry(each, turns[each.pk], with_text, after_line, start) for each in messages
        ),
        has_before=bool(messages) and messages[0].seq > first,
        has_after=has_after,
        first_seq=first,
        last_seq=last,
        forget_line_at_end=bool(messages) and after_line is None and not has_after,
    )


def _slice(rows: QuerySet[ChatMessage], place: Place) -> list[ChatMessage]:
    if place.after is not None:
        return list(rows.filter(seq__gt=place.after).order_by("seq")[:PAGE])
    if place.around is not None:
        above = list(rows.filter(seq__lt=place.around).order_by("-seq")[:BEFORE_JUMP])
        below = rows.filter(seq__gte=place.around).order_by("seq")[: PAGE - len(above)]
        return [*reversed(above), *below]
    if place.before is not None:
        rows = rows.filter(seq__lt=place.before)
    return list(reversed(rows.order_by("-seq")[:PAGE]))


def _window_start(chat_session: ChatSession) -> int:
    """The first message of the history that the newest request held; 0: none."""
    newest = (
        ContextRecord.objects.filter(turn__chat_session=chat_session)
        .order_by("-turn__number", "-attempt")
        .values_list("manifest", flat=True)
        .first()
    )
    window = newest.get("window") if isinstance(newest, dict) else None
    return window.get("from_seq", 0) if isinstance(window, dict) else 0


def _entry(
    message: ChatMessage,
    turns: Sequence[TurnFacts],
    with_text: bool,
    after_line: int | None,
    start: int,
) -> Entry:
    html, hidden = _html(message) if with_text else (None, 0)
    return Entry(
        message=message,
        html=html,
        hidden_characters=hidden,
        attachments=tuple(attachments.described(message.parts)) if with_text else (),
        calls=pretty(message.tool_calls) if with_text and message.tool_calls else "",
        turns=tuple(turns),
        is_first_after_forget_line=message.seq == after_line,
        is_window_start=message.seq == start,
    )


def _html(message: ChatMessage) -> tuple[str, int]:
    """The message as safe HTML, and how many characters of it are not shown here."""
    text = message.content or ""
    shown = text[:SHOWN_CHARACTERS]
    is_answer = message.role == ChatMessage.Role.ASSISTANT
    html = rendering.render(shown) if is_answer else rendering.render_plain(shown)
    return html, len(text) - len(shown)


# --- Turns ----------------------------------------------------------------------------------------


def _turns_below(
    chat_session: ChatSession, messages: Sequence[ChatMessage], reader: Any
) -> Mapping[uuid.UUID, list[TurnFacts]]:
    """By message: an answer's own turn; beneath a question, the turns that left no message."""
    inputs = [each.pk for each in messages if each.turn_id is None]
    own = [each.turn_id for each in messages if each.turn_id]
    asked = ChatTurn.objects.filter(pk__in=own).values("input")  # perhaps on the page before
    turns = list(
        chat_session.turns.filter(Q(input__in=inputs) | Q(input__in=asked)).order_by("number")
    )
    answered = set(
        ChatMessage.objects.filter(chat_session=chat_session, turn__in=turns)
        .order_by()
        .values_list("turn", flat=True)
        .distinct()
    )
    facts = _facts(turns, reader)
    below: dict[uuid.UUID, list[TurnFacts]] = defaultdict(list)
    for each in reversed(messages):
        if each.turn_id in facts:
            below[each.pk].append(facts.pop(each.turn_id))  # once, below its last message
    for turn in turns:
        if turn.pk not in answered and turn.input_id in inputs:
            below[turn.input_id].append(facts[turn.pk])
    return below


def _facts(turns: Sequence[ChatTurn], reader: Any) -> dict[uuid.UUID, TurnFacts]:
    sent, said = _requests(turns), beside.of_turns(turns, reader)
    with_text = may_read_content(reader)
    runs: dict[uuid.UUID, int] = defaultdict(int)
    for turn in turns:
        runs[turn.input_id] += 1
    return {
        turn.pk: TurnFacts(
            turn=turn,
            error_detail=turn.error_detail if with_text else "",
            sent=tuple(sent[turn.pk]),
            answers=runs[turn.input_id],
            beside=said[turn.pk],
        )
        for turn in turns
    }


def _requests(turns: Iterable[ChatTurn]) -> Mapping[uuid.UUID, list[Sent]]:
    by_turn: dict[uuid.UUID, list[Sent]] = defaultdict(list)
    records = ContextRecord.objects.filter(turn__in=turns).order_by("attempt")
    for record in records.only("turn", "attempt", "manifest", "token_count"):
        by_turn[record.turn_id].append(sent_figures(record))
    return by_turn


def sent_figures(record: ContextRecord) -> Sent:
    manifest: Mapping[str, Any] = record.manifest if isinstance(record.manifest, dict) else {}
    return Sent(
        record=record.pk,
        attempt=record.attempt,
        messages=len(manifest.get("parts", ())),
        tokens=record.token_count,
        budget=manifest.get("budget"),
    )


def _ms(start: datetime | None, end: datetime | None) -> int | None:
    return round((end - start).total_seconds() * 1000) if start and end else None
