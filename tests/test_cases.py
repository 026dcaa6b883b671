"""`docs/cases.md` names tests; each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

from tests.environment import ROOT

CASES = ROOT / "docs" / "cases.md"
NAMED = r"`([a-z0-9_/]+\.py)(?:::(\w+))?`"


def functions(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", text, flags=re.MULTILINE))


def missing(text: str) -> list[str]:
    """What `text` names as a file below `tests` or a function in one, and is not there."""
    gone = []
    for name, function in re.findall(NAMED, text):
        path = ROOT / name if name.startswith(("tests/", "benchmarks/")) else ROOT / "tests" / name
        if not path.is_file() or (function and function not in functions(path)):
            gone.append(f"{name}::{function}" if function else name)
    return gone


def test_every_test_that_is_named_exists() -> None:
    text = CASES.read_text(encoding="utf-8")
    assert missing(text) == []
    assert len(re.findall(NAMED, text)) > 300


def test_what_does_not_exist_is_noticed() -> None:
    here = "`test_cases.py::test_what_does_not_exist_is_noticed`"
    gone = "`test_cases.py::test_of_another_name`, `chat/test_of_nothing.py`"
    assert missing(f"{here}, {gone}") == [
        "test_cases.py::test_of_another_name",
        "chat/test_of_nothing.py",
    ]


def test_every_row_has_three_columns_and_names_a_test_or_a_reason() -> None:
    rows = [line for line in CASES.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    assert [row for row in rows if len(re.split(r" \| ", row.strip("| "))) != 3] == []
