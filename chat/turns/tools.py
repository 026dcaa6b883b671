"""The tools that a model may call in a turn: what each is, and how one call is carried out.

A tool is an async function with a JSON Schema of its arguments. Every call gets exactly one
result: an unknown name, bad arguments, an exception and a timeout are results too, marked as
errors, so that no call is ever left open.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from chat.models import ChatSession
from memory.messages import ToolCall
from memory.text import clean

logger = logging.getLogger(__name__)

CALLS_AT_ONCE = 16  # of one request; further ones are answered with an error
CUT_MARK = "\n[… {left:,} more characters were left out]"
SHOWN_IN_ERRORS = 200  # characters


@dataclass(frozen=True)
class Caller:
    """On whose behalf a tool runs, and in which turn."""

    session_id: uuid.UUID
    tenant_id: int
    user_id: int
    assistant: str
    """Its slug."""
    input_seq: int
    input_text: str


@dataclass(frozen=True)
class Source:
    """A message of a session whose words a result holds."""

    session_id: uuid.UUID
    seq: int


@dataclass(frozen=True)
class Result:
    """What a call came to; `frames` are told to everyone who watches the session."""

    text: str
    is_error: bool = False
    sources: tuple[Source, ...] = ()
    frames: tuple[dict[str, Any], ...] = ()


class ToolFailed(Exception):
    """A tool cannot do what it was asked; the text tells the model why."""


@dataclass(frozen=True)
class Tool:
    """`run` gets the caller and the arguments, which follow `parameters`.

    One that `uses_memory` is not offered where memory is off.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Caller, Mapping[str, Any]], Awaitable[Result]] = field(compare=False)
    uses_memory: bool = False

    @property
    def definition(self) -> dict[str, Any]:
        """As requests name it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


def registered() -> dict[str, Tool]:
    """Every tool that CHAT_TOOLS names, by the name that models call it by."""
    tools = [import_string(path) for path in settings.CHAT_TOOLS]
    return {tool.name: tool for tool in tools}


def offered(chat_session: ChatSession, *, memory_enabled: bool) -> tuple[Tool, ...]:
    """The tools of the session's assistant, where its endpoint takes any.

    None in a temporary session: what they are called with would stay in the tables.
    """
    assistant = chat_session.assistant
    endpoint = assistant.endpoint
    if not endpoint.supports_tools or endpoint.strict_roles or chat_session.is_temporary:
        return ()
    known = registered()
    unknown = [name for name in assistant.tools if name not in known]
    if unknown:
        logger.warning(
            "Assistant %s names tools that CHAT_TOOLS does not have: %s",
            assistant.slug,
            ", ".join(map(str, unknown)),
        )
    named = [known[name] for name in assistant.tools if name in known]
    return tuple(tool for tool in named if memory_enabled or not tool.uses_memory)


# --- One call -------------------------------------------------------------------------------------


async def call(tools: Sequence[Tool], asked: ToolCall, caller: Caller) -> Result:
    """Carry out one call; whatever goes wrong is its result."""
    tool = next((each for each in tools if each.name == asked.name), None)
    if tool is None:
        names = ", ".join(each.name for each in tools) or "none"
        return failure(f"There is no tool {asked.name[:SHOWN_IN_ERRORS]!r}; there are: {names}.")
    try:
        arguments = parse(tool, asked.arguments)
        async with asyncio.timeout(settings.CHAT_TOOL_SECONDS):
            return shortened(await tool.run(caller, arguments))
    except ToolFailed as failed:
        return failure(str(failed))
    except TimeoutError:
        return failure(f"{tool.name} did not finish within {settings.CHAT_TOOL_SECONDS} s.")
    except Exception:
        logger.exception("Tool %s failed in session %s.", tool.name, caller.session_id)
        return failure(f"{tool.name} failed; the server's log says why.")


def failure(text: str) -> Result:
    return Result(f"Error: {clean(text)}", is_error=True)


def parse(tool: Tool, text: str) -> dict[str, Any]:
    """The arguments of a call; `ToolFailed` when they are not what the tool takes."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as wrong:
        raise ToolFailed(f"The arguments of {tool.name} are not JSON: {wrong}.") from None
    if not isinstance(arguments, dict):
        raise ToolFailed(f"The arguments of {tool.name} must be a JSON object.")
    error = best_match(Draft202012Validator(tool.parameters).iter_errors(arguments))
    if error is not None:
        where = "/".join(str(each) for each in error.absolute_path) or "the arguments"
        said = error.message[:SHOWN_IN_ERRORS]
        raise ToolFailed(f"The arguments of {tool.name} do not fit, at {where}: {said}.")
    return arguments


def shortened(result: Result) -> Result:
    """`result` with a text that can be stored, of at most CHAT_TOOL_RESULT_CHARS."""
    text, limit = clean(result.text), settings.CHAT_TOOL_RESULT_CHARS
    if len(text) > limit:
        text = text[:limit] + CUT_MARK.format(left=len(text) - limit)
    return Result(text, result.is_error, result.sources, result.frames)
