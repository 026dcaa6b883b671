"""The last requests that the demo model answered, for tests to read.

Only with DEMO_MODEL_RECORD: a request holds what people wrote, and deletion does not reach here.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from django.conf import settings

KEPT = 50

_seen: deque[dict[str, Any]] = deque(maxlen=KEPT)


def note(body: dict[str, Any]) -> dict[str, Any]:
    """The record of a request; its `_pieces` and `_outcome` are brought up to date by the view."""
    record = {**body, "_pieces": 0, "_outcome": "running"}
    if settings.DEMO_MODEL_RECORD:
        _seen.append(record)
    return record


def requests_seen() -> list[dict[str, Any]]:
    """The bodies of the last requests, newest last, as they were received.

    Two keys are added: `_pieces` counts the pieces that were made so far, and `_outcome` is
    running, completed, failed, broken_off or client_gone.
    """
    return list(_seen)


def forget() -> None:
    """Drop all records."""
    _seen.clear()
