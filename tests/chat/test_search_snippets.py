"""The words around a hit, with the hit marked, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.search.snippets import CUT, LENGTH, snippet
from memory.words import question_tokens

LOREM = "Nothing of what stands here matters to anyone who looks for something else. "


def marked(text: str, question: str) -> str:
    """The snippet with hits in brackets."""
    pieces = snippet(text, set(question_tokens(question)))
    return "".join(f"[{each.text}]" if each.hit else each.text for each in pieces)


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        ("Refunds are paid.", "refund", "[Refunds] are paid."),
        ("we deployed, then deploying", "deploys", "we [deployed], then [deploying]"),
        ("我想订一家北京的酒店", "北京酒店", "我想订一家[北京]的[酒店]"),
        ("北京酒店很多", "北京酒店", "[北京酒店]很多"),
        ("吃面还是吃饭", "面", "吃[面]还是吃饭"),
        ("ＲＥＦＵＮＤ 5", "refund 5", "[ＲＥＦＵＮＤ] [5]"),
        ("the ﬁles", "files", "the [ﬁles]"),
        ("İstanbul'da", "istanbul", "[İstanbul]'da"),
        ("cafe\u0301 noir", "café", "[cafe\u0301] noir"),
        ("التسليم يوم الاثنين", "يوم", "التسليم [يوم] الاثنين"),
        ("नमस्ते दुनिया", "दुनिया", "नमस्ते [दुनिया]"),
        ("สวัสดีครับ", "ครับ", "สวัสดี[ครับ]"),
        ("ﾊﾟﾝを買う", "パン", "[ﾊﾟﾝ]を買う"),
        ("👩‍👩‍👧 plan 👍🏽", "plan", "👩‍👩‍👧 [plan] 👍🏽"),
        ("a <b>plan</b> & more", "plan", "a <b>[plan]</b> & more"),
        ("nothing of it", "plan", "nothing of it"),
        ("", "plan", ""),
    ],
)
def test_hits_are_marked_where_they_stand_in_the_text(
    text: str, question: str, expected: str
) -> None:
    assert marked(text, question) == expected


def test_a_long_text_is_cut_around_the_place_with_the_most_hits() -> None:
    text = LOREM * 20 + "one zebra here. " + LOREM * 20 + "a zebra and a quokka there. " + LOREM * 9
    shown = marked(text, "zebra quokka")
    assert "a [zebra] and a [quokka] there." in shown
    assert shown.startswith(CUT)
    assert shown.endswith(CUT)
    assert len(shown) < LENGTH + 50


def test_a_long_text_without_a_hit_shows_its_beginning() -> None:
    shown = marked(LOREM * 20, "zebra")
    assert shown.startswith("Nothing of what")
    assert shown.endswith(CUT)


def test_a_very_long_word_and_a_very_long_hit_are_cut_too() -> None:
    assert len(marked("a" * 1_000_000, "a")) < 2 * LENGTH + 50
    assert len(marked("北京" * 100_000, "北京")) < 2 * LENGTH + 50


def test_a_cut_does_not_part_a_sign_from_its_accents() -> None:
    text = "e\u0301" * 300 + " plan"
    pieces = snippet(text, {"plan"})
    assert pieces[0].text == CUT + "e\u0301" * ((len(pieces[0].text) - 2) // 2) + " "


@given(st.text(max_size=600), st.text(max_size=30))
def test_the_pieces_are_a_part_of_the_text_as_it_stands(text: str, question: str) -> None:
    pieces = snippet(text, set(question_tokens(question)))
    shown = "".join(each.text for each in pieces)
    assert all(each.text for each in pieces)
    assert shown.removeprefix(CUT).removesuffix(CUT) in text
    for piece in pieces:
        if piece.hit:
            assert piece.text in text
