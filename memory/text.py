"""Text at the boundary: what every engine can store and every model can be sent."""

from __future__ import annotations

import re

NUL = "\x00"
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without NUL; two halves of a surrogate pair are joined, a lone one becomes U+FFFD."""
    return replace_surrogates(text.replace(NUL, ""))


def replace_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined and every lone surrogate as U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
