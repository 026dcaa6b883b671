"""The websocket of one chat session: frames to calls, events to frames.

Refusals accept first and then close, so that the browser sees the code. Frames are handled one at
a time and none of them waits for a model: turns run in `chat.running`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from asgiref.typing import WebSocketScope
from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from chat import access, events, frames, leases, retention, running
from chat.hops import Overloaded, hop
from chat.limits import Bucket, count_in_minute
from chat.models import ChatSession
from chat.turns import Order, Refused, branches
from memory.models import UserPreference

logger = logging.getLogger(__name__)

Frame = dict[str, Any]

BAD_ORIGIN = 4403
SIGNED_OUT = 4401
NOT_FOUND = 4404
IDLE = 4408
TOO_LARGE = 4413
TOO_MANY = 4429
BROKEN = 1011
TRY_AGAIN = 1013

SEND_SECONDS = 30.0  # for a socket that takes nothing before it is closed
CHECK_SECONDS = 30.0  # between two looks whether the person may still be here

sockets_of: Counter[int] = Counter()  # user id -> open sockets in this process


def origin_is_allowed(scope: WebSocketScope) -> bool:
    """The page must come from this very host, or from one of CSRF_TRUSTED_ORIGINS."""
    headers = dict(scope["headers"])
    origin = headers.get(b"origin", b"").decode("latin-1")
    host = headers.get(b"host", b"").decode("latin-1")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    allowed = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"])
    return urlsplit(origin).netloc == host and validate_host(split_domain_port(host)[0], allowed)


class NothingHere(AsyncWebsocketConsumer):
    """Every other websocket address: the same answer as for a session that is not yours."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.accept()
        await self.close(NOT_FOUND)


