"""Vectors in PostgreSQL where the database has the extension pgvector, which compares them itself.

They lie in a column of the entry's row, so they leave with it. A person's vectors are all compared:
that takes milliseconds for thousands, and finds the nearest for certain. An index of neighbours
(HNSW) walks through everybody's and has to pass over what is not this person's. See docs/memory.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

from django.db import connection

from chat.search.scopes import Scope

IS_READY = (
    "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'chat_searchentry'::regclass"
    " AND attname = 'meaning' AND NOT attisdropped)"
)
IS_INSTALLED = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')"
IS_AVAILABLE = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')"
# Without a number of dimensions: each model has its own.
MAKE = "ALTER TABLE chat_searchentry ADD COLUMN IF NOT EXISTS meaning vector"
NOT_INSTALLED = (
    "The server has the extension pgvector, and this database does not use it: run"
    " 'CREATE EXTENSION vector' in it and rebuild_search once more to search by meaning faster."
)


def is_ready() -> bool:
    """Whether vectors lie in a column of pgvector's type here."""
    return _is_so(IS_READY)


def make_ready() -> str | None:
    """Make the column where the database has the extension; what the operator should know."""
    if _is_so(IS_INSTALLED):
        with connection.cursor() as cursor:
            cursor.execute(MAKE)
        return None
    return NOT_INSTALLED if is_available() else None


def is_available() -> bool:
    """Whether the server has the extension, in this database or not."""
    return _is_so(IS_AVAILABLE)


def write(model: str, vectors: Mapping[int, bytes]) -> None:
    """Give entries a vector, instead of the one that they have in either column."""
    rows = [(literal_of(array("f", each)), model, entry) for entry, each in vectors.items()]
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE chat_searchentry SET meaning = %s::vector, vector = NULL, vector_model = %s"
            " WHERE id = %s",
            rows,
        )


def nearest(scope: Scope, model: str, asked: array[float], most: int) -> list[int]:
    """The entries of `scope` whose vectors are nearest to `asked`, the nearest first."""
    condition, values = scope.condition()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.id FROM chat_searchentry e"
            f" WHERE e.vector_model = %s AND vector_dims(e.meaning) = %s AND {condition}"
            " ORDER BY e.meaning <#> %s::vector, e.id DESC LIMIT %s",
            [model, len(asked), *values, literal_of(asked), most],
        )
        return [entry for (entry,) in cursor.fetchall()]


def literal_of(vector: Iterable[float]) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(repr, vector))}]"


def _is_so(question: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(question)
        return bool(cursor.fetchone()[0])
