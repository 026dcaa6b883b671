"""Words in PostgreSQL: a tsvector of the entry's own row, its columns as weights A to D.

Its literals are made here, of words that hold nothing but letters, digits, marks and "_". How many
words a column has is counted by the database (generated columns, see the migrations).
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from chat.search import pgvector
from chat.search.engines import Posting
from chat.search.entries import COLUMNS, Words
from chat.search.scopes import Scope

WEIGHTS = dict(zip(COLUMNS, "ABCD", strict=True))
RECENT = 20_000  # entries in which a common word is sure to be found often enough
OWNER = "D"  # as good as any: no question asks for such a word

# Each word is looked up by itself. The OFFSET 0 keeps the planner from walking all entries from
# the newest on in the hope of meeting a rare word.
POSTINGS = """
SELECT asked.number, mine.id, mine.own_length, mine.previous_length, mine.next_length,
       mine.words @@ (asked.word || ':A')::tsquery, mine.words @@ (asked.word || ':B')::tsquery,
       mine.words @@ (asked.word || ':C')::tsquery, mine.words @@ (asked.word || ':D')::tsquery
FROM unnest(%s::int[], %s::text[]) AS asked (number, word)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT e.id, e.words, e.own_length, e.previous_length, e.next_length
        FROM chat_searchentry e
        WHERE e.words @@ (asked.word || %s)::tsquery AND e.id > %s AND {condition} OFFSET 0
    ) AS found
    ORDER BY found.id DESC LIMIT %s
) AS mine
"""


class Postgres:
    def write(self, entries: Mapping[int, Words]) -> None:
        rows = [(literal_of(words), entry) for entry, words in entries.items()]
        with connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE chat_searchentry SET words = %s::tsvector WHERE id = %s", rows
            )

    def replace(self, entry_id: int, column: str, words: Sequence[str]) -> None:
        others = ",".join(weight for name, weight in WEIGHTS.items() if name != column)
        _run(
            f"UPDATE chat_searchentry SET words = ts_filter(words, '{{{others}}}') || %s::tsvector"
            " WHERE id = %s",
            [_literal({column: words}), entry_id],
        )

    def postings(self, scope: Scope, words: Sequence[str], most: int) -> list[Posting]:
        if scope.user_id is not None:
            return _postings(scope, dict(enumerate(words)), most)
        # Among everybody's messages a common word stands in too many rows to fetch and sort: it is
        # looked for in the newest ones first, and further back only if that was not enough.
        asked = dict(enumerate(words))
        found = _postings(scope, asked, most, after=_newest_entry() - RECENT)
        entries = Counter(word for word, _ in {(each.word, each.entry) for each in found})
        rare = {number: word for number, word in asked.items() if entries[number] < most}
        common = [each for each in found if each.word not in rare]
        return common + _postings(scope, rare, most)

    def write_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        if pgvector.is_ready():
            pgvector.write(model, vectors)
            return
        with connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE chat_searchentry SET vector = %s, vector_model = %s WHERE id = %s",
                [(vector, model, entry) for entry, vector in vectors.items()],
            )

    def vectors(self, scope: Scope, model: str, most: int) -> list[tuple[int, bytes]]:
        condition, values = scope.condition()
        rows = _run(
            "SELECT e.id, e.vector FROM chat_searchentry e"
            f" WHERE e.vector_model = %s AND e.vector IS NOT NULL AND {condition}"
            " ORDER BY e.id DESC LIMIT %s",
            [model, *values, most],
        )
        return [(entry, bytes(vector)) for entry, vector in rows]

    def nearest(self, scope: Scope, model: str, asked: array[float], most: int) -> list[int] | None:
        return pgvector.nearest(scope, model, asked, most) if pgvector.is_ready() else None

    def prepare_vectors(self) -> str | None:
        return pgvector.make_ready()

    def optimise(self) -> None:
        """Nothing: here words lie in the entry's row, and autovacuum is for it as for every row."""


def _postings(scope: Scope, words: Mapping[int, str], most: int, after: int = 0) -> list[Posting]:
    """Of each word the newest `most` entries with an id above `after`."""
    if not words:
        return []
    condition, values = scope.condition()
    owner = " | ".join(map(_quoted, scope.words()))
    rows = _run(
        POSTINGS.format(condition=condition),
        [
            list(words),
            [_quoted(word) for word in words.values()],
            f" & ({owner})" if owner else "",
            after,
            *values,
            most,
        ],
    )
    return [
        Posting(number, column, entry, (own, previous, following))
        for number, entry, own, previous, following, *stands in rows
        for column, is_there in enumerate(stands)
        if is_there
    ]


def _newest_entry() -> int:
    return int(_run("SELECT COALESCE(MAX(id), 0) FROM chat_searchentry")[0][0])


def literal_of(words: Words) -> str:
    """The tsvector of an entry, as text."""
    return _literal({name: getattr(words, name) for name in COLUMNS}, words.owner)


def _literal(columns: Mapping[str, Sequence[str]], owner: Sequence[str] = ()) -> str:
    """A tsvector's text: every word with one position a column, the column as its weight."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, words in columns.items():
        for word in words:
            places[word].append(f"{COLUMNS.index(name) + 1}{WEIGHTS[name]}")
    for word in owner:
        places[word].append(f"{len(COLUMNS) + 1}{OWNER}")
    return " ".join(f"{_quoted(word)}:{','.join(where)}" for word, where in places.items())


def _quoted(word: str) -> str:
    return f"'{word}'"


def _run(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
