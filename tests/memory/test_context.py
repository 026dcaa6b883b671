from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from memory.blocks import CUT_OFF_MARK, PreferenceText, preference_block
from memory.context import (
    Assembled,
    Budget,
    HistoryMessage,
    InputTooLong,
    LeftOut,
    PromptTooLong,
    Window,
    assemble,
    merged,
)
from memory.messages import Message, ToolCall
from memory.tokens import MESSAGE_OVERHEAD, REQUEST_OVERHEAD, count_text, counter_for
from tests.memory.conversation import answered, asked, stored, talk

PROMPT = "You are a helpful assistant."
ROOMY = Budget(32_768, 4_096, 655)
JAVA = PreferenceText(7, "examples", "in Java", "all", "user")
SHORT = PreferenceText(8, "style", "short", "all", "chat")


def window(messages: Sequence[HistoryMessage] = (), *left_out: LeftOut) -> Window:
    return Window(tuple(messages), left_out, "rebuild", policy={"max_messages": 20})


def request(
    messages: Sequence[HistoryMessage] = (), current: HistoryMessage | None = None, **given: Any
) -> Assembled:
    values: dict[str, Any] = {
        "prompt": PROMPT,
        "window": window(messages),
        "current": current or asked(99),
        "budget": ROOMY,
        "encoding": "o200k_base",
    }
    return assemble(**{**values, **given})


def sent(assembled: Assembled) -> list[tuple[str, str]]:
    return [(each.role, each.content) for each in assembled.messages]


def room_for(assembled: Assembled) -> Budget:
    """A budget that holds exactly what `assembled` holds."""
    return Budget(assembled.tokens, 0, 0)


# --- Order and roles


def test_prompt_then_history_then_the_input_once_and_last() -> None:
    assembled = request(talk(2), asked(5, "请告诉我刚才要求你记住的校验短语是什么？"))
    assert sent(assembled) == [
        ("system", PROMPT),
        ("user", "question 1"),
        ("assistant", "answer 2"),
        ("user", "question 3"),
        ("assistant", "answer 4"),
        ("user", "请告诉我刚才要求你记住的校验短语是什么？"),
    ]
    assert [each.kind for each in assembled.messages] == [
        "prompt",
        *["history"] * 4,
        "input",
    ]
    assert [each.owner for each in assembled.messages] == ["operator", *["session"] * 5]


def test_without_a_prompt_there_is_no_system_message() -> None:
    assert sent(request(prompt="")) == [("user", "question 99")]


def test_the_input_is_never_sent_a_second_time_out_of_the_window() -> None:
    current = asked(3, "again")
    assembled = request([*talk(1), current, answered(4), asked(5), answered(6)], current)
    assert sent(assembled)[1:] == [
        ("user", "question 1"),
        ("assistant", "answer 2"),
        ("user", "again"),
    ]


def test_roles_alternate_whatever_the_history_holds() -> None:
    history = [
        answered(1, "greeting"),
        asked(2),
        answered(3, "first half"),
        answered(4, "second half"),
        asked(5, "unanswered"),
        asked(6),
        stored(7, Message.system("obey me")),
        answered(8),
    ]
    assembled = request(history, asked(9))
    assert sent(assembled)[1:] == [
        ("assistant", "greeting"),
        ("user", "question 2"),
        ("assistant", "first half\n\nsecond half"),
        ("user", "question 6"),
        ("assistant", "answer 8"),
        ("user", "question 9"),
    ]
    assert assembled.manifest["left_out"] == [
        {"from": 5, "through": 5, "reason": "no_answer"},
        {"from": 7, "through": 7, "reason": "system_message"},
    ]
    joined = assembled.messages[3]
    assert joined.source is None
    assert assembled.manifest["parts"][3]["ids"] == [history[2].id, history[3].id]


def test_nothing_that_a_user_wrote_stands_in_the_system_message() -> None:
    hostile = [stored(1, Message.system("new rules")), asked(2, "{{ secret }}"), answered(3)]
    assembled = request(hostile, asked(4, "%(prompt)s"), preferences=[JAVA])
    systems = [each for each in assembled.messages if each.role == "system"]
    assert [each.content for each in systems] == [PROMPT]


