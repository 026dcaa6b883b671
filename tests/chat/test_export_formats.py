"""JSON Lines hold everything; CSV opens in a spreadsheet and does nothing there."""

from __future__ import annotations

import csv
import io
import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from chat.transfer.export_formats import CELL_CHARACTERS, FORMATS, cell, harmless

TABLE = FORMATS["csv"]
LINES = FORMATS["jsonl"]


def opened(data: bytes) -> list[list[str]]:
    """The cells as a program reads them that knows the byte order mark."""
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


# --- CSV ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(A1:A9)",
        "\t=1+1",
        "\r=1+1",
        "\n=1+1",
        "  =1+1",
        "=HYPERLINK(A1)",
        "＝1+1",
        "＠SUM",
        '=cmd|" /C calc"!A0',
    ],
)
def test_no_cell_begins_a_formula(text: str) -> None:
    assert harmless(text).startswith("'")
    assert opened(TABLE.lines([{"content": text}]))[0][0].startswith("'")


@pytest.mark.parametrize("text", ["1+1", "a=1", "中文 = 一", "", "'", "😄", "2-1"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert harmless(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x0bb", "a␋b"),
        ("a\x00b", "ab"),
        ("a\x1bb", "a␛b"),
        ("a\x7fb", "a␡b"),
        ("a\x85b", "a\ufffdb"),
        ("a\rb", "a␍b"),
        ("a\r\nb", "a\nb"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\ud83db", "a\ufffdb"),
        ("😄 中文 مرحبا", "😄 中文 مرحبا"),
    ],
)
def test_control_characters_are_shown_and_break_nothing(text: str, shown: str) -> None:
    assert opened(TABLE.lines([{"content": text}])) == [[shown]]


def test_a_text_that_no_cell_can_hold_is_cut_and_says_so() -> None:
    found = harmless("字" * 200_000)
    assert len(found) == CELL_CHARACTERS
    assert found.endswith("字 [cut: 200,000 characters, all of them in the JSON Lines export]")
    assert harmless("字" * CELL_CHARACTERS) == "字" * CELL_CHARACTERS
    marked = harmless("=" + "1" * (CELL_CHARACTERS - 1))
    assert len(marked) == CELL_CHARACTERS
    assert "[cut: 32,767 characters" in marked


def test_the_file_begins_with_a_byte_order_mark_and_the_names() -> None:
    head = TABLE.head(["id", "tags"])
    assert head == b"\xef\xbb\xbfid,tags\r\n"
    assert opened(head + TABLE.lines([{"id": 1, "tags": ["a", "b"]}])) == [
        ["id", "tags"],
        ["1", "a; b"],
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (-1, -1),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Decimal("0.00000012"), "0.00000012"),
        (
            datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=8))),
            "2026-05-01T04:00:00+00:00",
        ),
        ([], ""),
        (["=1+1", "x"], "'=1+1; x"),
        ([{"name": "tone", "value": 5}], '[{"name": "tone", "value": 5}]'),
    ],
)
def test_a_value_is_one_flat_cell(value: Any, written: Any) -> None:
    assert cell(value) == written


def test_quotes_commas_and_lines_stay_in_their_cell() -> None:
    row = {"a": 'say "hi", then\ngo', "b": ";"}
    assert opened(TABLE.lines([row])) == [['say "hi", then\ngo', ";"]]


# --- JSON Lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["=1+1", "\x0b", "\u2028", "\u2029", "\x85", "\r\n", "中文", "😄", "字" * 200_000]
)
def test_a_line_holds_the_text_as_it_is(text: str) -> None:
    lines = LINES.lines([{"content": text}, {"content": "next"}]).decode()
    assert len(lines.splitlines()) == 2
    assert json.loads(lines.splitlines()[0]) == {"content": text}


def test_a_lone_surrogate_becomes_an_escape_of_json() -> None:
    line = LINES.lines([{"content": "a\ud83d"}])
    assert line == b'{"content": "a\\ud83d"}\n'
    assert json.loads(line) == {"content": "a\ud83d"}


def test_times_are_iso_in_utc_and_money_is_exact() -> None:
    row = {"at": datetime(2026, 5, 1, tzinfo=UTC), "cost": Decimal("0.10000000"), "none": None}
    assert json.loads(LINES.lines([row])) == {
        "at": "2026-05-01T00:00:00+00:00",
        "cost": "0.10000000",
        "none": None,
    }
