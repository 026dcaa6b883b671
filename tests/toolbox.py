"""Tools for tests, and a session whose model may use them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from chat.models import ChatSession
from chat.turns.tools import Caller, Result, Source, Tool, ToolFailed
from tests import builders
from tests.fakes import DONE, FakeEndpoint, Reply, Say, chunk
from tests.orders import session_at

NAMES = ("echo", "refuse", "break", "sleep", "long", "quote")


async def echo(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    return Result(arguments["text"], frames=({"type": "told.by.a.tool", "text": "hello"},))


async def refuse(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    raise ToolFailed("Not today.")


async def broken(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    raise RuntimeError("a secret of the server")


async def sleep(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    await asyncio.sleep(60)
    return Result("late")


async def long(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    return Result("x" * arguments["characters"])


async def quote(caller: Caller, arguments: Mapping[str, Any]) -> Result:
    return Result("a quotation", sources=(Source(caller.session_id, caller.input_seq),))


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


ECHO = Tool("echo", "Says the same.", _object(text={"type": "string"}), echo)
REFUSE = Tool("refuse", "Refuses.", _object(), refuse)
BREAK = Tool("break", "Breaks.", _object(), broken)
SLEEP = Tool("sleep", "Sleeps.", _object(), sleep)
LONG = Tool("long", "Says much.", _object(characters={"type": "integer"}), long)
QUOTE = Tool("quote", "Quotes.", _object(), quote, uses_memory=True)

PATHS = [f"tests.toolbox.{name.upper()}" for name in NAMES]


def session_with_tools(fake_endpoint: FakeEndpoint, **fields: Any) -> ChatSession:
    """A session whose assistant may use all of them; CHAT_TOOLS must name `PATHS`."""
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake", supports_tools=True)
    assistant = builders.assistant(
        endpoint=endpoint, tools=list(NAMES), system_prompt=fields.pop("prompt", "")
    )
    return session_at(fake_endpoint, assistant=assistant, **fields)


def asks(*calls: tuple[str, str, str], text: str = "") -> Reply:
    """An answer that asks for tools: (id, name, arguments) each, after a text if there is one."""
    pieces = [
        {"index": number, "id": id_, "function": {"name": name, "arguments": arguments}}
        for number, (id_, name, arguments) in enumerate(calls)
    ]
    said = [Say(text)] if text else []
    return Reply([*said, chunk({"tool_calls": pieces}), chunk({}, reason="tool_calls"), DONE])
