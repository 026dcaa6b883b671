"""The loop that does what is due: in the web process, or in a worker of its own.

It looks seldom, and at once when it is rung: a turn of this process has ended.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from django.conf import settings

from chat.dues import Claim
from chat.follow_ups import work
from chat.follow_ups.exports import Exports

logger = logging.getLogger(__name__)

POLL_SECONDS = 10.0


class Loop:
    """At most CHAT_FOLLOW_UP_TASKS follow-ups at once, on one event loop."""

    def __init__(self) -> None:
        self.exports = Exports()
        self.counts = {"done": 0, "failed": 0, "given back": 0}
        self._bell = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._main = asyncio.create_task(self._run(), name="follow-ups")

    def ring(self) -> None:
        """Something may be due: look now."""
        self._bell.set()

    async def stop(self) -> None:
        """End what is being done and give it back."""
        tasks = [*self._tasks, *([self._main] if self._main is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.exports.stop()

    async def work_off(self) -> None:
        """Do what is due until nothing is, or what is left waits for later."""
        while await self._fill() or self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _run(self) -> None:
        while True:
            self._bell.clear()
            self.exports.look()
            try:
                await self._fill()
            except Exception:  # the loop goes on whatever happens; what was claimed expires
                logger.exception("What is due cannot be looked at.")
            # In Python 3.11 `asyncio.wait_for` swallows being cancelled while the bell rings.
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._bell.wait()

    async def _fill(self) -> bool:
        """Claim as much as there are hands for; whether anything was claimed."""
        free = settings.CHAT_FOLLOW_UP_TASKS - len(self._tasks)
        claims = await work.claim(free) if free > 0 else []
        for claim in claims:
            task = asyncio.create_task(self._do(claim), name=f"{claim.kind} {claim.subject}")
            self._tasks.add(task)
            task.add_done_callback(self._over)
        return bool(claims)

    async def _do(self, claim: Claim) -> None:
        self.counts[await work.do(claim)] += 1

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._bell.set()
        if not task.cancelled() and (error := task.exception()):
            logger.error("A follow-up was not ended; its claim expires.", exc_info=error)
