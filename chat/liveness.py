"""One lock per process that lasts exactly as long as the process: who holds it is alive.

On PostgreSQL a session-level advisory lock on a connection of its own, on SQLite an `flock` on a
file beside the database. A lease's expiry always works; this only tells sooner. Elsewhere
(MariaDB) there is the expiry alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection, connections

logger = logging.getLogger(__name__)

LOCKED = "l"  # first letter of an owner whose process holds a liveness lock
UNLOCKED = "u"
PROBE_PAUSE = 0.5  # seconds; a cut lock connection also looks free until it is opened again
LISTEN_SECONDS = 30.0

_name = uuid.uuid4().hex
_lock: FileLock | AdvisoryLock | None = None


def owner() -> str:
    """The name of this process in leases: 33 characters."""
    return (LOCKED if _lock is not None else UNLOCKED) + _name


def start() -> None:
    """Take this process's liveness lock, under a fresh name."""
    global _lock, _name
    if _lock is not None:
        return
    _name = uuid.uuid4().hex
    if connection.vendor == "postgresql":
        _lock = AdvisoryLock(_name)
    elif connection.vendor == "sqlite":
        _lock = FileLock(_name)


def stop() -> None:
    """Give the liveness lock back: whatever this process still holds may be taken over."""
    global _lock
    lock, _lock = _lock, None
    if lock is not None:
        lock.close()


def owner_is_gone(name: str) -> bool:
    """Whether the process of that name is certainly dead. May take half a second."""
    if not name.startswith(LOCKED) or name == owner():
        return False
    if connection.vendor == "postgresql":
        is_free = advisory_lock_is_free
    elif connection.vendor == "sqlite":
        is_free = file_lock_is_free
    else:
        return False
    if not is_free(name[1:]):
        return False
    time.sleep(PROBE_PAUSE)
    return is_free(name[1:])


# --- SQLite ---------------------------------------------------------------------------------------


def lock_path(name: str) -> Path:
    database = Path(connections.settings["default"]["NAME"]).resolve()
    return database.with_name(f"{database.name}-owners") / f"{name}.lock"


class FileLock:
    """An exclusive `flock` on a file beside the database."""

    def __init__(self, name: str) -> None:
        self.path = lock_path(name)
        self.path.parent.mkdir(exist_ok=True)
        remove_dead_files(self.path.parent)
        self.descriptor = self.open()

    def open(self) -> int:
        """The locked file; made again when another process cleaned it away before the lock."""
        while True:
            descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                    return descriptor
            except FileNotFoundError:
                logger.info(
                    "The liveness lock file %s was cleaned away; making it again.", self.path
                )
            os.close(descriptor)

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def remove_dead_files(folder: Path) -> None:
    """Delete the lock files that processes left when they were killed."""
    for path in folder.glob("*.lock"):
        if file_lock_is_free(path.stem):
            path.unlink(missing_ok=True)


def file_lock_is_free(name: str) -> bool:
    try:
        descriptor = os.open(lock_path(name), os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


# --- PostgreSQL -----------------------------------------------------------------------------------


def advisory_key(name: str) -> int:
    """A signed 64-bit number out of an owner's name."""
    return int.from_bytes(bytes.fromhex(name[:16]), "big", signed=True)


def advisory_lock_is_free(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [advisory_key(name)])
        is_free = bool(cursor.fetchone()[0])
        if is_free:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [advisory_key(name)])
    return is_free


class AdvisoryLock:
    """A session-level advisory lock, taken again at once when its connection is cut."""

    def __init__(self, name: str) -> None:
        self.key = advisory_key(name)
        self.parameters = connection.get_connection_params()
        self.connection = self.open()
        self.reopens = True
        self.thread = threading.Thread(target=self.watch, name="chat-liveness", daemon=True)
        self.thread.start()

    def open(self) -> psycopg.Connection[Any]:
        parameters = {
            name: value
            for name, value in self.parameters.items()
            if name not in {"cursor_factory", "context", "prepare_threshold"}
        }
        opened = psycopg.connect(**parameters, autocommit=True)
        opened.execute("SELECT pg_advisory_lock(%s)", [self.key])
        return opened

    def watch(self) -> None:
        """Wait on the connection, which tells at once when it is cut."""
        while True:
            try:
                for _ in self.connection.notifies(timeout=LISTEN_SECONDS):
                    pass
            except psycopg.Error as error:
                if not self.reopens:
                    return
                logger.warning("The liveness lock's connection was cut (%s); opening it.", error)
                self.reopen()

    def reopen(self) -> None:
        """Try until it works; the first failure is told."""
        is_told = False
        while self.reopens:
            try:
                self.connection = self.open()
                return
            except psycopg.Error as error:
                if not is_told:
                    logger.warning("The liveness lock cannot be taken yet: %s", error)
                is_told = True
                time.sleep(PROBE_PAUSE / 5)

    def close(self) -> None:
        self.reopens = False
        self.connection.close()
        self.thread.join(timeout=2)
