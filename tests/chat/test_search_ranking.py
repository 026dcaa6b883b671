"""Ranking places of words."""

from __future__ import annotations

import math

import pytest

from chat.search.engines import Posting
from chat.search.ranking import rank

OWN, PREVIOUS, NEXT, DAY = range(4)


def ranked(*postings: tuple[int, int, int], words: str = "a b c", total: int = 10) -> list[int]:
    """The entries in their order; each posting is word, column, entry."""
    places = [Posting(*each, lengths=(10, 10, 10)) for each in postings]
    return [each.entry for each in rank(places, words.split(), total, most=5)]


def test_a_word_of_its_own_counts_more_than_one_before_it_and_that_more_than_one_after_it() -> None:
    assert ranked((0, NEXT, 1), (0, PREVIOUS, 2), (0, OWN, 3)) == [3, 2, 1]


def test_two_words_count_more_than_one_and_the_rarer_more_than_the_commoner() -> None:
    assert ranked((0, OWN, 1), (0, OWN, 2), (1, OWN, 2), (0, OWN, 3), (2, OWN, 4))[:2] == [2, 4]


def test_the_newer_of_equals_comes_first() -> None:
    assert ranked((0, OWN, 1), (0, OWN, 7), (0, OWN, 3)) == [7, 3, 1]


def test_a_shorter_one_of_equals_comes_first() -> None:
    places = [Posting(0, OWN, 2, (100, 9, 9)), Posting(0, OWN, 1, (5, 9, 9))]
    assert [each.entry for each in rank(places, ["a"], 10, most=5)] == [1, 2]


def test_a_text_counts_by_its_own_length_and_not_by_that_of_what_stands_beside_it() -> None:
    places = [
        Posting(0, PREVIOUS, 4, (9, 50, 9)),
        Posting(0, PREVIOUS, 3, (50, 9, 50)),
        Posting(1, NEXT, 2, (9, 9, 50)),
        Posting(1, NEXT, 1, (50, 50, 9)),
    ]
    found = [each.entry for each in rank(places, ["a", "b"], 10, most=5)]
    assert found.index(3) < found.index(4)
    assert found.index(1) < found.index(2)


def test_without_anything_before_a_message_its_own_words_count_as_they_do() -> None:
    (found,) = rank([Posting(0, OWN, 1, (7, 0, 0))], ["a"], 1, most=5)
    assert found.score == pytest.approx(math.log(1 + 0.5 / 1.5))


def test_a_word_that_is_everywhere_is_dropped_where_there_is_a_rarer_one() -> None:
    everywhere = [(0, OWN, entry) for entry in range(5)]
    assert ranked(*everywhere, (1, OWN, 3)) == [3]
    assert ranked(*everywhere) == [4, 3, 2, 1, 0]


def test_a_lone_number_in_a_date_is_no_hit_and_two_are_one() -> None:
    assert ranked((0, DAY, 1), words="7") == []
    assert ranked((0, DAY, 1), (1, DAY, 1), words="7 5") == [1]
    assert ranked((0, DAY, 1), words="sunday") == [1]
    assert ranked((0, DAY, 1), (0, OWN, 1), words="7") == [1]


def test_nothing_is_ranked_as_nothing() -> None:
    assert ranked() == []
