"""What a turn is asked to do, and what came of asking."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from chat.llm import EndpointSpec
from chat.turns.tools import Caller, Tool

Kind = Literal["send", "edit", "retry", "regenerate", "continue"]
ANY_PARENT = "any"  # the sender does not say which message it answers to


@dataclass(frozen=True)
class Order:
    """One wish for a turn.

    `send` has a text, attachments and its parent, `edit` a text and the message that it replaces,
    `retry`, `regenerate` and `continue` name an earlier turn.
    """

    kind: Kind
    session_id: uuid.UUID
    client_id: uuid.UUID
    text: str = ""
    parent: str | None = ANY_PARENT
    turn: uuid.UUID | None = None
    message: uuid.UUID | None = None
    attachments: tuple[uuid.UUID, ...] = ()


class Refused(Exception):
    """Nothing was stored; `code` is stable, `detail` says what to do, `more` has the numbers."""

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.more = more


@dataclass(frozen=True)
class Repeated:
    """The `client_id` is known: this turn was begun for it."""

    turn_id: uuid.UUID


@dataclass(frozen=True)
class Spent:
    """Reported tokens; None where nothing was reported."""

    input: int | None = None
    cached_input: int | None = None
    output: int | None = None

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            _sum(self.input, other.input),
            _sum(self.cached_input, other.cached_input),
            _sum(self.output, other.output),
        )

    @property
    def total(self) -> int:
        return (self.input or 0) + (self.output or 0)


NOTHING_SPENT = Spent()


def _sum(first: int | None, second: int | None) -> int | None:
    return (first or 0) + (second or 0) if first is not None or second is not None else None


@dataclass(frozen=True)
class Begun:
    """A turn whose input and request are committed: everything that running it needs."""

    turn_id: uuid.UUID
    day: date  # on which the turn began, in UTC
    session_id: uuid.UUID
    record_id: uuid.UUID
    spec: EndpointSpec
    request: dict[str, Any]
    attempt: int  # number of the request in its turn
    tokens: int  # our count of the request
    is_temporary: bool  # its text is kept out of the tables
    memory: Any  # requests.TurnMemory: handed back to memory when the turn ends
    caller: Caller
    tools: tuple[Tool, ...] = ()
    rounds: int = 0  # requests before this one that asked for tools
    was_shrunk: bool = False  # the endpoint refused a longer request of this turn
    spent: Spent = NOTHING_SPENT
    frames: tuple[dict[str, Any], ...] = field(default=())
    output_schema: Mapping[str, Any] | None = None  # that the answer must follow


@dataclass(frozen=True)
class Outcome:
    """How the model's part of a turn ended."""

    status: str
    text: str
    finish_reason: str = ""
    error_code: str = ""
    error_detail: str = ""
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    first_token_at: datetime | None = None
    stop_seen: int | None = None
    context_limit: int | None = None  # tokens that the endpoint says it takes

    @property
    def spent(self) -> Spent:
        """By this request alone."""
        return Spent(self.input_tokens, self.cached_input_tokens, self.output_tokens)

    @property
    def was_too_long(self) -> bool:
        """The endpoint refused the request for its length, before any text."""
        return self.error_code == "context_length" and not self.text
