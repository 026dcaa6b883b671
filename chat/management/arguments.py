"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import re
import uuid

from chat.retention.idle_sessions import LONGEST_DAYS


def session_id(text: str) -> uuid.UUID:
    """A session's id, as the address of its page shows it."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a session id: give the UUID from the session's address, such as"
            " 0b0e4d2e-6a53-4f0c-9a55-0d6f7a3c1e42"
        ) from None


def days(text: str) -> int:
    """A number of days, 1 or more."""
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= LONGEST_DAYS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of days: give 1 to {LONGEST_DAYS}"
        )
    return int(text)