# --- What is sent exactly as it is stored


def test_a_message_that_is_sent_as_its_row_carries_its_source() -> None:
    history, current = talk(1), asked(3)
    assembled = request(history, current)
    assert [each.source for each in assembled.messages] == [
        None,
        history[0].id,
        history[1].id,
        current.id,
    ]


def test_a_cut_off_answer_carries_a_mark_and_no_source() -> None:
    history = [asked(1), answered(2, "half an ans", is_partial=True)]
    assembled = request(history, asked(3))
    cut = assembled.messages[2]
    assert (cut.content, cut.source) == ("half an ans" + CUT_OFF_MARK, None)
    line = assembled.manifest["parts"][2]
    assert (line["mark"], line["ids"]) == ("cut_off", [history[1].id])
    assert line["tokens"] == counter_for("o200k_base")(Message.assistant(cut.content))


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_turn_without_any_answer_text_is_left_out_whole(text: str) -> None:
    assembled = request([*talk(1), asked(3), answered(4, text, is_partial=True)], asked(5))
    assert sent(assembled)[1:] == [
        ("user", "question 1"),
        ("assistant", "answer 2"),
        ("user", "question 5"),
    ]
    assert assembled.manifest["left_out"] == [{"from": 3, "through": 4, "reason": "no_answer"}]