class ChatConsumer(AsyncWebsocketConsumer):
    channel_layer_alias = "none"  # chat.running hears the layer once for all sockets

    session_id: uuid.UUID
    user: Any = None
    is_counted = False
    is_closed = False
    is_attached = False

    async def dispatch(self, message: Frame) -> None:
        """Like the base class's, without its hop through the one shared thread per frame."""
        await getattr(self, get_handler_name(message))(message)

    # --- Coming and going ---------------------------------------------------------------------

    async def connect(self) -> None:
        self.session_id = self.scope["url_route"]["kwargs"]["session_id"]
        self.reader = running.Reader()
        self.bucket = Bucket(settings.CHAT_FRAMES_PER_MINUTE)
        self.active_at = time.monotonic()
        self.tasks: list[asyncio.Task[None]] = []
        await self.accept()
        if code := await self._refusal():
            await self.close(code)
            return
        self.is_attached = True
        await running.attach(self.session_id, self.reader)
        await self._welcome()
        self.tasks = [
            asyncio.create_task(self._pump(), name="socket pump"),
            asyncio.create_task(self._supervise(), name="socket supervisor"),
        ]

    async def _refusal(self) -> int | None:
        """The code to close with, or None for a person who may come in."""
        if not origin_is_allowed(self.scope):
            return BAD_ORIGIN
        self.user = self.scope["user"]
        if not self.user.is_authenticated:
            return SIGNED_OUT
        try:
            await hop(access.chat_session_for, self.user, self.session_id, self.scope["session"])
        except access.NotFound:
            return NOT_FOUND
        except Overloaded:
            return TRY_AGAIN
        if sockets_of[self.user.pk] >= settings.CHAT_SOCKETS_PER_USER:
            return TOO_MANY
        sockets_of[self.user.pk] += 1
        self.is_counted = True
        return None

    async def _welcome(self) -> None:
        """`session.ready`, read after attaching, and whatever runs at this moment."""
        ready = await hop(frames.session_ready, self.session_id)
        if ready is None:
            await self.close(NOT_FOUND)
            return
        await self._send(ready)
        if ready["running"] is not None:
            running.watch(self.session_id, uuid.UUID(ready["running"]))

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        if self.is_attached:
            await running.detach(self.session_id, self.reader)
        if self.is_counted:
            self.is_counted = False
            sockets_of[self.user.pk] -= 1
            if not sockets_of[self.user.pk]:
                del sockets_of[self.user.pk]

    async def close(self, code: Any = None, reason: Any = None) -> None:
        """Close once, whatever else was on its way."""
        if not self.is_closed:
            self.is_closed = True
            await super().close(code, reason)

    # --- Out ----------------------------------------------------------------------------------

    async def _send(self, frame: Frame) -> None:
        text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
        await self.send(text_data=text)

    async def _pump(self) -> None:
        """Send what the reader is owed; a socket that takes nothing is closed."""
        try:
            while True:
                frame = await self.reader.next()
                async with asyncio.timeout(SEND_SECONDS):
                    await self._send(frame)
                if frame["type"] == "session.deleted":
                    await self.close(NOT_FOUND)
                    return
        except (running.Behind, TimeoutError) as slow:
            logger.info("A socket of session %s was too slow: %s", self.session_id, slow)
            await self.close(TRY_AGAIN)
        except Exception:
            logger.exception("A frame could not be sent to a socket of %s.", self.session_id)
            await self.close(BROKEN)

    async def _supervise(self) -> None:
        """Close the socket of somebody who signed out, lost access, or went to sleep."""
        while True:
            await asyncio.sleep(min(CHECK_SECONDS, settings.CHAT_IDLE_SECONDS))
            if time.monotonic() - self.active_at > settings.CHAT_IDLE_SECONDS:
                await self.close(IDLE)
                return
            if not await self._is_still_allowed():
                return

    async def _is_still_allowed(self) -> bool:
        key = self.scope["session"].session_key
        try:
            verdict = await hop(access.is_still_allowed, self.user.pk, key, self.session_id)
        except Overloaded as overloaded:
            logger.info("%s", overloaded)
            return True
        if verdict == "ok":
            return True
        await self.close(SIGNED_OUT if verdict == "signed_out" else NOT_FOUND)
        return False

    # --- In -----------------------------------------------------------------------------------

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.is_closed or not self.tasks:
            return  # the close is on its way
        size = len(text_data.encode("utf-8", "replace")) if text_data else len(bytes_data or b"")
        if size > settings.CHAT_MAX_FRAME_BYTES:
            await self.close(TOO_LARGE)
            return
        if not self.bucket.take():
            await self.close(TOO_MANY)
            return
        frame: Frame = {}
        try:
            frame = frames.parse(text_data)
            await self._handle(frame)
        except frames.BadFrame as bad:
            self._refuse(bad.code, str(bad), frame)
        except Refused as refused:
            self._refuse(refused.code, refused.detail, frame, **refused.more)
        except Overloaded as overloaded:
            self._refuse("overloaded", str(overloaded), frame)
        except access.NotFound as missing:
            self._refuse("not_found", str(missing), frame)

    def _refuse(self, code: str, detail: str, frame: Frame, **more: Any) -> None:
        self.reader.put(events.error(code, detail, frames.named_by(frame), **more))

    async def _handle(self, frame: Frame) -> None:
        handlers: dict[str, Callable[[Frame], Awaitable[None]]] = {
            "message.send": self._on_order,
            "message.edit": self._on_order,
            "branch.select": self._on_branch,
            "preference.answer": self._on_preference,
            **dict.fromkeys(frames.OF_A_TURN, self._on_order),
            "turn.stop": self._on_stop,
            "turn.sync": self._on_sync,
            "ping": self._on_ping,
        }
        handler = handlers.get(frame["type"])
        if handler is None:
            raise frames.BadFrame(
                f"Frames of type {frame['type']!r:.50} are not known; known are {sorted(handlers)}."
            )
        if frame["type"] != "ping":
            self.active_at = time.monotonic()
        await handler(frame)

    async def _on_ping(self, frame: Frame) -> None:
        self.reader.put({"type": "pong"})

    async def _on_order(self, frame: Frame) -> None:
        order = frames.order(frame, self.session_id)
        if not await self._is_still_allowed():
            return
        if await hop(count_in_minute, "turns", self.user.pk) > settings.CHAT_TURNS_PER_MINUTE:
            raise Refused(
                "rate_limited",
                f"More than {settings.CHAT_TURNS_PER_MINUTE} messages in a minute; wait a little.",
            )
        started = await running.start(order)
        if started.is_repeated:
            await self._tell_again(started.turn_id, order)

    async def _tell_again(self, turn_id: uuid.UUID, order: Order) -> None:
        """A `client_id` that is known already: the same answer as the first time."""
        accepted = await hop(events.accepted_again, turn_id)
        if accepted is not None:
            self.reader.put(accepted)
            await running.sync(self.session_id, turn_id, self.reader)

    async def _on_stop(self, frame: Frame) -> None:
        turn_id, seen = frames.turn_id(frame), frames.seen(frame)
        await hop(self._check_turn, turn_id)
        await running.stop(self.session_id, turn_id, seen)

    async def _on_branch(self, frame: Frame) -> None:
        try:
            head = await hop(branches.select, self.session_id, frames.message_id(frame))
        except leases.Gone:
            raise access.NotFound("session") from None
        changed = {"type": "session.updated", "session": str(self.session_id), "head": str(head)}
        await events.publish(self.session_id, changed)

    async def _on_preference(self, frame: Frame) -> None:
        preference_id, keep = frames.preference_answer(frame)
        try:
            kept = await hop(self._answer_preference, preference_id, keep)
        except UserPreference.DoesNotExist:
            raise access.NotFound("preference") from None
        told = (
            events.preference_told("saved", kept)
            if kept is not None
            else events.preference_forgotten(preference_id)
        )
        await events.publish(self.session_id, told)

    def _answer_preference(self, preference_id: int, keep: bool) -> UserPreference | None:
        tenant = access.tenant_of(self.user, self.scope["session"])
        return retention.answer_preference(tenant.pk, self.user.pk, preference_id, keep)

    async def _on_sync(self, frame: Frame) -> None:
        turn_id = frames.turn_id(frame)
        await hop(self._check_turn, turn_id)
        await running.sync(self.session_id, turn_id, self.reader)

    def _check_turn(self, turn_id: uuid.UUID) -> None:
        """The turn belongs to this socket's session; else `NotFound`."""
        access.turn_for(ChatSession(pk=self.session_id), turn_id)
