"""Text at the boundary: what every engine can store and every model can be sent."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any

NUL = "\x00"
CHINESE = re.compile(r"[\u3400-\u9fff]")
_TURNS_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")  # overrides, embeddings, isolates
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


def is_blank(text: str) -> bool:
    """Whether nothing of `text` can be seen: white space, controls and invisible marks alone."""
    return all(each.isspace() or unicodedata.category(each) in ("Cc", "Cf") for each in text)


def one_line(text: str) -> str:
    """`text` for a name: cleaned, on one line, without marks that turn the direction of others."""
    return " ".join(without_direction_marks(clean(text)).split())


def without_direction_marks(text: str) -> str:
    """`text` without the marks by which a name reorders what stands beside it."""
    return _TURNS_DIRECTION.sub("", text)


def normal_key(key: str) -> str:
    """A key as it is shown: on one line, in NFC."""
    return unicodedata.normalize("NFC", one_line(key))


def folded_key(key: str) -> str:
    """A key as keys are compared: the normal form without regard to case."""
    return unicodedata.normalize("NFC", normal_key(key).casefold())


def key_digest(key: str) -> str:
    """SHA-256 of the folded key, in hex: equal for equal keys on every database, whatever its
    collation makes of accents and widths."""
    return hashlib.sha256(folded_key(key).encode()).hexdigest()
