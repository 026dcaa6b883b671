"""A network between browser and server that a test can cut: a TCP relay at a port of its own.

Chromium's own "offline" leaves open websockets alone; a cut here ends every connection and refuses
new ones until it is mended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from tests.browser.chat import Chat
from tests.embedded import free_port

ANSWER_SECONDS = 10


class Wire:
    """Relays `url` to a server; `cut` and `mend` may be called from any thread."""

    def __init__(self, server_port: int, piece: int) -> None:
        self._piece = piece
        self._server_port = server_port
        self._port = free_port()
        self._relays: set[asyncio.Task[Any]] = set()
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def mend(self) -> None:
        self._do(self._listen())

    def cut(self) -> None:
        self._do(self._cut())

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_SECONDS)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._relay, "127.0.0.1", self._port)

    async def _cut(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        self._relays.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        try:
            await asyncio.gather(
                _copy(reader, there_writer, self._piece), _copy(there_reader, writer, self._piece)
            )
        finally:
            for end in (writer, there_writer):
                end.transport.abort()
            self._relays.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at_most: int) -> None:
    """Pass on until one side has gone; then the other is let go as well."""
    try:
        while piece := await reader.read(at_most):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        writer.transport.abort()
    else:
        writer.close()


@contextmanager
def wire_to(server_port: int, piece: int = 65_536) -> Iterator[Wire]:
    """A whole wire to the server, which carries up to `piece` bytes at a time."""
    made = Wire(server_port, piece)
    made.mend()
    try:
        yield made
    finally:
        made.close()


def mend_and_try_now(chat: Chat, wire: Wire) -> None:
    """Press "Try now" on a mended wire; the page may come first, which takes the button away."""
    button = chat.banner.get_by_role("button", name="Try now").element_handle()
    wire.mend()
    button.evaluate("(each) => each.click()")
