"""Writing many rows as they are: with their own ids and times, past `auto_now_add`.

`bulk_create` sets times to now; sample data lies in the past. PostgreSQL gets them by COPY.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from django.db import connection, connections, transaction
from django.db.models import Field, JSONField, Model

from chat import planning

PLAIN = {type(None), bool, int, str}


def write(rows: Iterable[Model]) -> None:
    """Insert unsaved rows, those of one model one after the other; all or nothing.

    References may point forward: engines that check each row at once are told not to.
    """
    with connection.constraint_checks_disabled(), transaction.atomic():
        for model, group in groupby(rows, type):
            _insert(model, list(group))


def analyse(models: Iterable[type[Model]]) -> None:
    """Let the planner know of rows that nothing has looked at yet."""
    planning.analyse()
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        for model in models:
            cursor.execute(f"ANALYZE {_quoted(model._meta.db_table)}")


def _insert(model: type[Model], rows: Sequence[Model]) -> None:
    fields = [
        field
        for field in model._meta.concrete_fields
        if not (field.primary_key and rows[0].pk is None)
    ]
    names = ", ".join(_quoted(field.column) for field in fields)
    table = f"{_quoted(model._meta.db_table)} ({names})"
    values = _values(fields, rows)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                for each in values:
                    copy.write_row(each)
        else:
            gaps = ", ".join(["%s"] * len(fields))
            cursor.executemany(f"INSERT INTO {table} VALUES ({gaps})", list(values))


def _values(fields: Sequence[Field[Any, Any]], rows: Iterable[Model]) -> Iterator[list[Any]]:
    """Each row as the engine takes it; most values are what they are, and asked no further."""
    engine = connections[connection.alias]
    columns = [(each.attname, each, isinstance(each, JSONField)) for each in fields]
    for row in rows:
        stored = []
        for name, field, is_json in columns:
            value = getattr(row, name)
            if is_json or type(value) not in PLAIN:
                value = field.get_db_prep_save(value, engine)
            stored.append(value)
        yield stored


def _quoted(name: str | None) -> str:
    assert name  # abstract fields have none, and no table
    return connection.ops.quote_name(name)
