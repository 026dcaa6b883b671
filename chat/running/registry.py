"""Sessions in this process by id, the channel from other processes, start-up and shutdown."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from typing import Any

import psycopg
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError

from chat import events, follow_ups, hops, leases, liveness, llm, planning
from chat.hops import Overloaded, hop, urgent_hop
from chat.models import ChatSession
from chat.running.feeds import Reader
from chat.running.hubs import Hub
from chat.running.local import LocalTurn
from chat.turns import Order, Repeated

logger = logging.getLogger(__name__)

STOPPING_SECONDS = 3.0  # how long an order waits for the end of a turn that is being stopped
SWEEP_SECONDS = 10.0  # between two looks at what runs in the watched sessions
REJOIN_SECONDS = 1.0  # before the channel is opened again after an error


@dataclass(frozen=True)
class Started:
    """The turn of an order; `is_repeated` when an earlier order with its `client_id` began it."""

    turn_id: uuid.UUID
    is_repeated: bool


class Registry:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.hubs: dict[uuid.UUID, Hub] = {}
        self.channel: str | None = None
        self.listener: asyncio.Task[None] | None = None
        self.sweeper: asyncio.Task[None] | None = None
        events.listen_locally(self.deliver)

    def hub(self, session_id: uuid.UUID) -> Hub:
        if session_id not in self.hubs:
            self.hubs[session_id] = Hub(session_id)
        return self.hubs[session_id]

    def deliver(self, session_id: uuid.UUID, frame: dict[str, Any]) -> None:
        if hub := self.hubs.get(session_id):
            hub.deliver(frame)

    async def listen(self) -> None:
        """Open this process's channel once; other processes' messages come in by it."""
        if settings.REDIS_URL and self.listener is None:
            self.channel = await get_channel_layer().new_channel("relay")
            self.listener = asyncio.create_task(self._receive(self.channel), name="relay")
            self.sweeper = asyncio.create_task(self._sweep(), name="sweep")

    async def _receive(self, channel: str) -> None:
        """Hand out what other processes say; whatever one message fails by, the next is read."""
        while True:
            try:
                message = await get_channel_layer().receive(channel)
            except Exception as error:
                logger.warning("Messages of other processes cannot be received: %r", error)
                await asyncio.sleep(REJOIN_SECONDS)
                continue
            try:
                await self._dispatch(message)
            except Exception:
                logger.exception("A %r message of another process failed.", message.get("kind"))

    async def _dispatch(self, message: dict[str, Any]) -> None:
        hub = self.hubs.get(uuid.UUID(message["session"]))
        if hub is None:
            return
        if message["from"] == events.PROCESS:
            hub.on_own_word()
        else:
            await hub.on_relay(message)

    async def _sweep(self) -> None:
        """Look around now and then; whatever one look fails by, the next is made."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.look_around()
            except (DatabaseError, Overloaded) as error:
                logger.warning("Running turns could not be looked at: %s", error)
            except Exception:
                logger.exception("Running turns could not be looked at.")

    async def look_around(self) -> None:
        """Follow what runs elsewhere though its beginning was never heard here."""
        watched = [hub for hub in self.hubs.values() if hub.readers]
        joining = (hub.join(self.channel) for hub in watched)
        for failed in await asyncio.gather(*joining, return_exceptions=True):
            if failed is not None:
                logger.error("A session's channel could not be joined.", exc_info=failed)
        if not watched:
            return
        for session_id, turn_id in await hop(running_turns, [hub.session_id for hub in watched]):
            hub = self.hubs.get(session_id)
            if hub is not None and hub.readers:
                hub.watch(turn_id)

    async def drop_idle(self, hub: Hub) -> None:
        if hub.is_idle and self.hubs.get(hub.session_id) is hub:
            del self.hubs[hub.session_id]
            await hub.leave(self.channel)


def running_turns(session_ids: list[uuid.UUID]) -> list[tuple[uuid.UUID, uuid.UUID]]:
    """The sessions among these in which a turn runs, with that turn."""
    rows = ChatSession.objects.filter(pk__in=session_ids).exclude(running_turn=None)
    return [(pk, turn) for pk, turn in rows.values_list("pk", "running_turn") if turn is not None]


_registry: Registry | None = None


def registry() -> Registry:
    """The registry of the running event loop."""
    global _registry
    if _registry is None or _registry.loop is not asyncio.get_running_loop():
        _registry = Registry()
    return _registry


# --- Turns ----------------------------------------------------------------------------------------


