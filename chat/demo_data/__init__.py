"""Sample data: as many conversations as somebody wants to try the product with, quickly.

Everything in it belongs to people and tenants whose names begin with `people.PREFIX`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Model

from chat import dues
from chat.demo_data import contexts, conversations, people, reviews, writing
from chat.demo_data.conversations import Conversation
from chat.demo_data.orders import Order, numbered, session_id
from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    Feedback,
    FollowUp,
)
from chat.search import rebuilding

__all__ = ["Order", "Progress", "Refused", "has_real_sessions", "index", "run"]

BATCH_MESSAGES = 5_000  # that are in memory and in a transaction at once
SAY_SECONDS = 2.0


class Refused(Exception):
    """The order cannot be carried out, or not again."""


@dataclass(frozen=True)
class Progress:
    sessions: int
    messages: int
    seconds: float


def has_real_sessions() -> bool:
    """Whether somebody's own conversations are in this database."""
    return ChatSession.objects.exclude(user__username__startswith=people.PREFIX).exists()


def run(order: Order, say: Callable[[Progress], None] = lambda _: None) -> Progress:
    """Write it all; `Refused` when it cannot be done or this seed was written before."""
    if problem := order.problem():
        raise Refused(problem)
    if ChatSession.objects.filter(pk=session_id(order, 0)).exists():
        raise Refused(
            f"The seed {order.seed} was written to this database before; another --seed adds to it."
        )
    cast = people.gather(order)
    people.write_preferences(order, cast)
    done = _write_conversations(order, cast, say)
    _make_usage_due()
    writing.analyse((ChatSession, ChatMessage, ChatTurn, ContextRecord, ContextPart, Feedback))
    return done


def index(order: Order, say: Callable[[Progress], None] = lambda _: None) -> Progress:
    """Make the search entries of an order that was written: a session at a time, and slower."""
    started = said = time.monotonic()
    messages = sessions = 0
    for sessions in range(1, order.sessions + 1):
        messages += rebuilding.rebuild(session_id(order, sessions - 1)).messages
        if time.monotonic() - said >= SAY_SECONDS:
            said = time.monotonic()
            say(Progress(sessions, messages, said - started))
    return Progress(sessions, messages, time.monotonic() - started)


def _write_conversations(
    order: Order, cast: people.Cast, say: Callable[[Progress], None]
) -> Progress:
    started = said = time.monotonic()
    sessions = messages = 0
    sent = contexts.Contexts()
    for batch in _batches(order, cast):
        writing.write(_rows(batch, cast, sent))
        sessions += len(batch)
        messages += sum(len(each.messages) for each in batch)
        if time.monotonic() - said >= SAY_SECONDS:
            said = time.monotonic()
            say(Progress(sessions, messages, said - started))
    return Progress(sessions, messages, time.monotonic() - started)


def _batches(order: Order, cast: people.Cast) -> Iterator[list[Conversation]]:
    """A few conversations at a time, so that memory does not grow with the order."""
    batch: list[Conversation] = []
    size = 0
    for number, length in numbered(order):
        batch.append(conversations.hold(order, cast, number, length))
        size += length
        if size >= BATCH_MESSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _rows(batch: Iterable[Conversation], cast: people.Cast, sent: contexts.Contexts) -> list[Model]:
    """All rows, those of one table together, what is named before what names it."""
    made = list(batch)
    votes: list[Model] = []
    for each in made:
        reviews.decide(each, cast)
        rated = list(reviews.feedback(each))
        reviews.tally(each, rated)
        votes += rated
    rows: list[Model] = [each.session for each in made]
    rows += [row for each in made for row in each.messages]
    rows += [row for each in made for row in each.turns]
    rest = [row for each in made for row in sent.of(each)]
    rest += votes
    rest += [row for each in made for row in reviews.reviews(each, cast)]
    return rows + sorted(rest, key=lambda row: type(row).__name__)


def _make_usage_due() -> None:
    """The dashboard's days are made again from the rows, by whatever does what is due."""
    started = ChatTurn.objects.filter(endpoint_name__startswith=people.PREFIX)
    for day in started.order_by().dates("started_at", "day"):
        dues.mark(FollowUp.Kind.USAGE, day.isoformat())
