"""Where the words of entries lie, by the database: the same words are found in each.

An engine writes words and says in which columns of which entries a word stands; `ranking` does the
rest, so that two databases answer alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from django.db import connection

from chat.search.entries import Lengths, Words
from chat.search.scopes import Scope


class Posting(NamedTuple):
    """One word in one column of one entry."""

    word: int
    """Its place among the words that were asked for."""
    column: int
    """Its place in `entries.COLUMNS`."""
    entry: int
    lengths: Lengths


class Engine(Protocol):
    """Every write is part of the caller's transaction."""

    def write(self, entries: Mapping[int, Words]) -> None:
        """Give entries their words, instead of those that they have."""

    def replace(self, entry_id: int, column: str, words: Sequence[str]) -> None:
        """Give an entry other words in one of `entries.TEXTS`."""

    def postings(self, scope: Scope, words: Sequence[str], most: int) -> list[Posting]:
        """Where in `scope` each of `words` stands: of each word, in the newest `most` entries."""

    def write_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        """Give entries a vector, instead of the one that they have."""

    def vectors(self, scope: Scope, model: str, most: int) -> list[tuple[int, bytes]]:
        """The newest `most` entries of `scope` with a vector of `model`, each with its vector."""

    def nearest(self, scope: Scope, model: str, asked: array[float], most: int) -> list[int] | None:
        """The `most` entries of `scope` whose vectors are nearest to `asked`, the nearest first.

        None where the database does not compare vectors.
        """

    def prepare_vectors(self) -> str | None:
        """Make a place for vectors where one has to be made; what the operator should know."""

    def optimise(self) -> None:
        """Take what was deleted out of the engine's files too, outside of any transaction."""


def engine() -> Engine | None:
    """The engine of this database; None where there is none, as on MariaDB."""
    if connection.vendor == "sqlite":
        from chat.search.sqlite import Sqlite

        return Sqlite()
    if connection.vendor == "postgresql":
        from chat.search.postgres import Postgres

        return Postgres()
    return None
