"""One model call: open with retries, read under deadlines, close the upstream whatever happens."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import openai
from openai import AsyncOpenAI, AsyncStream

from chat.llm import clients
from chat.llm.addresses import own_base_url, refuse_private
from chat.llm.chunks import AnswerParser, as_one_chunk, parse_completion
from chat.llm.errors import LLMError, UsageRefused, bad_response, timed_out
from chat.llm.translation import translate
from chat.llm.values import Chunk, Completion, EndpointSpec

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_BACKOFF: float = 0.5  # seconds; doubles with every attempt
LONGEST_BACKOFF: float = 8.0
USAGE_WAIT: float = 2.0  # seconds that a whole answer waits for its usage report
END: Final = object()

_without_usage: set[str] = set()  # addresses that refuse `stream_options`


@dataclass(frozen=True)
class Call:
    """One call: where it goes, with which key, and until when (event-loop time)."""

    spec: EndpointSpec
    base_url: str
    key: str
    deadline: float

    @property
    def host(self) -> str:
        """The endpoint's address for error texts: without path and without credentials."""
        parts = urlsplit(self.base_url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    def client(self) -> AsyncOpenAI:
        return clients.client_for(self.base_url, self.key, own=not self.spec.base_url)

    def problem(self, error: Exception, waited: str, *, opening: bool) -> LLMError | None:
        """Our error for one that the SDK or a deadline raised; None: it is nobody's but ours."""
        if isinstance(error, TimeoutError):
            if asyncio.get_running_loop().time() >= self.deadline:
                waited = f"did not finish within {self.spec.timeout:g} s"
            return timed_out(f"{self.host} {waited}.")
        return translate(
            error,
            host=self.host,
            key_name=self.spec.api_key_env,
            key=self.key,
            opening=opening,
        )


async def stream(spec: EndpointSpec, request: Mapping[str, object]) -> AsyncGenerator[Chunk, None]:
    """The answer to `request` piece by piece; `Usage` (if reported) and `Finished` come last.

    Raises LLMError; every answer that does not reach `Finished` raises. Connection errors, 429
    and 5xx are retried before the first piece only. Closing the generator or cancelling the task
    that reads it closes the connection to the endpoint.
    """
    call = prepare(spec)
    source, parser, first = await attempts(call, lambda: begin(call, request))
    try:
        for chunk in first:
            yield chunk
        while (raw := await next_raw(call, source, parser)) is not END:
            for chunk in parser.feed(raw):
                yield chunk
        for chunk in parser.end():
            yield chunk
    finally:
        await clients.close_stream(source)


async def complete(spec: EndpointSpec, request: Mapping[str, object]) -> Completion:
    """The whole answer to `request`, not streamed; the same errors, retries and deadline."""
    call = prepare(spec)
    body = {
        name: value for name, value in request.items() if name not in ("stream", "stream_options")
    }

    async def attempt() -> Completion:
        raw = await send(call, clients.post_whole, body, call.deadline)
        return parse_completion(raw, call.host, call.key)

    return await attempts(call, attempt)


def prepare(spec: EndpointSpec) -> Call:
    """Resolve the address and the key; a key that should be there and is not is an error."""
    deadline = asyncio.get_running_loop().time() + spec.timeout
    if not spec.base_url:
        return Call(spec, own_base_url(), "", deadline)
    key = os.environ.get(spec.api_key_env, "") if spec.api_key_env else ""
    if spec.api_key_env and not key:
        raise LLMError(
            "missing_key",
            f"The environment variable {spec.api_key_env} is not set; endpoint {spec.name!r}"
            " takes its API key from it.",
        )
    return Call(spec, spec.base_url, key, deadline)


async def attempts(call: Call, attempt: Callable[[], Awaitable[T]]) -> T:
    """Try until it works, the retries are used up, or the next wait would pass the deadline."""
    loop = asyncio.get_running_loop()
    for number in count(1):
        try:
            return await attempt()
        except LLMError as error:
            wait = backoff(number) if error.retry_after is None else error.retry_after
            out_of_time = loop.time() + wait >= call.deadline
            if not error.transient or number > call.spec.max_retries or out_of_time:
                raise
            logger.warning(
                "endpoint %s: %s at attempt %d, again in %.1f s",
                call.spec.name,
                error.code,
                number,
                wait,
            )
        await asyncio.sleep(wait)
    raise AssertionError("count() does not end")


def backoff(number: int) -> float:
    """Seconds after failed attempt `number`: doubling, up to a quarter less by chance."""
    longest = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (number - 1))
    return longest * random.uniform(0.75, 1.0)


