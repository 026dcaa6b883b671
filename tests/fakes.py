"""A fake model endpoint: a real HTTP server on this machine that does what its script says.

    def test_something(fake_endpoint):
        fake_endpoint.replies(failure(500), answer("Hel", "lo"))
        ... llm.stream(fake_endpoint.spec(), {...}) ...
        assert fake_endpoint.requests[-1].body["messages"] == [...]

It runs in a thread with an event loop of its own, so that synchronous and asynchronous tests and
server processes can all call it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import pytest

from chat.llm import EndpointSpec
from memory.messages import Message
from memory.tokens import REQUEST_OVERHEAD, counter_for

# --- What a reply is made of --------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """One chunk with a piece of the answer."""

    text: str


@dataclass(frozen=True)
class Event:
    """One server-sent event with any JSON value (a chunk of one's own, an error object, ...)."""

    value: Any


@dataclass(frozen=True)
class Raw:
    """Bytes of the event stream as they are, well-formed or not."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Wait:
    """Nothing more until the test sets the event."""

    gate: threading.Event


@dataclass(frozen=True)
class Abort:
    """The connection is dropped."""


Step: TypeAlias = Say | Event | Raw | Pause | Wait | Abort


@dataclass(frozen=True)
class Reply:
    """A response: its steps when it is an event stream, else `body` as JSON (or as it is, bytes).

    `split` cuts the stream into HTTP chunks of so many bytes, in the middle of characters too.
    """

    steps: Iterable[Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    body: Any = None
    split: int = 0


def answer(
    *pieces: str,
    delay: float = 0.0,
    reason: str | None = "stop",
    usage: tuple[int, int, int] | None = (10, 0, 5),
    split: int = 0,
) -> Reply:
    """A whole answer; `usage` is (input, cached input, output), `delay` seconds before a piece."""
    steps: list[Step] = [chunk({"role": "assistant", "content": ""})]
    for piece in pieces:
        steps += [Pause(delay), Say(piece)] if delay else [Say(piece)]
    steps.append(chunk({}, reason=reason))
    if usage is not None:
        steps.append(Event({**ENVELOPE, "choices": [], "usage": usage_report(*usage)}))
    return Reply([*steps, DONE], split=split)


def endless(piece: str = "more ", delay: float = 0.01) -> Reply:
    """An answer that goes on until the client leaves."""

    def steps() -> Iterator[Step]:
        while True:
            yield Say(piece)
            yield Pause(delay)

    return Reply(steps())


def breaks_off(*pieces: str) -> Reply:
    """An answer whose connection drops after these pieces."""
    return Reply([*(Say(piece) for piece in pieces), Pause(0.02), Abort()])


def failure(
    status: int,
    message: str = "It did not work.",
    *,
    code: str | None = None,
    kind: str = "server_error",
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Reply:
    """An error in OpenAI's form."""
    error = {"message": message, "type": kind, "param": None, "code": code, **more}
    return Reply(status=status, headers=headers or {}, body={"error": error})


def tool_call(name: str, arguments: Mapping[str, Any], id: str = "call_1") -> Reply:  # noqa: A002
    """An answer that asks for one tool, its arguments in two pieces."""
    text = json.dumps(arguments, ensure_ascii=False)
    half = len(text) // 2
    first = {"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    return Reply(
        [
            chunk({"tool_calls": [first]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[:half]}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[half:]}}]}),
            chunk({}, reason="tool_calls"),
            DONE,
        ]
    )


def chunk(delta: Mapping[str, Any], reason: str | None = None, index: int = 0) -> Event:
    """An event with one choice."""
    choice = {"index": index, "delta": dict(delta), "finish_reason": reason}
    return Event({**ENVELOPE, "choices": [choice]})


def usage_report(given: int, cached: int, made: int) -> dict[str, Any]:
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


ENVELOPE = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
DONE = Raw(b"data: [DONE]\n\n")


# --- What was received --------------------------------------------------------------------------


@dataclass
class Received:
    """One request, and what became of its response.

    `generated` counts the pieces (`Say`) that were made. `outcome` is "" while the response runs,
    then completed, aborted (by the script) or disconnected (by the client) at `ended_at`
    (time.monotonic).
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    generated: int = 0
    outcome: str = ""
    ended_at: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def end(self, outcome: str) -> None:
        self.outcome, self.ended_at = outcome, time.monotonic()
        self._ended.set()

    def wait_ended(self, seconds: float = 5.0) -> str:
        """Block until the response has ended; its outcome. Not for the client's own event loop."""
        assert self._ended.wait(seconds), f"the response still runs after {seconds} s"
        return self.outcome

    async def ended(self, seconds: float = 5.0) -> str:
        return await asyncio.to_thread(self.wait_ended, seconds)


def count_request(body: Mapping[str, Any]) -> int:
    """Tokens of a request's messages as o200k_base counts them, and what it reserves to answer."""
    count = counter_for("o200k_base")
    given = sum(
        count(Message(role=each["role"], content=str(each.get("content") or "")))
        for each in body.get("messages", [])
    )
    reserved = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    return given + REQUEST_OVERHEAD + int(reserved)


# --- The server ---------------------------------------------------------------------------------


