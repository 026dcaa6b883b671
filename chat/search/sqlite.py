"""Words in SQLite: one row of an FTS5 table an entry, under the entry's id.

A trigger of the migration removes the row with the entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from chat.search.engines import Posting
from chat.search.entries import COLUMNS, TEXTS, Words
from chat.search.scopes import Scope

STORED = (*COLUMNS, "owner")
LENGTHS = tuple(f"{name}_length" for name in TEXTS)
WRITE = (
    f"INSERT OR REPLACE INTO chat_search_words (rowid, {', '.join((*LENGTHS, *STORED))})"
    f" VALUES (%s{', %s' * len((*LENGTHS, *STORED))})"
)
READ_LENGTHS = ", ".join(f"w.{name}" for name in LENGTHS)
MERGE_PAGES = 500  # that one step of `optimise` writes at most


class Sqlite:
    def write(self, entries: Mapping[int, Words]) -> None:
        rows = [row_of(entry, words) for entry, words in entries.items()]
        with connection.cursor() as cursor:
            cursor.executemany(WRITE, rows)

    def replace(self, entry_id: int, column: str, words: Sequence[str]) -> None:
        _run(
            f"UPDATE chat_search_words SET {column} = %s, {column}_length = %s WHERE rowid = %s",
            [" ".join(words), len(words), entry_id],
        )

    def postings(self, scope: Scope, words: Sequence[str], most: int) -> list[Posting]:
        condition, values = scope.condition()
        owner = _any_of("owner", scope.words())
        parts, parameters = [], list[Any]()
        for number, word in enumerate(words):
            for column, name in enumerate(COLUMNS):
                parts.append(
                    f"SELECT * FROM (SELECT {number}, {column}, e.id, {READ_LENGTHS}"
                    " FROM chat_search_words w JOIN chat_searchentry e ON e.id = w.rowid"
                    f" WHERE w.chat_search_words MATCH %s AND {condition}"
                    " ORDER BY w.rowid DESC LIMIT %s)"
                )
                parameters += [f'{name} : "{word}"{owner}', *values, most]
        rows = _run(" UNION ALL ".join(parts), parameters)
        return [
            Posting(word, column, entry, (own, previous, following))
            for word, column, entry, own, previous, following in rows
        ]

    def write_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT OR REPLACE INTO chat_search_vectors (entry_id, model, vector)"
                " VALUES (%s, %s, %s)",
                [(entry, model, vector) for entry, vector in vectors.items()],
            )

    def vectors(self, scope: Scope, model: str, most: int) -> list[tuple[int, bytes]]:
        condition, values = scope.condition()
        rows = _run(
            "SELECT e.id, v.vector FROM chat_searchentry e"
            " JOIN chat_search_vectors v ON v.entry_id = e.id"
            f" WHERE v.model = %s AND {condition} ORDER BY e.id DESC LIMIT %s",
            [model, *values, most],
        )
        return [(entry, bytes(vector)) for entry, vector in rows]

    def nearest(self, scope: Scope, model: str, asked: array[float], most: int) -> None:
        """SQLite compares no vectors."""

    def prepare_vectors(self) -> None:
        """Nothing: their table is made by the migrations."""

    def optimise(self) -> None:
        """Merge the index until nothing of deleted rows is left in it, a bounded step at a time."""
        pages = -MERGE_PAGES  # negative: begin a merge of everything
        while _changes_of_merging(pages) > 1:
            pages = MERGE_PAGES
        _run("PRAGMA wal_checkpoint(TRUNCATE)")


def row_of(entry_id: int, words: Words) -> tuple[int | str, ...]:
    """What WRITE takes."""
    return (entry_id, *words.lengths, *(" ".join(getattr(words, name)) for name in STORED))


def _changes_of_merging(pages: int) -> int:
    """What one step of merging changed; below 2 there is nothing left to do, says SQLite."""
    before = _total_changes()
    _run(
        "INSERT INTO chat_search_words (chat_search_words, rank) VALUES ('merge', %s)",
        [pages],
    )
    return _total_changes() - before


def _total_changes() -> int:
    return int(_run("SELECT total_changes()")[0][0])


def _any_of(column: str, words: Sequence[str]) -> str:
    quoted = " OR ".join(f'"{word}"' for word in words)
    return f" AND {column} : ({quoted})" if words else ""


def _run(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