async def send(
    call: Call,
    post: Callable[[AsyncOpenAI, Mapping[str, object], float], Awaitable[T]],
    body: Mapping[str, object],
    until: float,
) -> T:
    """Send one request and wait for its response until `until` (event-loop time)."""
    try:
        async with asyncio.timeout_at(until):
            if call.spec.base_url:
                await refuse_private(call.spec.base_url)
            return await post(call.client(), body, call.spec.connect_timeout)
    except Exception as error:
        waited = f"gave no first token within {call.spec.first_token_timeout:g} s"
        if problem := call.problem(error, waited, opening=True):
            raise problem from None
        raise


async def begin(
    call: Call, request: Mapping[str, object]
) -> tuple[AsyncStream[Any], AnswerParser, list[Chunk]]:
    """One attempt: open the stream and read it up to the first thing that the model made."""
    loop = asyncio.get_running_loop()
    until = min(call.deadline, loop.time() + call.spec.first_token_timeout)
    source = await open_with_usage(call, request, until)
    try:
        parser, first = await read_first(call, source, until)
    except BaseException:
        await clients.close_stream(source)
        raise
    return source, parser, first


async def open_with_usage(
    call: Call, request: Mapping[str, object], until: float
) -> AsyncStream[Any]:
    """Ask for usage; an endpoint that refuses the option is asked without it from then on."""
    body = {**request, "stream": True, "stream_options": {"include_usage": True}}
    if call.base_url not in _without_usage:
        try:
            return await send(call, clients.open_stream, body, until)
        except UsageRefused:
            logger.info("endpoint %s reports no usage for streams", call.spec.name)
            _without_usage.add(call.base_url)
    del body["stream_options"]
    return await send(call, clients.open_stream, body, until)


async def read_first(
    call: Call, source: AsyncStream[Any], until: float
) -> tuple[AnswerParser, list[Chunk]]:
    """Read up to the first thing that the model made, or to an end that says there is none."""
    parser = AnswerParser(call.host, call.key)
    kind = source.response.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "application/json":  # an error, or a server that does not know `stream`
        return parser, parser.feed(as_one_chunk(await read(call, read_json(source), until)))
    first: list[Chunk] = []
    while not (parser.begun or parser.finish_reason):
        raw = await read(call, next_or_end(source), until)
        if raw is END:
            raise bad_response(f"{call.host} sent no answer (content type {kind or 'not given'}).")
        first += parser.feed(raw)
    return parser, first


async def read(call: Call, work: Awaitable[T], until: float) -> T:
    """Wait for a part of the response before the first token."""
    try:
        async with asyncio.timeout_at(until):
            return await work
    except Exception as error:
        waited = f"gave no first token within {call.spec.first_token_timeout:g} s"
        if problem := call.problem(error, waited, opening=False):
            raise problem from None
        raise


async def read_json(source: AsyncStream[Any]) -> Any:
    """The body of a response that is JSON where a stream was asked for."""
    await source.response.aread()
    return source.response.json()


async def next_or_end(source: AsyncStream[Any]) -> object:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        return END


async def next_raw(call: Call, source: AsyncStream[Any], parser: AnswerParser) -> object:
    """The next chunk, or END. Once the answer is whole, only its usage is still waited for."""
    whole = parser.finish_reason is not None
    gap = min(call.spec.gap_timeout, USAGE_WAIT) if whole else call.spec.gap_timeout
    until = min(call.deadline, asyncio.get_running_loop().time() + gap)
    try:
        async with asyncio.timeout_at(until):
            return await source.__anext__()
    except StopAsyncIteration:
        return END
    except Exception as error:
        if whole and isinstance(error, TimeoutError | openai.APIConnectionError):
            logger.info("endpoint %s: no usage after the answer", call.spec.name)
            return END
        problem = call.problem(error, f"was silent for {gap:g} s", opening=False)
        if problem:
            raise problem from None
        raise
