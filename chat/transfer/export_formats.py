"""How exported rows are written: JSON Lines, which holds all, and CSV, which a spreadsheet opens.

CSV is for spreadsheets, so it is made safe for them: no cell begins a formula, control characters
are shown as their pictures, and a text beyond what a cell can hold is cut and says so. Whoever
needs the texts as they are takes JSON Lines.
"""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from chat.transfer.export_pages import Row
from memory.text import clean

BOM = "\ufeff"  # by which Excel knows UTF-8
CELL_CHARACTERS = 32_767  # of Excel
FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PICTURES = 0x2400  # where Unicode shows the control characters
NEW_LINES = str.maketrans({"\x85": r"\u0085", "\u2028": r"\u2028", "\u2029": r"\u2029"})


@dataclass(frozen=True)
class Format:
    name: str
    label: str
    content_type: str
    head: Callable[[Sequence[str]], bytes]
    """What the file begins with, for these columns."""
    lines: Callable[[Sequence[Row]], bytes]


def plain(value: Any) -> Any:
    """What JSON has no type for, as text: times in ISO 8601 and UTC, money without rounding."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be exported")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=plain)


def _json_lines(rows: Sequence[Row]) -> bytes:
    """One object a line; nothing in it ends the line for readers that know more line ends."""
    text = "".join(f"{_json(row).translate(NEW_LINES)}\n" for row in rows)
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes JSON's own escape


def _no_head(names: Sequence[str]) -> bytes:
    return b""


def _csv_head(names: Sequence[str]) -> bytes:
    return (BOM + _csv_text([names])).encode()


def _csv_lines(rows: Sequence[Row]) -> bytes:
    return _csv_text([[cell(value) for value in row.values()] for row in rows]).encode()


def _csv_text(lines: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(lines)
    return out.getvalue()


def cell(value: Any) -> str | int | float:
    """One value as a cell: flat, and harmless."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return harmless("; ".join(value))
    if isinstance(value, list | Mapping):
        return harmless(_json(value)) if value else ""
    return harmless(value if isinstance(value, str) else plain(value))


def harmless(text: str) -> str:
    """`text` for a spreadsheet: it computes nothing, breaks nothing, and is cut only visibly."""
    length = len(text)
    text = clean(text[: CELL_CHARACTERS + 1]).replace("\r\n", "\n")
    if FORMULA.match(text):
        text = f"'{text}"
    text = CONTROL.sub(_picture, text)
    if len(text) <= CELL_CHARACTERS and length <= CELL_CHARACTERS:
        return text
    mark = f" [cut: {length:,} characters, all of them in the JSON Lines export]"
    return text[: CELL_CHARACTERS - len(mark)] + mark


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 0x7F:
        return "\u2421"
    return chr(PICTURES + code) if code < 0x20 else "\ufffd"


FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format("csv", "CSV, for spreadsheets", "text/csv; charset=utf-8", _csv_head, _csv_lines),
        Format(
            "jsonl",
            "JSON Lines, complete",
            "application/x-ndjson; charset=utf-8",
            _no_head,
            _json_lines,
        ),
    )
}