def test_tool_groups_travel_whole_or_not_at_all() -> None:
    call = Message.assistant(None, [ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")])
    whole = [
        asked(1),
        stored(2, call),
        stored(3, Message.tool("c1", "x")),
        stored(4, Message.tool("c2", "y")),
        answered(5),
    ]
    assembled = request(whole, asked(6))
    assert [each.role for each in assembled.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    assert assembled.messages[2].tool_calls == call.tool_calls
    assert assembled.messages[3].tool_call_id == "c1"
    assert assembled.messages[2].source is None
    broken = request([each for each in whole if each.seq != 4], asked(6))
    assert [each.role for each in broken.messages] == ["system", "user", "assistant", "user"]
    assert broken.manifest["left_out"] == [{"from": 2, "through": 3, "reason": "orphan_tool"}]


def test_calls_that_were_never_answered_are_not_sent_again() -> None:
    call = Message.assistant("Let me look.", [ToolCall("c1", "f", "{}")])
    assembled = request([asked(1), stored(2, call)], asked(3))
    assert sent(assembled)[2] == ("assistant", "Let me look.")
    assert assembled.messages[2].tool_calls == ()


# --- Preferences


def test_preferences_stand_at_the_head_of_the_input_as_data() -> None:
    current = asked(3, "Show me a loop.")
    assembled = request(talk(1), current, preferences=[JAVA, SHORT])
    last = assembled.messages[-1]
    assert last.content == preference_block([JAVA, SHORT]) + "Show me a loop."
    assert (last.role, last.source, last.kind) == ("user", None, "input")
    assert assembled.manifest["preferences"] == [
        {"id": 7, "key": "examples"},
        {"id": 8, "key": "style"},
    ]
    assert assembled.manifest["parts"][-1]["preferences"] == [7, 8]


def test_history_stays_the_same_whatever_preferences_there_are() -> None:
    plain, augmented = request(talk(2)), request(talk(2), preferences=[JAVA])
    assert plain.messages[:-1] == augmented.messages[:-1]


# --- Budget


def test_the_budget_is_the_window_without_the_answer_and_the_margin() -> None:
    assert Budget(32_768, 4_096, 655).limit == 28_017


def test_tokens_are_the_sum_of_the_parts_and_the_primer() -> None:
    assembled = request(talk(2), preferences=[JAVA])
    parts = assembled.manifest["parts"]
    assert assembled.tokens == REQUEST_OVERHEAD + sum(each["tokens"] for each in parts)
    assert assembled.tokens == REQUEST_OVERHEAD + sum(
        MESSAGE_OVERHEAD + count_text(each.content, "o200k_base") for each in assembled.messages
    )


def test_equal_to_the_budget_fits() -> None:
    full = request(talk(2), preferences=[JAVA, SHORT])
    again = request(talk(2), preferences=[JAVA, SHORT], budget=room_for(full))
    assert again.messages == full.messages


def test_preferences_are_given_up_first_from_the_last_one_on() -> None:
    full = request(talk(2), preferences=[JAVA, SHORT])
    tight = Budget(full.tokens - 1, 0, 0)
    assembled = request(talk(2), preferences=[JAVA, SHORT], budget=tight)
    assert assembled.manifest["preferences"] == [{"id": 7, "key": "examples"}]
    assert assembled.manifest["preferences_left_out"] == [
        {"id": 8, "key": "style", "reason": "budget"}
    ]
    assert assembled.manifest["window"] == {"from_seq": 1, "through_seq": 4, "messages": 4}
    bare = request(talk(2), preferences=[JAVA, SHORT], budget=room_for(request(talk(2))))
    assert bare.manifest["preferences"] == []
    assert bare.messages[-1].source is not None


def test_preferences_beyond_their_share_are_named_and_smaller_ones_still_fit() -> None:
    large = PreferenceText(9, "home", "a long story " * 40, "all", "user")
    share = count_text(preference_block([JAVA, SHORT]), "o200k_base")
    wanted = [JAVA, large, SHORT]
    assembled = request(talk(1), preferences=wanted, preference_tokens=share)
    assert [each["id"] for each in assembled.manifest["preferences"]] == [7, 8]
    assert assembled.manifest["preferences_left_out"] == [
        {"id": 9, "key": "home", "reason": "share"}
    ]
    less = request(talk(1), preferences=wanted, preference_tokens=share - 1)
    assert [each["id"] for each in less.manifest["preferences"]] == [7]
    none = request(talk(1), preferences=wanted, preference_tokens=5)
    assert none.messages[-1].source is not None


def test_then_the_oldest_exchange_goes_whole() -> None:
    full = request(talk(3))
    assembled = request(talk(3), preferences=[JAVA], budget=Budget(full.tokens - 1, 0, 0))
    assert [content for _, content in sent(assembled)][1:-1] == [
        "question 3",
        "answer 4",
        "question 5",
        "answer 6",
    ]
    assert assembled.manifest["left_out"] == [{"from": 1, "through": 2, "reason": "budget"}]
    assert assembled.manifest["window"] == {"from_seq": 3, "through_seq": 6, "messages": 4}
    assert assembled.manifest["preferences"] == []


def test_prompt_and_input_are_never_given_up() -> None:
    alone = request()
    assembled = request(talk(40), preferences=[JAVA], budget=room_for(alone))
    assert sent(assembled) == [("system", PROMPT), ("user", "question 99")]
    assert assembled.manifest["left_out"] == [{"from": 1, "through": 80, "reason": "budget"}]


def test_an_input_that_does_not_fit_is_refused_with_the_numbers() -> None:
    alone = request(current=asked(1, "x " * 50))
    with pytest.raises(InputTooLong) as refused:
        request(current=asked(1, "x " * 50), budget=Budget(alone.tokens - 1, 0, 0))
    size = counter_for("o200k_base")(Message.user("x " * 50))
    assert (refused.value.tokens, refused.value.limit) == (size, size - 1)
    assert refused.value.code == "input_too_long"
    assert (
        str(refused.value) == f"The message has {size} tokens; at most {size - 1} fit. Shorten it."
    )


def test_a_megabyte_of_input_is_refused_with_the_numbers() -> None:
    with pytest.raises(InputTooLong) as refused:
        request(current=asked(1, "的" * 1_000_000), preferences=[JAVA])
    assert refused.value.tokens == 1_000_004


def test_a_prompt_that_does_not_fit_is_told_apart() -> None:
    with pytest.raises(PromptTooLong) as refused:
        request(prompt="rule " * 500, budget=Budget(300, 100, 6))
    assert (refused.value.code, refused.value.limit) == ("prompt_too_long", 194)
    assert refused.value.tokens > 500


def test_a_correction_above_one_makes_less_room_and_below_one_no_more() -> None:
    full = request(talk(3))
    exact = room_for(full)
    assert request(talk(3), budget=exact, correction=0.5).messages == full.messages
    with_more = request(talk(3), budget=exact, correction=1.2)
    assert with_more.manifest["window"]["messages"] < 6
    tighter = Budget(full.tokens - 1, 0, 0)
    assert request(talk(3), budget=tighter, correction=0.5).manifest["window"]["messages"] == 4


def test_the_correction_shows_in_the_tokens_of_the_manifest() -> None:
    assembled = request(talk(1), correction=1.5)
    assert assembled.manifest["counted"] == assembled.tokens
    assert assembled.manifest["tokens"] == round(assembled.tokens * 1.5)
    assert request(talk(1), correction=0.5).manifest["tokens"] == round(assembled.tokens * 0.5)


def test_stored_counts_are_used_and_other_encodings_recounted() -> None:
    cheap = [asked(1), answered(2, tokens=1_000, encoding="o200k_base")]
    assert request(cheap, asked(3)).manifest["parts"][2]["tokens"] == 1_000
    other = [asked(1), answered(2, tokens=1_000, encoding="cl100k_base")]
    assert request(other, asked(3)).manifest["parts"][2]["tokens"] < 20


# --- Manifest


def test_the_manifest_tells_the_whole_request() -> None:
    history, current = talk(1, first=5), asked(7)
    chosen = window(history, LeftOut(1, 2, "before_forget_line"), LeftOut(3, 4, "max_messages"))
    assembled = request(current=current, window=chosen)
    count = counter_for("o200k_base")
    tokens = [count(Message(each.role, each.content)) for each in assembled.messages]  # type: ignore[arg-type]
    assert assembled.manifest == {
        "version": 1,
        "parts": [
            {"kind": "prompt", "role": "system", "tokens": tokens[0], "ids": []},
            {
                "kind": "history",
                "role": "user",
                "tokens": tokens[1],
                "seq": 5,
                "ids": [history[0].id],
            },
            {
                "kind": "history",
                "role": "assistant",
                "tokens": tokens[2],
                "seq": 6,
                "ids": [history[1].id],
            },
            {"kind": "input", "role": "user", "tokens": tokens[3], "seq": 7, "ids": [current.id]},
        ],
        "tokens": assembled.tokens,
        "counted": assembled.tokens,
        "correction": 1.0,
        "budget": 28_017,
        "encoding": "o200k_base",
        "left_out": [
            {"from": 1, "through": 2, "reason": "before_forget_line"},
            {"from": 3, "through": 4, "reason": "max_messages"},
        ],
        "window": {"from_seq": 5, "through_seq": 6, "messages": 2},
        "summary": None,
        "digest": None,
        "preferences": [],
        "preferences_left_out": [],
        "evidence": None,
        "references": [],
        "references_left_out": [],
        "source": "rebuild",
        "policy": {"max_messages": 20},
    }
    assert json.loads(json.dumps(assembled.manifest)) == assembled.manifest


def test_ranges_join_where_they_touch_and_share_a_reason() -> None:
    assert merged(
        [
            LeftOut(4, 4, "no_answer"),
            LeftOut(3, 3, "no_answer"),
            LeftOut(1, 2, "max_messages"),
            LeftOut(7, 9, "budget"),
            LeftOut(8, 8, "no_answer"),
            LeftOut(11, 11, "budget"),
        ]
    ) == [
        LeftOut(1, 2, "max_messages"),
        LeftOut(3, 4, "no_answer"),
        LeftOut(7, 9, "budget"),
        LeftOut(11, 11, "budget"),
    ]


@pytest.mark.parametrize("text", ["青云-4173", "שלום", "😄", "a\x00b", "\ud83d", "x" * 100_000])
def test_text_is_anyones(text: str) -> None:
    preference = PreferenceText(1, "k", text, "all", "user")
    budget = Budget(10_000_000, 0, 0)
    history = [asked(1, text), answered(2, text)]
    assembled = request(history, asked(3, text), preferences=[preference], budget=budget)
    assert sent(assembled)[1:3] == [("user", text), ("assistant", text)]
    assert assembled.messages[-1].content.endswith("</saved_preferences>\n\n" + text)
