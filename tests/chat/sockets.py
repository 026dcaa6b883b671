"""Websockets of signed-in people, for tests of the consumer."""

from __future__ import annotations

import json
from typing import Any

from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.test import Client

from chat.models import ChatSession
from chatproject.asgi import application
from tests.chat.api import BACKEND

ORIGIN = "http://testserver"
ENDS = {"turn.completed", "turn.stopped", "turn.failed", "turn.interrupted"}


class Socket(ApplicationCommunicator):
    """A websocket of a signed-in person, with the frames that have come so far."""

    def __init__(
        self, person: Any, session_id: Any, *, origin: str = ORIGIN, host: str = "testserver"
    ) -> None:
        headers = [(b"host", host.encode()), (b"origin", origin.encode())]
        if person is not None:
            client = Client()
            client.force_login(person, backend=BACKEND)
            headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
        path = f"/ws/chat/{session_id}/"
        scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers}
        super().__init__(application, scope)
        self.frames: list[dict[str, Any]] = []

    async def open(self) -> dict[str, Any]:
        """Connect and take the first frame."""
        await self.send_input({"type": "websocket.connect"})
        assert (await self.receive_output(5))["type"] == "websocket.accept"
        return await self.next()

    async def refused(self) -> int:
        """Connect and take the code that the socket is closed with."""
        await self.send_input({"type": "websocket.connect"})
        accepted = await self.receive_output(5)
        assert accepted["type"] == "websocket.accept"  # only then a browser sees the code
        return await self.closed()

    async def closed(self) -> int:
        while (output := await self.receive_output(5))["type"] != "websocket.close":
            pass
        await self.disconnect()
        return int(output["code"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def say(self, type_: str, **fields: Any) -> None:
        await self.send_text(json.dumps({"type": type_, **fields}))

    async def next(self) -> dict[str, Any]:
        text = (await self.receive_output(5))["text"]
        self.frames.append(json.loads(text.encode()))  # what cannot be UTF-8 cannot be sent
        return self.frames[-1]

    async def until(self, *types: str) -> dict[str, Any]:
        while (await self.next())["type"] not in types:
            pass
        return self.frames[-1]

    def text(self) -> str:
        """What a page that follows the offsets shows; fails on a gap."""
        shown = ""
        for frame in self.frames:
            if frame["type"] == "turn.snapshot":
                shown = frame["text"]
            elif frame["type"] == "turn.delta":
                assert frame["offset"] == len(shown)
                shown += frame["text"]
        return shown


async def socket(person: Any, chat_session: ChatSession) -> Socket:
    made = await sync_to_async(Socket)(person, chat_session.pk)
    await made.open()
    return made