async def start(order: Order) -> Started:
    """Run an order; returns when its input is stored. `turns.Refused`, `hops.Overloaded`."""
    here = registry()
    await here.listen()
    hub = here.hub(order.session_id)
    hub.starting += 1
    try:
        await hub.join(here.channel)
        if hub.local is not None and hub.local.is_stopping:
            await asyncio.wait({hub.local.task}, timeout=STOPPING_SECONDS)
        turn = hub.run(order)
        turn.task.add_done_callback(lambda task: _over(here, hub, turn, task))
        either: set[asyncio.Future[Any]] = {turn.task, turn.accepted}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if turn.accepted.done():
            return Started(turn.accepted.result(), is_repeated=False)
        turn.accepted.cancel()
        result = turn.task.result()
        if not isinstance(result, Repeated):
            raise RuntimeError("A turn ended without having been accepted.")
        return Started(result.turn_id, is_repeated=True)
    finally:
        hub.starting -= 1
        await here.drop_idle(hub)


def _over(here: Registry, hub: Hub, turn: LocalTurn, task: asyncio.Task[Any]) -> None:
    """A turn's task has ended: free its place, and say in the log what nobody else will say."""
    hub.end(turn)
    if turn.turn_id is not None and not task.cancelled() and (error := task.exception()):
        logger.error("Turn %s was not ended properly.", turn.turn_id, exc_info=error)
        hub.watch(turn.turn_id)
    follow_ups.ring()
    if not hub.starting:
        here.loop.create_task(here.drop_idle(hub))


async def stop(session_id: uuid.UUID, turn_id: uuid.UUID, seen: int | None) -> None:
    """Stop a turn in whichever process it runs; a turn that has ended stays as it is."""
    hub = registry().hubs.get(session_id)
    if hub is not None and hub.local is not None and hub.local.turn_id == turn_id:
        hub.local.control.stop(seen)
        return
    if await hop(leases.request_stop, turn_id, seen):
        await events.relay(session_id, {"kind": "stop", "turn": str(turn_id), "seen": seen})


async def wait(session_id: uuid.UUID, turn_id: uuid.UUID) -> None:
    """Wait for the end of a turn of this process."""
    hub = registry().hubs.get(session_id)
    if hub is not None and hub.local is not None and hub.local.turn_id == turn_id:
        await asyncio.wait({hub.local.task})


# --- Readers --------------------------------------------------------------------------------------


async def attach(session_id: uuid.UUID, reader: Reader) -> None:
    """Let a reader miss nothing from now on; read the session's row after this, not before."""
    here = registry()
    await here.listen()
    hub = here.hub(session_id)
    hub.attach(reader)
    await hub.join(here.channel)


def watch(session_id: uuid.UUID, turn_id: uuid.UUID) -> None:
    """The row says that this turn runs: follow it if it does not run in this process."""
    registry().hub(session_id).watch(turn_id)


async def detach(session_id: uuid.UUID, reader: Reader) -> None:
    here = registry()
    hub = here.hubs.get(session_id)
    if hub is not None:
        hub.readers.discard(reader)
        await here.drop_idle(hub)


async def sync(session_id: uuid.UUID, turn_id: uuid.UUID, reader: Reader) -> None:
    """Give a reader all of a turn's text again, or its end; `LookupError` for an unknown turn."""
    hub = registry().hub(session_id)
    if hub.feed is not None and hub.feed.turn_id == turn_id:
        reader.show(hub.feed)
        return
    frame = await hop(events.ended, turn_id)
    if frame is not None:
        reader.put(frame)
    else:
        hub.watch(turn_id)


# --- The process ----------------------------------------------------------------------------------


class CannotStart(Exception):
    """Something that the settings name is not there."""


async def startup() -> None:
    """Take the liveness lock, open the channel, begin to follow up; before the first request."""
    try:
        await urgent_hop(liveness.start)
    except (DatabaseError, psycopg.Error, OSError) as error:
        raise CannotStart(f"The database of DATABASE_URL cannot be used: {error}") from error
    try:
        await registry().listen()
    except (OSError, RedisError) as error:
        raise CannotStart(f"Redis at REDIS_URL cannot be reached: {error}") from error
    await urgent_hop(planning.analyse)
    follow_ups.start()


async def shutdown() -> None:
    """Let running turns end for CHAT_DRAIN_SECONDS, interrupt the rest, close what is open."""
    await follow_ups.stop()
    here = registry()
    turns = [turn for hub in here.hubs.values() for turn in hub.turns]
    if turns:
        logger.info("Waiting for %d running turns.", len(turns))
        await asyncio.wait({turn.task for turn in turns}, timeout=settings.CHAT_DRAIN_SECONDS)
    left = [turn for turn in turns if not turn.task.done()]
    for turn in left:
        turn.control.interrupt()
    if left:
        logger.info("Interrupting %d running turns.", len(left))
        await asyncio.wait({turn.task for turn in left})
    for hub in here.hubs.values():
        hub.leave_remote()
    for task in (here.listener, here.sweeper):
        if task is not None:
            task.cancel()
    events.listen_locally(None)
    await llm.aclose()
    await urgent_hop(liveness.stop)
    await asyncio.to_thread(hops.shutdown)
