"""Starting and stopping turns: answered with the finished turn, or streamed as SSE.

These views are async. The turn is a task of its own (`chat.running`), so an asker that goes away
ends nothing; here is only a reader of it, as a websocket has one.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chat import access, events, frames, running
from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import Body, with_cleaned
from chat.api.orders import EditOrder, SendOrder, StopOrder, TurnOrder
from chat.hops import hop
from chat.limits import count_in_minute
from chat.models import ChatMessage, ChatTurn
from chat.turns import Kind, Order, Refused

F = TypeVar("F", bound=Callable[..., Any])

HEARTBEAT_SECONDS = 15.0  # proxies close what is silent for a minute
EVENT_STREAM = "text/event-stream"
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key", uuid.UUID, OpenApiParameter.HEADER, description="The same as client_id."
)
TURN_ANSWERS = {
    (200, "application/json"): schema.FinishedTurn,
    (200, EVENT_STREAM): schema.ServerSentEvent,
    **schema.problems(400, 403, 404, 409, 413, 422, 503),
}


class EventStream(BaseRenderer):
    """Lets a client ask for `text/event-stream`; the stream itself is not rendered by DRF."""

    media_type = EVENT_STREAM
    format = "sse"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return json.dumps(data).encode()


class AsyncEndpoint(Endpoint):
    """DRF's request cycle with an async handler; everything before it runs in a thread."""

    async def dispatch(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await sync_to_async(self.initial)(self.request, *args, **kwargs)
            method = (self.request.method or "").lower()
            handler = getattr(self, method, None) if method in self.http_method_names else None
            if handler is None:
                self.http_method_not_allowed(self.request, *args, **kwargs)
            response = await handler(self.request, *args, **kwargs)  # type: ignore[misc]
        except Exception as exc:
            response = self.handle_exception(exc)
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self.response

    async def options(  # type: ignore[override]
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        return super().options(request, *args, **kwargs)


# --- Views ----------------------------------------------------------------------------------------


class TurnStarter(AsyncEndpoint):
    """Starts a turn and answers with its end, or with a stream of its events."""

    renderer_classes = [JSONRenderer, EventStream]

    async def answer(self, order: Order, body: Body) -> HttpResponseBase:
        await hop(require_turn_rate, self.person.pk)
        # The turn takes minutes and has connections of its own; this request's is not held for it.
        await sync_to_async(connections.close_all)()
        told = run(order)
        if self.request.accepted_renderer.media_type != EVENT_STREAM:
            return Response(with_cleaned(await finished(told), body))
        first = await anext(told)  # refusals are raised here, while there is a status to give them
        return StreamingHttpResponse(
            ServerSentEvents(first, told),
            content_type=EVENT_STREAM,
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )


def require_turn_rate(user_id: int) -> None:
    """The limit that holds for sockets too; both count together."""
    if count_in_minute("turns", user_id) > settings.CHAT_TURNS_PER_MINUTE:
        raise Refused(
            "rate_limited",
            f"More than {settings.CHAT_TURNS_PER_MINUTE} messages in a minute; wait a little.",
        )


class TurnList(TurnStarter):
    @extend_schema(
        operation_id="send_message",
        parameters=[IDEMPOTENCY_KEY],
        request=SendOrder,
        responses=TURN_ANSWERS,
    )
    async def post(self, request: Request, session_id: uuid.UUID) -> HttpResponseBase:
        """Send a message and wait for the answer, or have its events streamed."""
        chat_session = await sync_to_async(self.chat_session)(session_id)
        body = SendOrder.read(request)
        given = body.validated_data.get("attachments", [])
        images = frames.attachment_ids([str(each) for each in given])
        order = Order(
            "send",
            chat_session.pk,
            body.client(request),
            text=frames.message_text(body.validated_data["text"], may_be_empty=bool(images)),
            parent=body.parent_id(),
            attachments=images,
        )
        return await self.answer(order, body)


class MessageEdit(TurnStarter):
    @extend_schema(
        operation_id="edit_message",
        parameters=[IDEMPOTENCY_KEY],
        request=EditOrder,
        responses=TURN_ANSWERS,
    )
    async def post(
        self, request: Request, session_id: uuid.UUID, message_id: uuid.UUID
    ) -> HttpResponseBase:
        """Store another wording beside an earlier message and answer it."""
        await sync_to_async(self.own_message)(session_id, message_id)
        body = EditOrder.read(request)
        order = Order(
            "edit",
            session_id,
            body.client(request),
            text=frames.message_text(body.validated_data["text"]),
            message=message_id,
        )
        return await self.answer(order, body)

    def own_message(self, session_id: uuid.UUID, message_id: uuid.UUID) -> ChatMessage:
        """Looked for before the body is: a wrong body tells nothing of what is not the asker's."""
        chat_session = self.chat_session(session_id)
        try:
            return access.own_message(chat_session, message_id)
        except access.NotFound:
            detail = f"There is no message {message_id} of yours here."
            raise Refused("no_such_message", detail) from None


def turn_order(operation_id: str) -> Callable[[F], F]:
    """The schema of an order about an earlier turn."""
    return extend_schema(
        operation_id=operation_id,
        parameters=[IDEMPOTENCY_KEY],
        request=TurnOrder,
        responses=TURN_ANSWERS,
    )


class TurnAgain(TurnStarter):
    """Orders about an earlier turn."""

    kind: Kind

    async def again(self, session_id: uuid.UUID, turn_id: uuid.UUID) -> HttpResponseBase:
        turn = await sync_to_async(find_turn)(self, session_id, turn_id)
        body = TurnOrder.read(self.request)
        order = Order(self.kind, session_id, body.client(self.request), turn=turn.pk)
        return await self.answer(order, body)


class TurnRetry(TurnAgain):
    kind = "retry"

    @turn_order("retry_turn")
    async def post(
        self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID
    ) -> HttpResponseBase:
        """Answer the input of a failed, interrupted or stopped turn again."""
        return await self.again(session_id, turn_id)


class TurnRegenerate(TurnAgain):
    kind = "regenerate"

    @turn_order("regenerate_turn")
    async def post(
        self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID
    ) -> HttpResponseBase:
        """Answer the input of a turn once more; the earlier answer stays beside it."""
        return await self.again(session_id, turn_id)


class TurnContinue(TurnAgain):
    kind = "continue"

    @turn_order("continue_turn")
    async def post(
        self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID
    ) -> HttpResponseBase:
        """Go on with an answer that was stopped, interrupted or cut by its length: the wish is
        stored as the person's next message and answered."""
        return await self.again(session_id, turn_id)


def find_turn(view: Endpoint, session_id: uuid.UUID, turn_id: uuid.UUID) -> ChatTurn:
    return access.turn_for(view.chat_session(session_id), turn_id)


class TurnStop(AsyncEndpoint):
    @extend_schema(
        operation_id="stop_turn",
        request=StopOrder,
        responses={202: schema.Turn, **schema.problems(400, 403, 404, 413)},
    )
    async def post(self, request: Request, session_id: uuid.UUID, turn_id: uuid.UUID) -> Response:
        """Ask a running turn to stop; one that has ended stays as it is."""
        turn = await sync_to_async(find_turn)(self, session_id, turn_id)
        body = StopOrder.read(request)
        await running.stop(session_id, turn.pk, body.validated_data.get("seen"))
        return Response(events.turn_payload(turn), status=202)


# --- Following a turn -----------------------------------------------------------------------------

Frame = dict[str, Any]


async def run(order: Order) -> AsyncGenerator[Frame | None, None]:
    """Start a turn, then its frames until it ends; None when there was nothing for a while."""
    reader = running.Reader()
    try:
        await running.attach(order.session_id, reader)
        started = await running.start(order)
        if started.is_repeated:
            await running.sync(order.session_id, started.turn_id, reader)
        while True:
            frame = await next_frame(reader)
            if frame is None or is_about(frame, started.turn_id):
                yield frame
            if frame is not None and is_last(frame, started.turn_id):
                return
    finally:
        await running.detach(order.session_id, reader)


async def next_frame(reader: running.Reader) -> Frame | None:
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await reader.next()
    except TimeoutError:
        return None


def is_about(frame: Frame, turn_id: uuid.UUID) -> bool:
    return frame.get("turn") == str(turn_id) or frame["type"] == "session.deleted"


def is_last(frame: Frame, turn_id: uuid.UUID) -> bool:
    return is_about(frame, turn_id) and frame["type"] in {*events.TERMINAL, "session.deleted"}


async def finished(told: AsyncGenerator[Frame | None, None]) -> Frame:
    """The turn at its end, with its answer."""
    last: Frame = {}
    async for frame in told:
        last = frame or last
    if last.get("type") not in events.TERMINAL:
        raise access.NotFound("session")
    return {**last["summary"], "message": last["message"], "steps": last["steps"]}


class ServerSentEvents:
    """The frames of a turn as the body of a response; the reader leaves when it is closed."""

    def __init__(self, first: Frame | None, told: AsyncGenerator[Frame | None, None]) -> None:
        self._first = first
        self._told = told
        self._loop = asyncio.get_running_loop()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield event(self._first)
        async for frame in self._told:
            yield event(frame)

    def close(self) -> None:
        """Django calls this in a thread once the response is over, also when its reader left."""
        asyncio.run_coroutine_threadsafe(self._told.aclose(), self._loop)


def event(frame: Frame | None) -> bytes:
    """One server-sent event: the frame's type as its name, the frame as its data."""
    if frame is None:
        return b": still here\n\n"
    return f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()
