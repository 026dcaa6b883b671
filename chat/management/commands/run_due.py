"""`manage.py run_due`: do what follows turns, once or as a worker."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from chat import hops, llm
from chat.follow_ups import Loop


class Command(BaseCommand):
    help = (
        "Make the titles, summaries, preferences and digests that are due, remove what deletions"
        " left, and end. With --loop write large exports too, and go on until SIGTERM or Ctrl-C, as"
        " a worker beside the web processes (set CHAT_FOLLOW_UPS_IN_WEB=false there). Any number"
        " may run at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--loop", action="store_true", help="Go on until it is stopped.")

    def handle(self, *args: Any, **options: Any) -> None:
        counts = asyncio.run(work(forever=options["loop"]))
        self.stdout.write(
            f"Done: {counts['done']}; failed and to be tried again: {counts['failed']}"
        )


async def work(*, forever: bool) -> dict[str, int]:
    loop = Loop()
    try:
        await (until_stopped(loop) if forever else loop.work_off())
    finally:
        await loop.stop()
        await llm.aclose()
        await asyncio.to_thread(hops.shutdown)
    return loop.counts


async def until_stopped(loop: Loop) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    loop.start()
    await stopped.wait()
