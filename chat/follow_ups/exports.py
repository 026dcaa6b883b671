"""Large exports, written in a thread of their own: they take minutes, and hold up nothing else."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from chat.hops import give_back_connections
from chat.transfer import export_jobs

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # between two looks: the loop is rung at the end of every turn


class Exports:
    """At most one export at a time in this process."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_look = 0.0

    def look(self) -> None:
        """Write what waits, unless that is being done or was looked at just now."""
        now = time.monotonic()
        if now >= self._next_look and (self._task is None or self._task.done()):
            self._next_look = now + LOOK_SECONDS
            self._task = asyncio.create_task(asyncio.to_thread(self._write), name="exports")

    async def stop(self) -> None:
        """Give back what is being written; another process begins it again."""
        self._stopped.set()
        if self._task is not None:
            await self._task

    def _write(self) -> None:
        try:
            export_jobs.run_due_exports(self._stopped)
        except Exception:  # the next look tries again
            logger.exception("Exports that wait could not be looked at.")
        finally:
            give_back_connections()
