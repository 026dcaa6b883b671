"""Text as it is, shown and not interpreted."""

import html
import re

_NEWLINES = re.compile(r"\r\n?")
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with NUL and lone surrogates, which no HTML can carry, as U+FFFD.

    One code point stays one code point, so offsets into the text stay true.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def render_plain(text: str) -> str:
    """Escaped text with its blanks and line breaks; each line finds its own direction in CSS."""
    escaped = html.escape(_NEWLINES.sub("\n", printable(text)))
    return f'<div class="plain" dir="auto">{escaped}</div>'
