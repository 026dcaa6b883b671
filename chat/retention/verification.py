"""Looking for what should be gone: in every table, in the cache, in files, in SQLite's own file.

It reads all of them, so it takes as long as they are large. `chat.retention.needles` says in which
forms texts and names are found; in tables also as addresses escape them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import unquote_plus

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connection
from django.utils import timezone

from chat.limits import CACHE_AWAY
from chat.models import DeletionReceipt
from chat.retention.needles import Needles

CHUNK = 1 << 20  # bytes of a file that are looked at together
FEW_ROWS = 200  # fetched at once
SHOWN_ROWS = 5  # of a place, by their ids
MOST_PATTERNS = 200  # of one statement: SQLite takes less than a thousand
LONGEST_PATTERN = 1_000  # characters; what begins like a text is then compared as a whole
# Names of code, not of people; account names such as "admin" are words in them.
OF_CODE = {"auth_permission", "django_content_type", "django_migrations"}
WITHOUT_WORDS = re.compile(r"\w*(Integer|Auto|Boolean|Date|Time|DateTime|Decimal|Float)Field")


@dataclass
class Findings:
    """How often something was found, by place, and in which rows; how much was looked at; what
    could not be."""

    found: Counter[str] = field(default_factory=Counter)
    rows: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the first rows of each place: for whoever looks, and on no receipt."""
    searched: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)

    def note(self, place: str, row: str) -> None:
        self.found[place] += 1
        rows = self.rows.setdefault(place, [])
        if row and len(rows) < SHOWN_ROWS:
            rows.append(row)

    @property
    def in_words(self) -> str:
        """Every place with how often, and the first rows by their ids."""
        return ", ".join(
            f"{place} ({count}{self._rows_in_words(place)})"
            for place, count in sorted(self.found.items())
        )

    def _rows_in_words(self, place: str) -> str:
        ids = self.rows.get(place, [])
        more = ", …" if ids and self.found[place] > len(ids) else ""
        return f": {', '.join(ids)}{more}" if ids else ""

    @property
    def as_data(self) -> dict[str, Any]:
        return {
            "found": dict(sorted(self.found.items())),
            "searched": dict(sorted(self.searched.items())),
            "skipped": self.skipped,
        }


def verify(needles: Needles, receipt: DeletionReceipt | None = None) -> Findings:
    """Look everywhere; the receipt keeps the result, by place and without what was looked for."""
    findings = Findings()
    search_tables(needles, findings)
    search_cache(needles, findings)
    search_files(needles, findings)
    search_database_file(needles, findings)
    if receipt is not None:
        receipt.verification = findings.as_data
        receipt.verified_at = timezone.now()
        receipt.save(update_fields=["verification", "verified_at"])
    return findings


# --- Tables ---------------------------------------------------------------------------------------


def search_tables(needles: Needles, findings: Findings) -> None:
    """Every column of every table that can hold text, and every reference to the person."""
    with connection.cursor() as cursor:
        tables = sorted(connection.introspection.table_names(cursor))
    for table in tables:
        columns = text_columns(table)
        if columns:
            findings.searched["columns"] += len(columns)
            search_table(table, columns, needles, findings)
        search_references(table, needles, findings)
    findings.searched["tables"] += len(tables)


def text_columns(table: str) -> list[str]:
    """Columns whose values may hold words: all but numbers, times and truth values."""
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table)
    return [each.name for each in described if not WITHOUT_WORDS.fullmatch(kind_of(each))]


def kind_of(column: Any) -> str:
    """Django's name for a column's type; what it does not know may hold anything."""
    try:
        return str(connection.introspection.get_field_type(column.type_code, column))
    except KeyError:
        return "unknown"


def search_table(table: str, columns: list[str], needles: Needles, findings: Findings) -> None:
    if not (candidates := needles.candidates):
        return
    for column in columns:
        for row, value in may_hold(table, column, candidates):
            with_names = table not in OF_CODE
            forms = {value, unquote_plus(value)}  # a query string, perhaps
            if any(needles.are_in(each, with_names=with_names) for each in forms):
                findings.note(f"{table}.{column}", row)


def may_hold(table: str, column: str, candidates: Collection[str]) -> Iterator[tuple[str, str]]:
    """Values of a column that hold one of the texts, each after the id of its row.

    Whatever the capitals, as far as the database knows them; "" where a table has no key.
    """
    with connection.cursor() as cursor:
        key = connection.introspection.get_primary_key_column(cursor, table)
    named, text = as_text(key) if key else "''", as_text(column)
    like = "ILIKE" if connection.vendor == "postgresql" else "LIKE"
    patterns = [f"%{escaped(each[:LONGEST_PATTERN])}%" for each in candidates]
    told = set[int]()  # by earlier statements
    for start in range(0, len(patterns), MOST_PATTERNS):
        batch = patterns[start : start + MOST_PATTERNS]
        condition = " OR ".join([f"{text} {like} %s ESCAPE '!'"] * len(batch))
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {named}, {text} FROM {connection.ops.quote_name(table)} WHERE {condition}",
                batch,
            )
            found = list[int]()
            while rows := cursor.fetchmany(FEW_ROWS):
                texts = [row for row in rows if isinstance(row[1], str) and hash(row) not in told]
                found += map(hash, texts)
                yield from texts
            told.update(found)


def as_text(column: str) -> str:
    kind = "CHAR" if connection.vendor == "mysql" else "TEXT"
    return f"CAST({connection.ops.quote_name(column)} AS {kind})"


