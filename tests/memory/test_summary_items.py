"""The items of a summary: read strictly, merged with the older ones, cut by importance."""

from __future__ import annotations

from typing import Any

import pytest

from memory.summary_items import (
    Item,
    NotASummary,
    fitting,
    items_of,
    merged,
    outdated_in,
    text_of,
)
from memory.tokens import count_text

pytestmark = pytest.mark.pure
O200K = "o200k_base"


def said(**kinds: Any) -> dict[str, Any]:
    return {"decisions": [], "constraints": [], "open_tasks": [], "facts": [], **kinds}


def test_items_are_read_in_order_of_kind_with_their_messages() -> None:
    answer = said(
        facts=[{"text": " The code\nis X-9 ", "seq": 3}],
        decisions=[{"text": "Use Go", "seq": "1"}],
    )
    assert items_of(answer, {1, 3}) == [
        Item("decisions", "Use Go", 1),
        Item("facts", "The code is X-9", 3),
    ]


def test_kinds_that_are_left_out_or_null_are_empty() -> None:
    assert items_of({"facts": [{"text": "x", "seq": 1}], "decisions": None}, {1}) == [
        Item("facts", "x", 1)
    ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, "has none of"),
        ({"summary": "They talked."}, "has none of"),
        (said(facts="x"), "is not a list"),
        (said(facts=["x"]), "is not an object"),
        (said(facts=[{"text": "x"}]), "names no message"),
        (said(facts=[{"text": "x", "seq": 2}]), "names no message"),
        (said(facts=[{"text": "x", "seq": True}]), "names no message"),
        (said(facts=[{"text": "x", "seq": 1.0}]), "names no message"),
        (said(facts=[{"text": " \n", "seq": 1}]), "has no text"),
        (said(facts=[{"text": None, "seq": 1}]), "has no text"),
        (said(facts=[{"text": "\x00", "seq": 1}]), "has no text"),
        (said(facts=[{"text": "<think>hm</think> x", "seq": 1}]), "reasoning"),
        (said(facts=[{"text": "<tool_call>{}</tool_call>", "seq": 1}]), "tool call"),
        (said(facts=[{"text": "<|tool_calls_begin|>", "seq": 1}]), "tool call"),
    ],
)
def test_one_unsound_item_rejects_the_whole_answer(answer: dict[str, Any], why: str) -> None:
    with pytest.raises(NotASummary, match=why) as refused:
        items_of(answer, {1})
    assert "x" not in str(refused.value).split()  # nothing of the answer is repeated


def test_older_items_stay_unless_the_answer_says_that_they_hold_no_more() -> None:
    older = [Item("decisions", "Use Go", 1), Item("open_tasks", "Write tests", 2)]
    newer = [Item("decisions", "use go", 9), Item("facts", "It works", 9)]
    gone = outdated_in({"outdated": ["p2", "p99", 7]}, older)
    assert gone == [Item("open_tasks", "Write tests", 2)]
    assert merged(older, newer, gone) == [
        Item("decisions", "Use Go", 1),
        Item("facts", "It works", 9),
    ]
    assert merged(older, []) == older


def test_the_text_has_a_heading_for_each_kind_and_a_line_for_each_item() -> None:
    items = [Item("decisions", "Use Go", 1), Item("facts", "A", 2), Item("facts", "B", 3)]
    assert text_of(items) == "Decisions:\n- Use Go\n\nFacts:\n- A\n- B"
    assert text_of([]) == ""


def test_facts_leave_first_and_the_first_decision_survives() -> None:
    items = [
        *(Item("decisions", f"decision number {n}", n) for n in range(1, 10)),
        *(Item("constraints", f"constraint number {n}", n) for n in range(1, 4)),
        *(Item("open_tasks", f"task number {n}", n) for n in range(1, 4)),
        *(Item("facts", f"fact number {n}", n) for n in range(1, 10)),
    ]
    assert fitting(items, 10_000, O200K) == items
    some = fitting(items, 110, O200K)
    assert count_text(text_of(some), O200K) <= 110
    kinds = [item.kind for item in some]
    assert kinds.count("decisions") == 9
    assert kinds.count("constraints") == 3
    assert [item.seq for item in some if item.kind == "facts"] in ([9], [8, 9], [7, 8, 9], [])
    few = fitting(items, 30, O200K)
    assert {item.kind for item in few} == {"decisions"}
    assert few[0].seq == 1
    assert few[-1].seq == 9
    assert fitting(items, 1, O200K) == []
