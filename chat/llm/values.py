"""What goes into a model call and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from memory.messages import ToolCall


@dataclass(frozen=True)
class EndpointSpec:
    """An endpoint as one call needs it. All times in seconds; an empty `base_url` is this server.

    `timeout` bounds the whole call with its retries, `first_token_timeout` one attempt up to the
    first piece of an answer, `gap_timeout` the silence between two pieces.
    """

    name: str
    base_url: str
    model: str
    api_key_env: str = ""
    context_window: int = 32768
    max_output_tokens: int = 4096
    timeout: float = 300.0
    max_retries: int = 2
    connect_timeout: float = 10.0
    first_token_timeout: float = 60.0
    gap_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text: never empty, no NUL and no lone surrogate in it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a requested tool call; pieces with the same index belong together."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint reports them; `cached_input` is a part of `input`."""

    input: int
    cached_input: int
    output: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a whole answer: `stop`, `length`, `tool_calls` or `content_filter`."""

    reason: str


Chunk: TypeAlias = TextDelta | ToolCallDelta | Usage | Finished


@dataclass(frozen=True)
class Completion:
    """A whole answer; `usage` is None when the endpoint reported none."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage | None
    finish_reason: str
