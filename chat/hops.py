"""From the event loop to the database: a bounded executor for short synchronous functions.

A hop runs one function with its own short transactions in one of CHAT_EXECUTOR_THREADS threads.
When CHAT_EXECUTOR_QUEUE hops wait already, a further one is refused with `Overloaded`, except an
urgent one: a turn that was begun is always ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


class Overloaded(Exception):
    """Too many database steps are waiting in this process."""


class _Executor:
    def __init__(self) -> None:
        self.threads = settings.CHAT_EXECUTOR_THREADS
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="chat-db")
        self.waiting = 0  # read and written on the event loop only


_executor: _Executor | None = None
_lock = threading.Lock()


def _current() -> _Executor:
    global _executor
    with _lock:
        if _executor is None:
            _executor = _Executor()
        return _executor


async def hop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function` in the executor; `Overloaded` when the queue is full."""
    if _current().waiting >= settings.CHAT_EXECUTOR_QUEUE + settings.CHAT_EXECUTOR_THREADS:
        raise Overloaded(
            f"{_current().waiting} database steps are waiting in this process;"
            " try again in a moment, or raise CHAT_EXECUTOR_THREADS."
        )
    return await urgent_hop(function, *args, **kwargs)


async def urgent_hop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function` in the executor however many wait: for the steps that end something."""
    executor = _current()

    def call() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            give_back_connections()

    executor.waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(executor.pool, call)
    finally:
        executor.waiting -= 1


def give_back_connections() -> None:
    """A pooled connection returns to its pool; another one stays with its thread while it works."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or connection.in_atomic_block:
            continue  # closed already, or a test's own transaction
        if connection.vendor == "postgresql" or not connection.is_usable():
            connection.close()


def shutdown() -> None:
    """Close every thread's database connections and end the threads; the next hop starts anew."""
    global _executor
    with _lock:
        executor, _executor = _executor, None
    if executor is None:
        return
    everyone = threading.Barrier(executor.threads)

    def close() -> None:
        everyone.wait()  # so that each thread takes exactly one of these
        connections.close_all()

    for closing in [executor.pool.submit(close) for _ in range(executor.threads)]:
        closing.result()
    executor.pool.shutdown(wait=True)
