"""What follows a turn: titles, summaries, preferences, digests, and what is still to be removed.

What is due is claimed in the database (`chat.dues`) and done by a loop in the web process, or by
`manage.py run_due` in any number of workers. Nothing here delays a turn.
"""

from __future__ import annotations

import asyncio

from django.conf import settings

from chat.follow_ups.loop import Loop

__all__ = ["Loop", "ring", "start", "stop"]

_loop: tuple[asyncio.AbstractEventLoop, Loop] | None = None


def start() -> None:
    """Begin to do what is due in this process, unless CHAT_FOLLOW_UPS_IN_WEB says otherwise."""
    global _loop
    if settings.CHAT_FOLLOW_UPS_IN_WEB:
        _loop = (asyncio.get_running_loop(), Loop())
        _loop[1].start()


async def stop() -> None:
    """End what is being done here and give it back."""
    global _loop
    running, _loop = _loop, None
    if running is not None and running[0] is asyncio.get_running_loop():
        await running[1].stop()


def ring() -> None:
    """Something may be due: look now. From any thread; where no loop runs it does nothing."""
    if _loop is not None and _loop[0].is_running():
        _loop[0].call_soon_threadsafe(_loop[1].ring)
