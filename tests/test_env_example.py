"""`.env.example` and the settings name the same things."""

from __future__ import annotations

import itertools
import re

from tests.environment import ROOT, setting_names

OTHER_READERS = {"DEMO_PASSWORD"}  # read by the bootstrap command, not by settings.py
READERS = r"(?:env\.\w+|env|integer|boolean|one_of)\(\s*\"([A-Z][A-Z0-9_]+)\""


def test_the_example_lists_every_setting_that_is_read_and_no_other() -> None:
    source = (ROOT / "chatproject" / "settings.py").read_text(encoding="utf-8")
    read = set(re.findall(READERS, source)) | OTHER_READERS
    assert set(setting_names()) == read


def test_no_setting_is_listed_twice() -> None:
    names = setting_names()
    assert sorted(names) == sorted(set(names))


def test_every_setting_has_one_line_that_says_what_it_does() -> None:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    described = [
        previous
        for previous, line in itertools.pairwise(lines)
        if re.match(r"(?:# )?[A-Z][A-Z0-9_]+=", line)
    ]
    assert len(described) == len(setting_names())
    for text in described:
        assert re.match(r"# (?![A-Z_]+=)\S.{10,}[.)]?$", text), text
