"""What a database keeps of deleted rows outside of its tables, and taking it out where we can."""

from __future__ import annotations

from django.db import OperationalError, connection

from chat.retention.verification import NOT_SEARCHED
from chat.search import messages as search


def clean() -> str:
    """Rewrite SQLite's file without what was deleted; what there is to know about that.

    Outside of any transaction. It takes as long as the file is large, and writers wait.
    """
    if connection.vendor != "sqlite":
        return NOT_SEARCHED[connection.vendor]
    try:
        search.optimise()
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = ON")
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            is_busy = cursor.fetchone()[0]
    except OperationalError as error:
        return f"The database file could not be rewritten ({error}); do it when nobody is using it."
    if is_busy:
        return "Somebody is reading, so the write-ahead log still holds old pages; run this again."
    return "The database file was rewritten without what was deleted."
