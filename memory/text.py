"""Text at the boundary: what every engine can store and every model can be sent."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any

NUL = "\x00"
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without NUL; two halves of a surrogate pair are joined, a lone one becomes U+FFFD."""
    return replace_surrogates(text.replace(NUL, ""))


def cleaning_notes(text: str) -> list[str]:
    """What `clean` changes in `text`, in words for whoever sent it."""
    notes = []
    if removed := text.count(NUL):
        notes.append(f"NUL characters removed: {removed}.")
    if replaced := replace_surrogates(text).count("\ufffd") - text.count("\ufffd"):
        notes.append(f"Lone surrogates replaced by U+FFFD: {replaced}.")
    return notes


def replace_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined and every lone surrogate as U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub("\ufffd", joined)


def clean_data(value: Any) -> Any:
    """JSON-able `value` with every text in it cleaned, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean_data(key): clean_data(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean_data(each) for each in value]
    return value


def normal_key(key: str) -> str:
    """A key as it is shown: cleaned, NFC, one blank between words and none around them."""
    return " ".join(unicodedata.normalize("NFC", clean(key)).split())


def folded_key(key: str) -> str:
    """A key as keys are compared: the normal form without regard to case."""
    return unicodedata.normalize("NFC", normal_key(key).casefold())


def key_digest(key: str) -> str:
    """SHA-256 of the folded key, in hex: equal for equal keys on every database, whatever its
    collation makes of accents and widths."""
    return hashlib.sha256(folded_key(key).encode()).hexdigest()