class FakeEndpoint:
    """An OpenAI-compatible endpoint under `base_url`; use it as a context manager or fixture."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.default: Callable[[dict[str, Any]], Reply] = lambda body: answer("Hello ", "there.")
        self.reject_above: int | None = None  # tokens, as `count_request` counts them
        self._script: deque[Reply] = deque()
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fake-endpoint", daemon=True)
        self._started = threading.Event()
        self.port = 0

    def replies(self, *replies: Reply) -> None:
        """What to answer next, one reply a request; after them `default` is asked again."""
        self._script.extend(replies)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def spec(self, **fields: Any) -> EndpointSpec:
        """This endpoint as chat.llm takes it; short deadlines, so that a failing test fails."""
        values = {"name": "fake", "base_url": self.base_url, "model": "fake", "timeout": 20.0}
        return EndpointSpec(**{**values, **fields})

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(5), "the fake endpoint did not start"
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = Connection(reader, writer, self._connections)
        with suppress(ConnectionError, asyncio.CancelledError):  # cancelled when the test is over
            while received := await connection.next_request():
                self.requests.append(received)
                if not await connection.respond(received, self._reply_to(received)):
                    break
        writer.close()

    def _reply_to(self, received: Received) -> Reply:
        if not received.path.endswith("/v1/chat/completions"):
            return failure(404, f"There is nothing at {received.path}.", kind="not_found")
        size = count_request(received.body) if self.reject_above else 0
        if self.reject_above and size > self.reject_above:
            return failure(
                400,
                f"This model's maximum context length is {self.reject_above} tokens."
                f" However, your messages resulted in {size} tokens.",
                code="context_length_exceeded",
                kind="invalid_request_error",
            )
        return self._script.popleft() if self._script else self.default(received.body)


class Connection:
    """One client connection: requests come in, responses go out, a lost client is noticed."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.reader, self.writer, self.number = reader, writer, number
        self._first = b""  # read while watching for the client to leave

    async def next_request(self) -> Received | None:
        """The next request, or None when the client has closed the connection."""
        try:
            head = self._first + await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        self._first = b""
        request_line, *lines = head.decode("latin-1").strip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        path = request_line.split(" ")[1]
        return Received(path, headers, json.loads(body) if body else {}, self.number)

    async def respond(self, received: Received, reply: Reply) -> bool:
        """Play the reply; False when the connection is over."""
        playing = asyncio.ensure_future(self._play(received, reply))
        watching = asyncio.ensure_future(self.reader.read(1))
        await asyncio.wait({playing, watching}, return_when=asyncio.FIRST_COMPLETED)
        left = watching.done() and (watching.exception() or not watching.result())
        if not playing.done() and not left:
            await asyncio.wait({playing})  # an impatient client: its next request begins to come
        for task in (playing, watching):
            task.cancel()
        outcomes = await asyncio.gather(playing, watching, return_exceptions=True)
        if isinstance(outcomes[1], bytes):
            self._first = outcomes[1]
        if isinstance(outcomes[0], ConnectionError | asyncio.CancelledError):
            received.end("disconnected")
            return False
        if isinstance(outcomes[0], BaseException):
            raise outcomes[0]
        received.end("completed" if outcomes[0] else "aborted")
        return outcomes[0]

    async def _play(self, received: Received, reply: Reply) -> bool:
        """Write the response; False when the script drops the connection."""
        if reply.body is not None or not received.body.get("stream"):
            return await self._play_whole(received, reply)
        self._write_head(reply, {"transfer-encoding": "chunked"})
        for step in reply.steps:
            if isinstance(step, Abort):
                self.writer.transport.abort()
                return False
            if isinstance(step, Pause | Wait):
                await pass_time(step)
            else:
                received.generated += isinstance(step, Say)
                await self._write_event(event_bytes(step), reply.split)
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        return True

    async def _play_whole(self, received: Received, reply: Reply) -> bool:
        """An unstreamed response: the script is waited through, then answered in one piece."""
        steps = []
        for step in reply.steps:
            if isinstance(step, Abort):
                self.writer.transport.abort()
                return False
            await pass_time(step)
            received.generated += isinstance(step, Say)
            steps.append(step)
        body = whole_answer(steps) if reply.body is None else reply.body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = Reply(status=reply.status, headers=reply.headers, content_type="application/json")
        self._write_head(head, {"content-length": str(len(data))})
        self.writer.write(data)
        await self.writer.drain()
        return True

    def _write_head(self, reply: Reply, more: Mapping[str, str]) -> None:
        headers = {"content-type": reply.content_type, **more, **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} Fake", *(f"{k}: {v}" for k, v in headers.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def _write_event(self, data: bytes, split: int) -> None:
        for start in range(0, len(data), split or len(data)):
            part = data[start : start + (split or len(data))]
            self.writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await self.writer.drain()
            if split:
                await asyncio.sleep(0.0005)  # so that the parts do not travel together


async def pass_time(step: Step) -> None:
    """Wait as long as a step says; other steps take no time."""
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
    while isinstance(step, Wait) and not step.gate.is_set():
        await asyncio.sleep(0.005)


def event_bytes(step: Say | Event | Raw) -> bytes:
    if isinstance(step, Raw):
        return step.data
    event = chunk({"content": step.text}) if isinstance(step, Say) else step
    return f"data: {json.dumps(event.value, ensure_ascii=False)}\n\n".encode()


def whole_answer(steps: Sequence[Step]) -> dict[str, Any]:
    """The pieces of a script as one unstreamed completion."""
    pieces = [step.text for step in steps if isinstance(step, Say)]
    chunks = [step.value for step in steps if isinstance(step, Event)]
    choices = [choice for each in chunks for choice in each.get("choices", [])]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(pieces)}
    if calls:
        arguments = "".join(call["function"]["arguments"] for call in calls)
        function = {"name": calls[0]["function"]["name"], "arguments": arguments}
        call = {"id": calls[0]["id"], "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    return {
        **ENVELOPE,
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": message, "finish_reason": reasons[-1] if reasons else None}
        ],
        "usage": next((each["usage"] for each in chunks if "usage" in each), None),
    }


@pytest.fixture
def fake_endpoint() -> Iterator[FakeEndpoint]:
    """A fake endpoint for one test."""
    with FakeEndpoint() as endpoint:
        yield endpoint
