"""Does a turn's memory cost the same in a short and in a very long session?

Floor: the plain ORM query for the newest 20 messages of the session. Measured: reading through
`SessionHistory`, choosing the window (rebuild), reading the snapshot instead, and assembling the
request, in a session of 100 messages and in one of MESSAGES. Then 100 sessions at once.

`DATABASE_URL` names the database (it is filled and emptied again); a SQLite file otherwise.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
scratch = tempfile.TemporaryDirectory(prefix="chat-bench-")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatproject.settings")
os.environ.setdefault("READ_DOT_ENV", "false")
os.environ.setdefault("SECRET_KEY", "benchmarks-only-" + "0123456789" * 4)
os.environ.setdefault("DATABASE_URL", f"sqlite:///{scratch.name}/bench.sqlite3")

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, connections, transaction  # noqa: E402

from chat.models import ChatMessage, ChatSession  # noqa: E402
from chat.turns import policies  # noqa: E402
from chat.turns.history import SessionHistory, history_message  # noqa: E402
from memory import context, recall, snapshots  # noqa: E402
from memory.context import HistoryMessage  # noqa: E402
from memory.messages import Message  # noqa: E402
from memory.recall import SessionState  # noqa: E402
from tests import builders  # noqa: E402

SHORT = 100
MESSAGES = int(os.environ.get("MESSAGES", "1000000"))
SESSIONS = 100
ROUNDS = 60
TEXT = "The window holds what was said last, and nothing of what was cleared. 记忆窗口 "


def fill(chat_session: ChatSession, count: int) -> None:
    """`count` messages of an ordinary length, alternating, as one transaction."""
    with transaction.atomic():
        for start in range(1, count + 1, 10_000):
            ChatMessage.objects.bulk_create(
                ChatMessage(
                    chat_session=chat_session,
                    seq=seq,
                    role="user" if seq % 2 else "assistant",
                    content=f"{seq} {TEXT}",
                    token_count=30,
                    token_encoding="o200k_base",
                )
                for seq in range(start, min(start + 10_000, count + 1))
            )
        ChatSession.objects.filter(pk=chat_session.pk).update(
            next_seq=count + 1, message_count=count, path_count=count
        )


class Turn:
    """The memory work of the next turn of one session, step by step."""

    def __init__(self, chat_session: ChatSession, count: int) -> None:
        self.session = ChatSession.objects.select_related("assistant__endpoint").get(
            pk=chat_session.pk
        )
        self.count = count
        self.policy = policies.memory_policy(self.session)
        self.owner = policies.owner_of(self.session)
        self.state = SessionState(self.session.pk, 0, 0, count)
        self.reader = SessionHistory(self.session.pk, after=0, before=count + 1)
        text = Message.user("And now?")
        self.current = HistoryMessage(text, count + 1, str(uuid.uuid4()), None)

    def floor(self) -> object:
        rows = ChatMessage.objects.filter(
            chat_session=self.session, is_on_path=True, seq__lte=self.count
        )
        return list(rows.order_by("-seq")[:20])

    def last_twenty(self) -> object:
        return self.reader.newest(None, 20)

    def rebuild(self) -> recall.Recalled:
        snapshots.drop(self.session.pk)
        return recall.recall(self.reader, self.state, self.owner, self.policy)

    def snapshot(self) -> recall.Recalled:
        return recall.recall(self.reader, self.state, self.owner, self.policy)

    def assemble(self) -> object:
        return context.assemble(
            prompt=builders.PROMPT,
            window=self.window,
            current=self.current,
            budget=policies.request_budget(self.session.assistant.endpoint),
            encoding=self.policy.encoding,
        )

    def save_snapshot(self) -> None:
        self.window = self.rebuild().window
        snapshots.save(self.state, self.policy, self.window, self.count)


def milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def compare(short: Turn, long: Turn) -> None:
    print(f"{'median ms':<34}{SHORT:>10}{MESSAGES:>12}{'ratio':>8}")
    figures = {}
    for name in ("floor", "last_twenty", "rebuild"):
        figures[name] = row(name, short, long)
    for turn in (short, long):
        turn.save_snapshot()
    for name in ("snapshot", "assemble"):
        figures[name] = row(name, short, long)
    print(f"last_twenty / floor: {figures['last_twenty'] / figures['floor']:.2f} (at most 1.3)")


def row(name: str, short: Turn, long: Turn) -> float:
    a, b = milliseconds(getattr(short, name)), milliseconds(getattr(long, name))
    print(f"{name:<34}{a:>10.2f}{b:>12.2f}{b / a:>8.2f} (at most 1.2)")
    return b


@contextmanager
def thread_connections() -> Iterator[None]:
    try:
        yield
    finally:
        connections.close_all()


def many_sessions(sessions: list[ChatSession], each: int) -> None:
    """100 sessions at once: the query, making values of the rows, and the whole memory work."""

    def query(chat_session: ChatSession) -> list[Any]:
        with thread_connections():
            return Turn(chat_session, each).floor()  # type: ignore[return-value]

    def values(chat_session: ChatSession) -> int:
        with thread_connections():
            rows: list[Any] = Turn(chat_session, each).floor()  # type: ignore[assignment]
            return len([history_message(one) for one in rows])

    def whole(chat_session: ChatSession) -> object:
        with thread_connections():
            return Turn(chat_session, each).rebuild()

    for name, work in (("query", query), ("query and values", values), ("whole", whole)):
        started = time.perf_counter()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, sessions))
        took = (time.perf_counter() - started) * 1000
        print(f"100 sessions, {name:<20}{took:>10.0f} ms, {took / len(sessions):.2f} ms each")


def main() -> None:
    call_command("migrate", verbosity=0)
    short, long = builders.chat_session(), builders.chat_session()
    started = time.perf_counter()
    fill(short, SHORT)
    fill(long, MESSAGES)
    print(f"{connection.vendor}: {MESSAGES + SHORT} rows in {time.perf_counter() - started:.0f} s")
    compare(Turn(short, SHORT), Turn(long, MESSAGES))
    sessions = [builders.chat_session() for _ in range(SESSIONS)]
    for each in sessions:
        fill(each, 200)
    many_sessions(sessions, 200)
    connections.close_all()


if __name__ == "__main__":
    main()
