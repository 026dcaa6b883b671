"""What SQLite's planner knows of the tables: without it, lists over joins read a table whole.

PostgreSQL and MariaDB gather it by themselves.
"""

from __future__ import annotations

import logging

from django.db import OperationalError, connection

logger = logging.getLogger(__name__)

ROWS = 1_000  # of an index that are looked at


def analyse() -> None:
    """Look at the tables anew: some 50 ms, however many rows there are."""
    if connection.vendor != "sqlite":
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA analysis_limit = {ROWS}")
            cursor.execute("ANALYZE")
    except OperationalError as error:  # another process writes; what was known before is kept
        logger.warning("The tables were not analysed: %s", error)
