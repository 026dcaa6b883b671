"""The demo model over HTTP: chat completions (streamed and not), the model list, the record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from chat.demo_model import seen, wire
from chat.demo_model.heard import Heard, NotARequest, hear
from chat.demo_model.script import Failure, Reply, reply_to


def enabled_only(view: Callable[..., Any]) -> Callable[..., Any]:
    """404 unless DEMO_MODEL_ENABLED, asked at every request."""

    @wraps(view)
    async def asynchronous(request: HttpRequest) -> HttpResponseBase:
        require_enabled()
        response: HttpResponseBase = await view(request)
        return response

    @wraps(view)
    def synchronous(request: HttpRequest) -> HttpResponseBase:
        require_enabled()
        response: HttpResponseBase = view(request)
        return response

    return asynchronous if iscoroutinefunction(view) else synchronous


def require_enabled() -> None:
    if not settings.DEMO_MODEL_ENABLED:
        raise Http404("The demo model is off; DEMO_MODEL_ENABLED=true turns it on.")


@csrf_exempt
@require_POST
@enabled_only
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """POST /demo-model/v1/chat/completions"""
    try:
        body = json.loads(bytes_of(request))
        heard = hear(body)
    except RequestDataTooBig as too_big:
        return problem(str(too_big), 413)
    except NotARequest as fault:
        return problem(str(fault), 400)
    except (ValueError, RecursionError):
        return problem("The body is not JSON.", 400)
    record = seen.note(body)
    reply, delivery = await sync_to_async(prepare, thread_sensitive=False)(heard, body)
    if reply.failure:
        record["_outcome"] = "failed"
        return refusal(reply.failure)
    if heard.stream:
        events = stream(reply, delivery, record, include_usage=heard.include_usage)
        return StreamingHttpResponse(
            events,
            content_type="text/event-stream",
            headers={**wire.LABEL, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
    await asyncio.sleep(reply.wait)
    record |= {"_pieces": len(delivery.deltas), "_outcome": "completed"}
    return JsonResponse(delivery.whole(), headers=wire.LABEL)


def bytes_of(request: HttpRequest) -> bytes:
    """The body, which may hold images: more than Django takes of a form."""
    most = settings.CHAT_MAX_REQUEST_IMAGE_BYTES * 4 // 3 + settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    body = request.read(most + 1)
    if len(body) > most:
        raise RequestDataTooBig(f"The body is over {most} bytes.")
    return body


def prepare(heard: Heard, body: dict[str, Any]) -> tuple[Reply, wire.Delivery]:
    """Everything that takes processor time; run in a thread, since texts may be long."""
    reply = reply_to(heard)
    return reply, wire.deliver(reply, body, heard.max_tokens)


async def stream(
    reply: Reply, delivery: wire.Delivery, record: dict[str, Any], *, include_usage: bool
) -> AsyncIterator[bytes]:
    """The reply as server-sent events at its pace; stops when the client goes away."""
    outcome = "client_gone"
    try:
        await asyncio.sleep(reply.wait)
        yield wire.event(delivery.chunk({"role": "assistant", "content": ""}))
        for delta in delivery.deltas[: reply.break_after]:
            record["_pieces"] += 1
            yield wire.event(delivery.chunk(delta))
            await pause(reply)
        if reply.break_after is not None:
            outcome = "broken_off"
            # Django takes this for a lost client: it drops the connection, with no last chunk.
            raise asyncio.CancelledError
        yield wire.event(delivery.chunk({}, delivery.finish))
        if include_usage and delivery.usage:
            yield wire.event(delivery.usage_chunk())
        outcome = "completed"
        yield wire.DONE
    finally:
        record["_outcome"] = outcome


async def pause(reply: Reply) -> None:
    """The time between two pieces; at 0 too, since this is where a lost client is noticed."""
    delay = settings.DEMO_MODEL_DELAY_MS if reply.delay_ms is None else reply.delay_ms
    await asyncio.sleep(delay / 1000)


@require_GET
@enabled_only
def models(request: HttpRequest) -> JsonResponse:
    """GET /demo-model/v1/models"""
    demo = {
        "id": wire.MODEL,
        "object": "model",
        "created": 0,
        "owned_by": "this server: scripted, not an AI",
    }
    return JsonResponse({"object": "list", "data": [demo]}, headers=wire.LABEL)


@require_GET
@enabled_only
def requests(request: HttpRequest) -> JsonResponse:
    """GET /demo-model/v1/requests: what `requests_seen` returns, with DEMO_MODEL_RECORD only."""
    if not settings.DEMO_MODEL_RECORD:
        raise Http404("Requests are not recorded; DEMO_MODEL_RECORD=true turns it on.")
    return JsonResponse({"object": "list", "data": seen.requests_seen()})


def refusal(failure: Failure) -> JsonResponse:
    """The error that a message ordered."""
    again = failure.retry_after
    headers = {**wire.LABEL, **({"Retry-After": str(again)} if again is not None else {})}
    body = wire.error(failure.message, failure.kind, failure.code)
    return JsonResponse(body, status=failure.status, headers=headers)


def problem(message: str, status: int) -> JsonResponse:
    """The error for a request that cannot be answered."""
    return JsonResponse(
        wire.error(message, "invalid_request_error"), status=status, headers=wire.LABEL
    )
