"""What does a page of the admin cost with few messages, and with a hundred times as many?

Fills an empty database with sample data (`DATABASE_URL`; a SQLite file otherwise), opens every page
that `admin.site.get_urls()` knows and lists with typical filters, fills it further and opens them
again. Then exports rows through the ASGI application and deletes sessions, and says how much memory
that took. Floors are measured in the same run: the page of a list with two rows, reading the same
rows with one cursor, and deleting without the product.

    DATABASE_URL=postgres://... python benchmarks/admin.py --small 10000 --large 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
scratch = tempfile.TemporaryDirectory(prefix="chat-bench-")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatproject.settings")
os.environ.setdefault("READ_DOT_ENV", "false")
os.environ.setdefault("SECRET_KEY", "benchmarks-only-" + "0123456789" * 4)
os.environ.setdefault("DATABASE_URL", f"sqlite:///{scratch.name}/bench.sqlite3")
os.environ.setdefault("SERVE_STATIC_FROM_SOURCE", "true")
os.environ["CHAT_EXPORT_ROWS_INLINE"] = "10000000"

import django  # noqa: E402

django.setup()
logging.disable(logging.WARNING)  # of routes that are tried and refuse

from django.contrib import admin  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, connections  # noqa: E402
from django.db.models import Count  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import NoReverseMatch, URLPattern, URLResolver, reverse  # noqa: E402

from chat import demo_data, retention  # noqa: E402
from chat.models import (  # noqa: E402
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextRecord,
    ModelEndpoint,
)
from chatproject.asgi import application  # noqa: E402

ROUNDS = 7
AUTOCOMPLETE = "app_label=memory&model_name=userpreference&field_name=user&term=00007"
NOT_ALLOWED = 405  # a route that answers POST alone
PER_SESSION = 20  # messages
LONGEST = 1_000  # messages of the session that is opened: as many in a small database
OF_A_PERSON = 5  # sessions of the person whose sessions are listed
SKIPPED = ("_add", "_delete", "_history", "_file", "_remove", "_test")  # and what answers POST only
FILTERS = {
    "chat_chatsession": [
        "review=flagged",
        "tag=价格",
        "feedback=bad",
        "error=any",
        "state=held",
        "person={person}",
        "assistant=demo-data-tools",
        "last_active_at_from=2026-01-01&last_active_at_through=2026-12-31",
        "q=Travel",
        "p=8",
    ],
    "chat_chatturn": ["status__exact=failed", "p=8"],
    "chat_chatmessage": ["chat_session__id__exact={session}", "p=8"],
    "chat_contextrecord": ["chat_session__id__exact={session}"],
    "memory_userpreference": ["status__exact=active"],
}


@dataclass(frozen=True)
class Figure:
    queries: int
    ms: float
    status: int
    rows: int
    """Of a list or the queue; 0 for any other page."""


# --- Filling --------------------------------------------------------------------------------------


def fill(messages: int, seed: int) -> None:
    if messages < 2:
        return
    order = demo_data.Order(
        sessions=max(1, messages // PER_SESSION),
        messages=messages,
        seed=seed,
        tenants=3,
        users=max(3, min(5_000, messages // 100)),
        until=datetime(2026, 11, 30, tzinfo=UTC),
    )
    done = demo_data.run(order)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")  # as autovacuum would have done by itself
    print(
        f"{connection.vendor}: {done.messages:,} messages in {done.sessions:,} sessions written in"
        f" {done.seconds:.0f} s ({done.messages / done.seconds:,.0f}/s)",
        flush=True,
    )


# --- Pages ----------------------------------------------------------------------------------------


def routes() -> Iterator[tuple[str, str]]:
    """Every named route of the site: its name and its pattern."""

    def walk(patterns: Any, prefix: str) -> Iterator[tuple[str, str]]:
        for each in patterns:
            route = prefix + str(each.pattern)
            if isinstance(each, URLResolver):
                yield from walk(each.url_patterns, route)
            elif isinstance(each, URLPattern) and each.name:
                yield each.name, route

    return walk(admin.site.get_urls(), "")


def values() -> dict[str, Any]:
    """What stands for an argument of a route: a long session and what belongs to it."""
    long = ChatSession.objects.filter(message_count__lte=LONGEST)
    session = long.order_by("-message_count", "pk").first()
    assert session is not None
    turns = ChatTurn.objects.filter(chat_session=session).order_by("-number")
    record = ContextRecord.objects.filter(chat_session=session).first()
    app_label = "chat"
    return {
        "session_id": session.pk,
        "turn_id": turns.values_list("pk", flat=True).first(),
        "record_id": record.pk if record else None,
        "message_id": session.head_id,
        "seq": session.next_seq // 2,
        "app_label": app_label,
        "source": "chatsession",
        "person": somebody(),
    }


def somebody() -> str:
    """A person who holds OF_A_PERSON sessions, so that both lists are as long."""
    held = ChatSession.objects.order_by().values("user__username").annotate(held=Count("pk"))
    return str(held.filter(held=OF_A_PERSON).order_by("user").first()["user__username"])


def addresses() -> tuple[dict[str, str], list[str]]:
    """By label: the pages to open; and the routes that cannot be opened without more."""
    known, found, left_out = values(), {}, []
    rows = {
        f"{model._meta.app_label}_{model._meta.model_name}": page.model._default_manager
        for model, page in admin.site._registry.items()
    }
    for name, route in routes():
        if name == "autocomplete":
            found[name] = f"{reverse('admin:autocomplete')}?{AUTOCOMPLETE}"
            continue
        names = re.findall(r"<(?:\w+:)?(\w+)>", route)
        if name.endswith(SKIPPED) or name in ("logout", "jsi18n", "view_on_site"):
            continue
        model = name.removesuffix("_change")
        if names == ["object_id"] and model in rows:
            row = rows[model].order_by("pk").first()
            arguments = {"object_id": row.pk} if row is not None else None
        else:
            wanted = {each: known.get(each) for each in names}
            arguments = None if None in wanted.values() else wanted
        try:
            address = reverse(f"admin:{name}", kwargs=arguments) if arguments is not None else None
        except NoReverseMatch:
            address = None
        if address is None:
            left_out.append(name)
            continue
        found[name] = address
        for query in FILTERS.get(name.removesuffix("_changelist"), []):
            if name.endswith("_changelist"):
                asked = query.format(session=known["session_id"], person=known["person"])
                found[f"{name} ?{query.split('{')[0][:36]}"] = f"{address}?{asked}"
    return found, left_out


def measure(client: Client, address: str) -> Figure:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(address)
    count = len(queries)  # before the next request clears the log
    times = []  # the fastest counts: the others waited for something else
    for _ in range(ROUNDS):
        started = time.perf_counter()
        client.get(address)
        times.append((time.perf_counter() - started) * 1000)
    return Figure(count, min(times), answer.status_code, rows_of(answer))


def rows_of(answer: Any) -> int:
    """How many rows a list shows, or the three lists of the queue together."""
    context = getattr(answer, "context_data", None) or {}
    if "cl" in context:
        return len(context["cl"].result_list)
    return sum(len(context.get(name, ())) for name in ("mine", "waiting", "others"))


def pages(client: Client) -> dict[str, Figure]:
    found, left_out = addresses()
    figures = {label: measure(client, address) for label, address in found.items()}
    figures = {label: each for label, each in figures.items() if each.status != NOT_ALLOWED}
    if left_out:
        print("not opened:", ", ".join(sorted(set(left_out))))
    return figures


def table(small: dict[str, Figure], large: dict[str, Figure], sizes: tuple[int, int]) -> None:
    floor = large["chat_modelendpoint_changelist"].ms
    print(f"\nfloor, a list of {ModelEndpoint.objects.count()} rows: {floor:.1f} ms\n")
    print(
        f"{'page':<62}{'queries':>9}{sizes[0]:>11,}{sizes[1]:>11,}{'ratio':>7}{'/floor':>8}"
        f"{'rows':>8}"
    )
    for label in sorted(large, key=lambda each: -large[each].ms):
        few, many = small.get(label), large[label]
        before = f"{few.ms:>9.1f}ms" if few else f"{'–':>11}"
        ratio = f"{many.ms / few.ms:>7.2f}" if few else f"{'–':>7}"
        changed = f"{few.queries}>" if few and few.queries != many.queries else ""
        status = "" if many.status == 200 else f"  {many.status}"
        fewer = f"{few.rows}>" if few and few.rows != many.rows else ""
        rows = fewer + str(many.rows) if many.rows else ""
        print(
            f"{label:<62}{changed + str(many.queries):>9}{before}{many.ms:>9.1f}ms{ratio}"
            f"{many.ms / floor:>8.2f}{rows:>8}{status}"
        )


# --- Memory ---------------------------------------------------------------------------------------


def megabytes(name: str) -> float:
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0


def added_memory(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, megabytes above what the process held before, and what `work` gave."""
    before = megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, megabytes("VmHWM") - before, result


