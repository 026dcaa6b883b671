"""Text found by words, in any language."""

from __future__ import annotations

import pytest

from chat.search.pieces import WordIndex
from memory.words import question_tokens, tokens

PIECES = [
    "Refunds are paid within 14 days.",
    "Deliveries leave the warehouse on Mondays.",
    "退款将在十四天内到账。",
    "Das Büro in Zürich öffnet um neun.",
    "التسليم يوم الاثنين",
    "def refund(order): return order.total 😄",
]


def best(question: str, pieces: list[str] = PIECES) -> list[int]:
    return [hit.piece for hit in WordIndex(pieces).search(question, 3)]


def test_words_are_lower_cased_and_unspaced_scripts_give_pairs_and_single_characters() -> None:
    assert list(tokens("Hello, WORLD_42 — 退款吗?")) == [
        "hello", "world", "42", "退", "款", "吗", "退款", "款吗",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When are REFUNDS paid?", [0, 5]),
        ("请问退款什么时候到账？", [2]),
        ("款", [2]),
        ("Wann öffnet das BÜRO in zürich?", [3]),
        ("متى التسليم؟", [4]),
        ("ｒｅｆｕｎｄｉｎｇ", [0, 5]),  # full width
        ("What is the capital of France?", []),
        ("请问你是谁？", []),
        ("", []),
        ("😄 !!! \x00 \ud800", []),
    ],
)
def test_the_piece_that_has_the_words_is_found_and_no_other(
    question: str, expected: list[int]
) -> None:
    assert best(question) == expected


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    pieces = ["order order order", "order number", "order zebra", "order form"]
    assert best("order zebra", pieces)[0] == 2


def test_equal_pieces_come_in_their_order_and_never_more_than_asked_for() -> None:
    assert [hit.piece for hit in WordIndex(["same"] * 9).search("same", 4)] == [0, 1, 2, 3]


def test_no_pieces_no_hits() -> None:
    assert WordIndex([]).search("anything", 5) == []


@pytest.mark.parametrize("text", ["a" * 1_000_000, "退" * 1_000_000, "a " * 500_000])
def test_a_megabyte_is_asked_by_its_two_ends_alone(text: str) -> None:
    assert len(question_tokens(f"zebra {text} lion")) <= 200
    assert {"zebra", "lion"} <= set(question_tokens(f"zebra {text} lion"))
