"""Passages of several sources: gathered, ranked, cleaned; a source that fails is named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memory.references import Passage, Question, References, ReferenceSource, gather

ASKED = Question("where?", "helper", 1, 2)


def source(*texts: str, name: str = "s") -> ReferenceSource:
    return lambda question: [Passage(f"{name}{n}", name, text) for n, text in enumerate(texts)]


def nothing_there(question: Question) -> Sequence[Passage] | None:
    return None


def broken(question: Question) -> Sequence[Passage] | None:
    raise OSError("the index is away")


def ranked(found: References) -> list[tuple[int, str, str]]:
    return [(each.rank, each.source, each.text) for each in found.passages]


def test_sources_take_turns_and_ranks_are_given_anew() -> None:
    found = gather({"a": source("1", "2", "3", name="A"), "b": source("x", name="B")}, ASKED, 3)
    assert ranked(found) == [(1, "A", "1"), (2, "B", "x"), (3, "A", "2")]
    assert (found.was_searched, found.failed) == (True, ())


def test_each_source_is_given_the_question() -> None:
    asked: list[Question] = []

    def listening(question: Question) -> None:
        asked.append(question)

    gather({"a": listening}, ASKED, 3)
    assert asked == [ASKED]


def test_nothing_found_is_not_nothing_searched() -> None:
    assert gather({"a": source()}, ASKED, 3).was_searched
    assert gather({"a": nothing_there}, ASKED, 3) == References()
    assert gather({}, ASKED, 3) == References()


def test_a_source_that_fails_is_named_and_the_others_are_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = gather({"mine.broken": broken, "b": source("x")}, ASKED, 3)
    assert found.failed == ("mine.broken",)
    assert ranked(found) == [(1, "s", "x")]
    assert "The reference source mine.broken failed." in caplog.text
    assert "the index is away" in caplog.text


def test_what_a_source_gives_is_made_fit_for_every_endpoint_and_table() -> None:
    given = Passage("i\x00" * 300, " a\nlong \ud800 name " * 50, " \x00text\ud800 😄 ")
    (found,) = gather({"a": lambda question: [given]}, ASKED, 3).passages
    assert found.text == "text\ufffd 😄"
    assert found.source.startswith("a long \ufffd name a long")
    assert (len(found.id), len(found.source)) == (200, 200)
    assert gather({"a": source(" \n\x00")}, ASKED, 3).passages == ()
