"""The openai SDK: one shared client per event loop, address and key, and how a stream is opened."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient, DefaultAsyncHttpxClient

from chat.llm.addresses import own_headers

logger = logging.getLogger(__name__)

PATH: Final = "/chat/completions"
NO_KEY: Final = "no-key-needed"  # the SDK wants one; endpoints without keys ignore it

ClientKey = tuple[str, str, bool]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ClientKey, AsyncOpenAI]]
_clients = WeakKeyDictionary()


def client_for(base_url: str, key: str, *, own: bool) -> AsyncOpenAI:
    """The shared client of this event loop; `own`: this very server, never through a proxy."""
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    client = clients.get((base_url, key, own))
    if client is None:
        client = clients[base_url, key, own] = AsyncOpenAI(
            base_url=base_url,
            api_key=key or NO_KEY,
            max_retries=0,  # chat.llm.calls retries, inside its own deadline
            default_headers=own_headers() if own else None,
            http_client=http_client(trust_env=not own),
        )
    return client


def http_client(*, trust_env: bool) -> Any:
    """aiohttp's transport (half the cost of a chunk), or httpx's where aiohttp is missing.

    Redirects are not followed: they would carry a conversation to an address nobody configured.
    """
    options: dict[str, Any] = {"trust_env": trust_env, "follow_redirects": False}
    try:
        return DefaultAioHttpClient(**options)
    except RuntimeError as error:  # how the SDK says that aiohttp is not installed
        logger.info("model calls use httpx, not aiohttp: %s", error)
        return DefaultAsyncHttpxClient(**options)


async def aclose() -> None:
    """Close the clients of this event loop; the next call opens new ones."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.close()


def untyped_streaming() -> bool:
    """Whether this SDK still lets `post` stream plain data (measured: half the cost a chunk)."""
    parameters = inspect.signature(AsyncOpenAI.post).parameters
    return {"cast_to", "body", "options", "stream", "stream_cls"} <= set(parameters)


UNTYPED: bool = untyped_streaming()


async def open_stream(
    client: AsyncOpenAI, body: Mapping[str, object], connect: float
) -> AsyncStream[Any]:
    """Send a streamed request and return at the response's headers; `connect` in seconds."""
    if not UNTYPED:
        return await open_typed_stream(client, body, connect)
    return await client.post(
        PATH,
        cast_to=object,
        body=dict(body),
        options={"timeout": only_connecting(connect)},
        stream=True,
        stream_cls=AsyncStream[object],
    )


async def open_typed_stream(
    client: AsyncOpenAI, body: Mapping[str, object], connect: float
) -> AsyncStream[Any]:
    """The SDK's documented way; twice the cost a chunk."""
    rest = {name: value for name, value in body.items() if name not in ("model", "messages")}
    create: Any = client.chat.completions.create
    stream: AsyncStream[Any] = await create(
        model=body.get("model"),
        messages=body.get("messages"),
        stream=True,
        extra_body=rest,
        timeout=only_connecting(connect),
    )
    return stream


async def post_whole(client: AsyncOpenAI, body: Mapping[str, object], connect: float) -> object:
    """Send an unstreamed request and return the decoded body."""
    return await client.post(
        PATH,
        cast_to=object,
        body=dict(body),
        options={"timeout": only_connecting(connect)},
    )


def only_connecting(connect: float) -> openai.Timeout:
    """The transport times the connection alone; every other deadline is kept by chat.llm.calls."""
    return openai.Timeout(None, connect=connect, pool=connect)


async def close_stream(stream: AsyncStream[Any]) -> None:
    """Close the response, and the SDK's reader with it where it can be reached."""
    reader = getattr(stream, "_iterator", None)
    if isinstance(reader, AsyncGenerator):
        await reader.aclose()
    await stream.close()