# --- Exporting ------------------------------------------------------------------------------------


async def request(cookies: str, address: str, body: bytes, line_end: bytes) -> dict[str, float]:
    """One POST through the ASGI application; when it was answered, and how much."""
    path, _, query = address.partition("?")
    headers = {
        "host": "localhost",
        "cookie": cookies,
        "content-type": "application/x-www-form-urlencoded",
        "content-length": str(len(body)),
        "referer": "http://localhost/",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    given = [{"type": "http.request", "body": body, "more_body": False}]
    seen: dict[str, float] = {"bytes": 0, "lines": 0}
    ends = [b""]
    started = time.perf_counter()
    forever = asyncio.Event()

    async def receive() -> Any:
        if given:
            return given.pop()
        await forever.wait()  # nobody hangs up
        return None

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            seen["status"] = event["status"]
        elif event.get("body"):
            seen.setdefault("first", time.perf_counter() - started)
            seen["bytes"] += len(event["body"])
            seen["lines"] += (ends.pop() + event["body"]).count(line_end)
            ends.append(b"\r" if event["body"].endswith(b"\r") else b"")  # a piece may end there

    await application(scope, receive, send)
    return seen


def export(client: Client, kind: str, form: str) -> None:
    address = reverse("admin:chat_exportjob_new", args=["chatsession"])
    client.get(address)
    cookies = "; ".join(f"{name}={each.value}" for name, each in client.cookies.items())
    given = {
        "csrfmiddlewaretoken": client.cookies["csrftoken"].value,
        "kind": kind,
        "format": form,
        "with_text": "on",
    }
    body = urlencode(given).encode()
    end = b"\r\n" if form == "csv" else b"\n"
    seconds, added, seen = added_memory(lambda: asyncio.run(request(cookies, address, body, end)))
    print(
        f"export {kind} {form}: {seen['lines']:,.0f} rows, {seen['bytes'] / 1e6:,.0f} MB,"
        f" first byte {seen.get('first', 0) * 1000:.0f} ms, {seconds:.1f} s"
        f" ({seen['lines'] / seconds:,.0f}/s), added memory {added:.0f} MB, {seen['status']:.0f}"
    )


def read_floor() -> None:
    """The same messages with one cursor and nothing but JSON made of them."""
    names = ("id", "chat_session_id", "seq", "role", "content", "tool_calls", "created_at")

    def read() -> int:
        rows = ChatMessage.objects.order_by("chat_session_id", "seq").values(*names)
        return sum(len(json.dumps(row, default=str)) > 0 for row in rows.iterator(1_000))

    seconds, added, count = added_memory(read)
    print(
        f"floor, one cursor: {count:,} rows, {seconds:.1f} s ({count / seconds:,.0f}/s), added"
        f" memory {added:.0f} MB"
    )


# --- Deleting -------------------------------------------------------------------------------------


def delete(count: int) -> None:
    ids = list(
        ChatSession.objects.filter(is_held=False, message_count__lt=500)
        .order_by("pk")
        .values_list("pk", flat=True)[: count + 50]
    )
    plain, ours = ids[:50], ids[50:]

    def plainly() -> None:
        ChatSession.objects.filter(pk__in=plain).delete()

    def carefully() -> None:
        for each in ours:
            retention.forget_session(each, reason="benchmark")

    seconds, added, _ = added_memory(plainly)
    print(
        f"floor, QuerySet.delete() of {len(plain)}: {seconds * 1000 / len(plain):.1f} ms each,"
        f" added memory {added:.0f} MB"
    )
    seconds, added, _ = added_memory(carefully)
    print(
        f"deleting {len(ours):,} sessions: {seconds:.1f} s, {seconds * 1000 / len(ours):.1f} ms"
        f" each, added memory {added:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--small", type=int, default=10_000, help="messages")
    parser.add_argument("--large", type=int, default=1_000_000, help="messages")
    parser.add_argument("--delete", type=int, default=5_000, help="sessions")
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    if ChatSession.objects.exists():
        sys.exit("The database holds conversations already: give an empty one in DATABASE_URL.")
    root = get_user_model().objects.create_superuser(f"bench-{uuid.uuid4().hex[:8]}")
    client = Client(SERVER_NAME="localhost")
    client.force_login(root)
    fill(options.small, seed=1)
    small = pages(client)
    fill(options.large - options.small, seed=2)
    large = pages(client)
    table(small, large, (options.small, options.large))
    print()
    read_floor()
    for kind, form in (("messages", "jsonl"), ("messages", "csv"), ("sessions", "csv")):
        export(client, kind, form)
    delete(options.delete)
    connections.close_all()


if __name__ == "__main__":
    main()
