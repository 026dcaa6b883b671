"""The turns that run in this process, and everyone here who watches one.

One registry per event loop. `start` runs an order as a task of its own; `attach` gives a reader
all text so far and everything new; nobody who leaves ends a turn.
"""

from chat.running.feeds import Behind, Reader
from chat.running.registry import (
    CannotStart,
    Started,
    attach,
    detach,
    shutdown,
    start,
    startup,
    stop,
    sync,
    wait,
    watch,
)

__all__ = [
    "Behind",
    "CannotStart",
    "Reader",
    "Started",
    "attach",
    "detach",
    "shutdown",
    "start",
    "startup",
    "stop",
    "sync",
    "wait",
    "watch",
]