def escaped(text: str) -> str:
    """A text as LIKE takes it."""
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return text


def search_references(table: str, needles: Needles, findings: Findings) -> None:
    """Foreign keys to a person who is gone: an engine that checks them has none."""
    account = get_user_model()._meta.db_table
    with connection.cursor() as cursor:
        relations = connection.introspection.get_relations(cursor, table)
        for column, (_, target) in relations.items():
            if target != account or not needles.user_ids:
                continue
            quote = connection.ops.quote_name
            marks = ", ".join(["%s"] * len(needles.user_ids))
            cursor.execute(
                f"SELECT COUNT(*) FROM {quote(table)} WHERE {quote(column)} IN ({marks})",
                needles.user_ids,
            )
            if count := cursor.fetchone()[0]:
                findings.found[f"{table}.{column}"] += count


# --- The cache ------------------------------------------------------------------------------------


def search_cache(needles: Needles, findings: Findings) -> None:
    """Every key of the Redis database, and what it holds; other caches cannot be listed."""
    backend = caches["default"]
    if not isinstance(backend, RedisCache):
        kind = type(backend).__name__
        findings.skipped.append(
            f"The cache ({kind}) cannot list its keys. What one process keeps in its own memory"
            " goes when that process ends."
        )
        return
    client = backend._cache.get_client(None, write=False)
    try:
        for key in client.scan_iter(count=1000):
            findings.searched["cache_keys"] += 1
            value = b"\n".join(values_of(client, key))
            if needles.are_in(key.decode("utf-8", "replace")) or needles.are_in_bytes(value):
                findings.found["cache"] += 1
    except CACHE_AWAY as error:
        findings.skipped.append(f"The cache does not answer and was not searched: {error}")


def values_of(client: Any, key: bytes) -> list[bytes]:
    """What a key of Redis holds, whatever its type; nothing when it has just expired."""
    read: dict[bytes, Callable[[], Any]] = {
        b"string": lambda: [client.get(key) or b""],
        b"hash": lambda: [each for pair in client.hgetall(key).items() for each in pair],
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: list(client.smembers(key)),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"stream": lambda: [str(client.xrange(key)).encode()],
    }
    kind = client.type(key)
    return list(read[kind]()) if kind in read else []


# --- Files ----------------------------------------------------------------------------------------


def search_files(needles: Needles, findings: Findings) -> None:
    """Names and contents of everything below MEDIA_ROOT."""
    if not isinstance(default_storage, FileSystemStorage):
        kind = type(default_storage).__name__
        findings.skipped.append(f"The store of files ({kind}) was not searched.")
        return
    root = Path(settings.MEDIA_ROOT)
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        findings.searched["files"] += 1
        if needles.are_in(path.relative_to(root).as_posix()) or is_in_file(path, needles):
            findings.found["files"] += 1


def is_in_file(path: Path, needles: Needles) -> bool:
    with path.open("rb") as file:
        return is_in_stream(file, needles)


def is_in_stream(stream: IO[bytes], needles: Needles) -> bool:
    before = b""
    while data := stream.read(CHUNK):
        if needles.are_in_bytes(before + data):
            return True
        before = (before + data)[-needles.longest - 1 :]
    return False


READ_ALOUD = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer)"


@contextmanager
def open_elsewhere(path: Path) -> Iterator[IO[bytes]]:
    """A file as another process reads it out.

    Were this process to close a file that SQLite has open in it, the locks of all its connections
    would be gone with that (a rule of POSIX), and another process could take its log away.
    """
    command = [sys.executable, "-c", READ_ALOUD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield cast(IO[bytes], process.stdout)  # there is one: it was asked for
        finally:
            process.kill()


def search_database_file(needles: Needles, findings: Findings) -> None:
    """SQLite's own files byte by byte: what was deleted may stand in pages that nobody uses."""
    if connection.vendor != "sqlite":
        findings.skipped.append(NOT_SEARCHED[connection.vendor])
        return
    name = str(connection.settings_dict["NAME"])
    shown = Needles([*needles.texts, *names_of_people_alone(needles)])
    for path in (Path(f"{name}{ending}") for ending in ("", "-wal", "-journal")):
        if path.is_file():
            findings.searched["database_files"] += 1
            with open_elsewhere(path) as content:
                is_found = is_in_stream(content, shown)
            if is_found:
                findings.found["database_files"] += 1


def names_of_people_alone(needles: Needles) -> list[str]:
    """Names that are no words of code too, which a database file always holds."""
    code = Counter[str]()
    for name in needles.names:
        for table in sorted(OF_CODE):
            for column in text_columns(table):
                values = may_hold(table, column, [name])
                code[name] += sum(Needles(names=[name]).are_in(each) for _, each in values)
    return [name for name in needles.names if not code[name]]


NOT_SEARCHED = {
    "postgresql": (
        "PostgreSQL keeps deleted rows in its files until VACUUM has gone over them (autovacuum"
        " does so by itself), and in the write-ahead log until it is recycled; these files were not"
        " searched."
    ),
    "mysql": (
        "MariaDB keeps deleted rows in its files until they are purged and the pages used again,"
        " and in the binary log if there is one; these files were not searched."
    ),
}
BACKUPS = (
    "Backups that were made before still hold what was deleted: let them expire, and after"
    " restoring one run `manage.py tombstones --replay`."
)
