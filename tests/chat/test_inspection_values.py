"""The plain parts of looking into a request: what its parts cost, and how two requests differ."""

from __future__ import annotations

from typing import Any

import pytest

from chat.inspection import differences, reasons, shares
from chat.inspection.differences import Line, Sent
from memory import context

PROMPT = {"kind": "prompt", "role": "system", "tokens": 20, "ids": []}


def manifest(**more: Any) -> dict[str, Any]:
    parts = [
        PROMPT,
        {"kind": "history", "role": "user", "tokens": 50, "seq": 1, "summary": 7},
        {"kind": "history", "role": "assistant", "tokens": 10, "seq": 2},
        {"kind": "input", "role": "user", "tokens": 90, "seq": 3},
    ]
    return {
        "parts": parts,
        "counted": 173,
        "budget": 1_000,
        "window": {"messages": 2},
        "policy": {"max_messages": 20, "max_tokens": 400},
        **more,
    }


def costs(found: shares.Shares) -> dict[str, int]:
    return {each.kind: each.tokens for each in found.parts}


def line(role: str, seq: int | None, text: str, tokens: int = 5, kind: str = "history") -> Line:
    return Line(role, kind, seq, tokens, text, digest=f"{role} {text}")


# --- Shares ---------------------------------------------------------------------------------------


def test_blocks_are_told_apart_from_the_messages_that_they_stand_in() -> None:
    found = shares.of(
        manifest(
            summary={"version": 1, "covers_from": 1, "covers_through": 8, "tokens": 35},
            preferences=[{"id": 1}, {"id": 2}],
            references=[{"tokens": 30}],
            tools={"names": ["remember"], "tokens": 40},
            output_schema={"sent_as": "instructions", "tokens": 5},
        ),
        input_tokens=12,
        preference_tokens=64,
    )
    assert costs(found) == {
        "prompt": 15,
        "schema": 5,
        "tools": 40,
        "summary": 35,
        "history": 25,
        "preferences": 48,
        "passages": 30,
        "input": 12,
    }
    assert sum(costs(found).values()) == 20 + 40 + 60 + 90
    assert [each.start for each in found.parts] == [0, 15, 20, 60, 95, 120, 168, 198]
    assert (found.counted, found.budget, found.free) == (173, 1_000, 827)


def test_each_part_has_the_limit_that_holds_for_it() -> None:
    found = shares.of(manifest(preferences=[{"id": 1}]), input_tokens=40, preference_tokens=64)
    assert {each.kind: (each.limit, each.limited_by) for each in found.parts} == {
        "prompt": (1_000, ""),
        "history": (400, "max_tokens"),
        "preferences": (64, "CHAT_PREFERENCE_TOKENS"),
        "input": (1_000, ""),
    }
    notes = {each.kind: each.note for each in found.parts}
    assert notes["history"] == "2 of at most 20 messages"
    assert notes["preferences"] == "1 preference"


def test_an_input_whose_own_cost_is_not_known_is_counted_with_its_blocks() -> None:
    found = shares.of(manifest(preferences=[{"id": 1}]), input_tokens=None, preference_tokens=64)
    assert costs(found)["input"] == 90
    assert found.parts[-1].note == "with the preferences before it"


@pytest.mark.parametrize("odd", [{}, {"parts": None}, {"parts": [{}, "x"]}, {"budget": None}])
def test_a_manifest_of_another_form_has_the_shares_that_it_has(odd: dict[str, Any]) -> None:
    found = shares.of(odd, input_tokens=3, preference_tokens=None)
    assert (found.parts, found.counted, found.free) == ((), 0, 0)


# --- Differences ----------------------------------------------------------------------------------


def test_messages_are_same_changed_added_and_gone() -> None:
    before = Sent(
        (
            line("system", None, "Prompt", kind="prompt"),
            line("user", 1, "One"),
            line("assistant", 2, "Two"),
            line("user", 3, "<block> Three", tokens=9, kind="input"),
        ),
        {"model": "a", "temperature": 1},
    )
    after = Sent(
        (
            line("system", None, "Prompt", kind="prompt"),
            line("assistant", 2, "Two"),
            line("user", 3, "Three"),
            line("assistant", 4, "Four"),
            line("user", 5, "Five", kind="input"),
        ),
        {"model": "b", "temperature": 1},
    )
    found = differences.between(before, after)
    assert [(each.state, each.line.seq) for each in found.pairs] == [
        ("same", None),
        ("gone", 1),
        ("same", 2),
        ("changed", 3),
        ("added", 4),
        ("added", 5),
    ]
    assert (found.prefix_messages, found.prefix_tokens, found.prefix_percent) == (1, 5, 20)
    assert (found.tokens_before, found.tokens_after) == (24, 25)
    assert found.parameters == ("model",)
    assert [each.tokens_before for each in found.pairs] == [None, None, None, 9, None, None]


def test_equal_requests_are_one_prefix() -> None:
    lines = tuple(line("user", seq, f"Text {seq}") for seq in range(1, 2_001))
    found = differences.between(Sent(lines, {}), Sent(lines, {}))
    assert found.counts == {"same": 2_000, "changed": 0, "added": 0, "gone": 0}
    assert (found.prefix_messages, found.prefix_percent) == (2_000, 100)


# --- Reasons --------------------------------------------------------------------------------------


def test_every_reason_that_a_manifest_can_give_is_explained() -> None:
    named = [
        getattr(context, name)
        for name in context.__all__
        if name.isupper() and isinstance(getattr(context, name), str)
    ]
    assert len(named) >= 9
    for reason in [*named, "max_messages", "max_tokens", "orphan_tool"]:
        assert reasons.of_message(reason).why, reason
    for reason in ("share", "budget"):
        assert reasons.of_preference(reason).why, reason


def test_a_reason_of_a_later_version_is_shown_as_it_is() -> None:
    assert reasons.of_message("on_the_moon").short == "on_the_moon"
