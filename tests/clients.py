"""A person with an HTTP client and websockets, against a real server process."""

from __future__ import annotations

import asyncio
import json
import uuid
from http.cookiejar import CookieJar
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

from websockets.asyncio.client import ClientConnection, connect

from tests.environment import DEMO_PASSWORD

Frame = dict[str, Any]
ENDS = {"turn.completed", "turn.stopped", "turn.failed", "turn.interrupted"}


class Person:
    """Somebody who signed in at `base_url`; the same cookies are good at other servers."""

    def __init__(self, base_url: str, name: str, password: str = DEMO_PASSWORD) -> None:
        self.base_url = base_url
        self.cookies = CookieJar()
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor(self.cookies))
        self._opener.open(f"{base_url}/accounts/login/").read()
        form = {"username": name, "password": password, "csrfmiddlewaretoken": self.cookie("csrf")}
        request = Request(
            f"{base_url}/accounts/login/?next=/api/v1/assistants/",
            urlencode(form).encode(),
            {"Referer": base_url},
        )
        self._opener.open(request).read()
        assert self.cookie("session"), f"{name} could not sign in"

    def at(self, base_url: str) -> Self:
        """The same person at another server."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, base_url=base_url)
        return other

    def cookie(self, prefix: str) -> str:
        return next((c.value or "" for c in self.cookies if c.name.startswith(prefix)), "")

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request to the REST API: its status and its JSON."""
        request = Request(
            f"{self.base_url}/api/v1/{path}",
            None if body is None else json.dumps(body).encode(),
            {
                "Content-Type": "application/json",
                "X-CSRFToken": self.cookie("csrf"),
                "Referer": self.base_url,
            },
            method=method,
        )
        try:
            with self._opener.open(request) as response:
                text, status = response.read(), response.status
        except HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text else None

    def new_session(self, **fields: Any) -> str:
        status, made = self.call("POST", "sessions/", fields)
        assert status == 201, made
        return str(made["id"])

    def messages(self, session_id: str) -> list[Frame]:
        status, page = self.call("GET", f"sessions/{session_id}/messages/")
        assert status == 200, page
        return list(page["results"])

    async def socket(self, session_id: str) -> Socket:
        """Open the session's websocket and take the first frame."""
        header = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.cookies)
        connection = await connect(
            f"{self.base_url.replace('http', 'ws')}/ws/chat/{session_id}/",
            origin=self.base_url,  # type: ignore[arg-type]
            additional_headers={"Cookie": header},
            max_size=None,
        )
        made = Socket(connection)
        await made.next()
        return made


class Socket:
    """One websocket and what a page would show of it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: list[Frame] = []
        self.text = ""
        self.gaps = 0

    async def next(self, seconds: float = 15.0) -> Frame:
        async with asyncio.timeout(seconds):
            frame: Frame = json.loads(await self.connection.recv())
        self.frames.append(frame)
        self._paint(frame)
        return frame

    def _paint(self, frame: Frame) -> None:
        """Follow the offsets as the page does: append, drop an overlap, count a gap."""
        if frame["type"] == "turn.snapshot":
            self.text = frame["text"]
        elif frame["type"] == "turn.delta":
            if frame["offset"] > len(self.text):
                self.gaps += 1
            self.text += frame["text"][len(self.text) - frame["offset"] :]
        elif frame["type"] == "turn.accepted":
            self.text = ""

    async def until(self, *types: str, seconds: float = 15.0) -> Frame:
        async with asyncio.timeout(seconds):
            while (await self.next(seconds))["type"] not in types:
                pass
        return self.frames[-1]

    async def end(self, seconds: float = 30.0) -> Frame:
        return await self.until(*ENDS, seconds=seconds)

    async def say(self, type_: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": type_, **fields}))

    async def send(self, text: str, **fields: Any) -> str:
        """Send a message; its `client_id`."""
        client_id = fields.pop("client_id", None) or str(uuid.uuid4())
        await self.say("message.send", client_id=client_id, text=text, **fields)
        return client_id

    async def ask(self, text: str) -> str:
        """Send a message and wait for its whole answer."""
        await self.send(text)
        frame = await self.end()
        assert frame["type"] == "turn.completed", frame
        return str(frame["message"]["content"])

    async def close(self) -> None:
        await self.connection.close()
