"""Text at the boundary: anyone's text is kept, except what no store and no model can hold."""

from __future__ import annotations

import re
from typing import NamedTuple

_SURROGATES = re.compile("[\ud800-\udfff]")


class Cleaned(NamedTuple):
    """`text` without NUL and with U+FFFD for each lone surrogate; `notes` say what was changed."""

    text: str
    notes: tuple[str, ...]


def clean(text: str) -> Cleaned:
    """Remove NUL (PostgreSQL refuses it) and replace lone surrogates (UTF-8 cannot hold them)."""
    notes = []
    if "\0" in text:
        notes.append(f"{text.count(chr(0))} NUL characters were removed.")
        text = text.replace("\0", "")
    text, replaced = _SURROGATES.subn("\ufffd", text)
    if replaced:
        notes.append(f"{replaced} lone surrogates were replaced by U+FFFD.")
    return Cleaned(text, tuple(notes))
