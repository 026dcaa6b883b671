from __future__ import annotations

import pytest

from memory.text import clean, clean_data, folded_key, is_blank, normal_key, one_line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain 中文 עברית 😄", "plain 中文 עברית 😄"),
        ("a\x00b", "ab"),
        ("\ud83d", "\ufffd"),
        ("x\ude00y", "x\ufffdy"),
        ("\ud83d\ude00", "😀"),
        ("", ""),
    ],
)
def test_text_is_cleaned_of_what_cannot_be_stored(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_data_is_cleaned_all_the_way_down() -> None:
    dirty = {"a\x00": ["\ud83d", {"b": "c\x00"}], "n": 1, "t": ("x\x00",)}
    assert clean_data(dirty) == {"a": ["\ufffd", {"b": "c"}], "n": 1, "t": ["x"]}


def test_a_key_is_shown_trimmed_and_in_one_form() -> None:
    assert normal_key("  Cafe\u0301 \n au  lait ") == "Café au lait"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Language", " lAnGuAgE "),
        ("Café", "CAFE\u0301"),
        ("Straße", "STRASSE"),
        ("语言", "语言\x00"),
    ],
)
def test_keys_that_mean_the_same_are_the_same(one: str, other: str) -> None:
    assert folded_key(one) == folded_key(other)


def test_keys_that_differ_stay_apart() -> None:
    assert folded_key("cafe") != folded_key("café")


@pytest.mark.parametrize("text", ["", " \n\u3000", "\u200b", " \u200d\ufeff\t", "\u202e\u202c"])
def test_what_cannot_be_seen_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", "。", "😄", "\u200b.", "\ue000", "👨‍👩‍👧"])
def test_what_can_be_seen_is_not_blank(text: str) -> None:
    assert not is_blank(text)


def test_a_name_cannot_reorder_what_stands_beside_it() -> None:
    assert one_line("\u202e<b>x\u202c \n שלום\u2066 ") == "<b>x שלום"
