"""Reading what is exported: page after page by key, so that a million rows need no more memory
than a thousand, and nothing is skipped or read twice while people go on writing.

A page is the rows themselves, or what belongs to sessions that were chosen (their messages, for
example): then the sessions are paged through, and a filter on them, however slow, is asked once
for SESSIONS of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from django.db.models import Model, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Length

FIRST_ROWS = 50  # soon there, so that a browser sees the download begin
ROWS = 1_000
SESSIONS = 50  # whose rows are read at once
CHARACTERS = 1_000_000  # of long texts that are read at once; one row is always read
KEYS = 100  # in one query: SQLite keeps each length of `IN` as a statement, as large as it is long

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """How far a reading has come: the last session, and the last row in it (None: all of them)."""

    session: Any = None
    row: Any = None


START = Place()


@dataclass(frozen=True)
class Batch:
    rows: Sequence[Row]
    after: Place | None
    """None: there is nothing more."""


@dataclass(frozen=True)
class Kind:
    """Something that can be exported."""

    name: str
    label: str
    model: type[Model]
    columns: Mapping[str, str]
    """The field behind each column that is no text of anybody."""
    texts: Mapping[str, str]
    """The same for text, which needs a permission of its own."""
    session: str = "chat_session_id"
    """Path to the id of the session that a row belongs to."""
    row: str = ""
    """What orders the rows of one session; "": a session is a row."""
    counters: Sequence[str] = ()
    """The session's own counts of such rows."""
    long_text: str = ""
    """The field whose length decides how many rows are read at once."""
    complete: Callable[[Sequence[Row], bool], None] | None = None
    """Adds what stands in other tables: one query for each of them, whatever the rows."""
    read: Callable[[Selection, Place, int], Batch] | None = None
    """Reads rows that are not of `model`, instead of what is below."""
    added: Sequence[str] = ()
    """Columns that `complete` fills."""
    added_texts: Sequence[str] = ()

    def names(self, with_text: bool) -> list[str]:
        """The columns in order."""
        texts = [*self.texts, *self.added_texts] if with_text else []
        return [*self.columns, *self.added, *texts]


@dataclass(frozen=True)
class Selection:
    """Which rows of a kind: `rows` themselves, or those that belong to `sessions`."""

    kind: Kind
    with_text: bool
    rows: QuerySet[Any] | None = None
    sessions: QuerySet[Any] | None = None

    def count(self, limit: int | None = None) -> int:
        """How many rows there are, counted to `limit` at most where they have to be counted."""
        if self.rows is not None:
            return _plain(self.rows).values("pk")[:limit].count()
        sessions = _plain(self.sessions)
        if self.kind.counters:
            sums = (Coalesce(Sum(each), 0) for each in self.kind.counters)
            return sessions.aggregate(count=reduce(add, sums))["count"]
        if self.kind.read is not None:
            return sessions.values("user", "tenant").distinct()[:limit].count()
        chosen = {f"{self.kind.session}__in": sessions.values("pk")}
        return self.kind.model._default_manager.filter(**chosen).values("pk")[:limit].count()

    def read(self, place: Place, limit: int) -> Batch:
        """The next rows: as many queries for a page of so many rows, whatever there is."""
        if self.kind.read is not None:
            return self.kind.read(self, place, limit)
        keys, after = self._keys(place, limit)
        chosen = _not_too_long(keys)
        if len(chosen) < len(keys):
            after = _place_of(chosen[-1])
        return Batch(self._values([key["pk"] for key in chosen]), after)

    def batches(self) -> Iterator[Sequence[Row]]:
        """All rows; a batch may be empty."""
        place: Place | None = START
        limit = FIRST_ROWS
        while place is not None:
            batch = self.read(place, limit)
            yield batch.rows
            place, limit = batch.after, ROWS

    def _keys(self, place: Place, limit: int) -> tuple[list[Row], Place | None]:
        """The next rows by key, and the place behind them."""
        if self.sessions is not None:
            return self._keys_of_sessions(place, limit)
        assert self.rows is not None
        found = self._rest_of_session(self.rows, place, limit)
        later = self.rows
        if place.session is not None:
            later = later.filter(**{f"{self.kind.session}__gt": place.session})
        found += self._keyed(later, limit - len(found))
        return found, _place_of(found[-1]) if len(found) == limit else None

    def _keys_of_sessions(self, place: Place, limit: int) -> tuple[list[Row], Place | None]:
        rows = self.kind.model._default_manager.all()
        found = self._rest_of_session(rows, place, limit)
        sessions = _plain(self.sessions).order_by("pk")
        if place.session is not None:
            sessions = sessions.filter(pk__gt=place.session)
        ids = list(sessions.values_list("pk", flat=True)[:SESSIONS])
        later = rows.filter(**{f"{self.kind.session}__in": ids})
        found += self._keyed(later, limit - len(found))
        if len(found) == limit:
            return found, _place_of(found[-1])
        return found, Place(ids[-1]) if ids else None

    def _rest_of_session(self, rows: QuerySet[Any], place: Place, limit: int) -> list[Row]:
        """What follows in the session that the reading stands in."""
        if place.row is None or not self.kind.row:
            return []
        here = {self.kind.session: place.session, f"{self.kind.row}__gt": place.row}
        return self._keyed(rows.filter(**here), limit)

    def _keyed(self, rows: QuerySet[Any], limit: int) -> list[Row]:
        order = [self.kind.session, *([self.kind.row] if self.kind.row else [])]
        rows = _plain(rows).order_by(*order)
        names = {"pk", *order}
        if self.with_text and self.kind.long_text:
            rows = rows.annotate(long_text_length=Coalesce(Length(self.kind.long_text), Value(0)))
            names.add("long_text_length")
        return [
            {
                "pk": found["pk"],
                "place": Place(*(found[name] for name in order)),
                "length": found.get("long_text_length", 0),
            }
            for found in rows.values(*names)[: max(limit, 0)]
        ]

    def _values(self, keys: Sequence[Any]) -> list[Row]:
        """The rows with these keys, in their order; one that is gone by now is left out."""
        kind = self.kind
        paths = {**kind.columns, **(kind.texts if self.with_text else {})}
        rows = kind.model._default_manager.order_by().values("pk", *paths.values())
        by_key = {
            found["pk"]: found
            for start in range(0, len(keys), KEYS)
            for found in rows.filter(pk__in=keys[start : start + KEYS])
        }
        made = [
            {name: by_key[key][path] for name, path in paths.items()}
            for key in keys
            if key in by_key
        ]
        if kind.complete is not None:
            kind.complete(made, self.with_text)
        names = kind.names(self.with_text)
        return [{name: row[name] for name in names} for row in made]


def _plain(rows: QuerySet[Any] | None) -> QuerySet[Any]:
    """`rows` without what a list needs beside them."""
    assert rows is not None
    return rows.order_by().select_related(None).prefetch_related(None)


def _place_of(key: Row) -> Place:
    place: Place = key["place"]
    return place


def _not_too_long(keys: Sequence[Row]) -> Sequence[Row]:
    """As many as hold CHARACTERS of text together, and one at least."""
    total = 0
    for number, key in enumerate(keys):
        total += key["length"]
        if number and total > CHARACTERS:
            return keys[:number]
    return keys
