"""The demo model's answers to the product's own requests, and the tools that it calls by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chat.demo_model import tasks
from chat.demo_model.heard import hear
from chat.demo_model.script import Reply, reply_to
from chat.follow_ups import prompts
from memory.blocks import (
    DigestText,
    PreferenceText,
    SummaryText,
    digest_block,
    preference_block,
    summary_block,
)

pytestmark = pytest.mark.pure
TOOLS = ("remember", "forget", "search_history", "current_time")
SEED = "记忆验证：请记住校验短语“青云-4173”，并只回复“已记住”。"


def reply(*messages: dict[str, Any], tools: tuple[str, ...] = (), **more: Any) -> Reply:
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    return reply_to(hear({"messages": list(messages), "tools": offered, **more}))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def task(**data: Any) -> str:
    system = {"role": "system", "content": "Any prompt of an operator's own."}
    return reply(system, user(json.dumps(data, ensure_ascii=False))).text


def answered(**data: Any) -> Any:
    return json.loads(task(**data))


def said(*texts: str) -> list[dict[str, Any]]:
    """Messages of the user at odd seqs, with answers between them."""
    rows = []
    for number, text in enumerate(texts):
        rows.append({"seq": 2 * number + 1, "role": "user", "text": text})
        rows.append({"seq": 2 * number + 2, "role": "assistant", "text": "My code is WRONG."})
    return rows


# --- Titles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "title"),
    [
        (SEED, "记忆验证"),
        ("请帮我写一首关于春天的诗。", "写一首关于春天的诗"),
        ("Please help me plan a trip to Italy, with kids.", "Plan a trip to Italy"),
        ("hello", "Hello"),
        ("你好", "你好"),
        ("", "Conversation"),
        ("Hi! What is the capital of France?", "What is the capital of France"),
    ],
)
def test_a_title_is_the_first_words_of_the_question(question: str, title: str) -> None:
    assert task(task="title", messages=said(question)) == title


# --- Minutes --------------------------------------------------------------------------------------


def test_a_summary_lists_what_the_user_said_by_kind_with_its_message() -> None:
    texts = (
        SEED,
        "We decided to use PostgreSQL. It must never cost more than 100 euros.",
        "I'm Alice. I still need to book a server.",
        "What is my name?",
    )
    assert answered(task="summary", previous=[], messages=said(*texts)) == {
        "decisions": [{"text": "We decided to use PostgreSQL", "seq": 3}],
        "constraints": [{"text": "It must never cost more than 100 euros", "seq": 3}],
        "open_tasks": [{"text": "I still need to book a server", "seq": 5}],
        "facts": [{"text": "校验短语: 青云-4173", "seq": 1}, {"text": "name: Alice", "seq": 5}],
        "outdated": [],
    }


def test_what_is_known_is_not_said_again_and_what_is_done_is_outdated() -> None:
    previous = [
        {"id": "p1", "kind": "facts", "text": "name: Alice"},
        {"id": "p2", "kind": "open_tasks", "text": "I still need to book a server"},
    ]
    told = said("I'm Alice. The server is ready now.")
    found = answered(task="summary", previous=previous, messages=told)
    assert found == {
        "decisions": [],
        "constraints": [],
        "open_tasks": [],
        "facts": [],
        "outdated": ["p2"],
    }


def test_where_nothing_is_stated_a_summary_says_what_was_asked() -> None:
    found = answered(task="summary", previous=[], messages=said("Where is Rome?", "And Paris?"))
    assert found["facts"] == [{"text": "Asked: Where is Rome?", "seq": 1}]


@pytest.mark.parametrize(
    ("text", "question", "holds"),
    [
        ("Facts:\n- 校验短语: 青云-4173", "校验短语是什么？只回复短语。", "青云-4173"),
        ("Facts:\n- name: Bo", "Who am I?", "Bo"),
        ("Facts:\n- The project code is X-9.", "What is the project code?", ""),
        ("Facts:\n- My project code is X-9 & <b>", "What is the project code?", "X-9 & <b>"),
    ],
)
def test_what_a_summary_or_a_digest_holds_is_found_in_its_block(
    text: str, question: str, holds: str
) -> None:
    blocks = (
        summary_block(SummaryText(1, 1, text, 1, 8)),
        digest_block(DigestText(1, text.removeprefix("Facts:\n- "))),
    )
    for block in blocks:
        found = reply(user(block + question)).text
        assert holds in found
        assert ("I do not know" in found) is not bool(holds)


# --- Preferences and digests ----------------------------------------------------------------------


def test_lasting_wishes_are_found_with_their_words_and_replace_what_is_of_their_subject() -> None:
    active = [{"key": "My language", "text": "Code examples in Java, please."}]
    messages = [
        {"seq": 1, "text": "Hello! Use Kotlin from now on. Who is Bo?"},
        {"seq": 3, "text": "以后用中文回答。谢谢"},
        {"seq": 5, "text": "What do you always say?"},
    ]
    assert answered(task="preferences", active=active, messages=messages)["preferences"] == [
        {
            "key": "code language",
            "text": "Use Kotlin from now on.",
            "quote": "Use Kotlin from now on.",
            "seq": 1,
            "replaces": "My language",
            "confidence": 0.9,
        },
        {
            "key": "回答语言",
            "text": "以后用中文回答。",
            "quote": "以后用中文回答。",
            "seq": 3,
            "replaces": None,
            "confidence": 0.9,
        },
    ]


@pytest.mark.parametrize(
    ("known", "said", "key"),
    [
        ("Code examples in Java, please.", "以后用 Kotlin。", "代码语言"),
        ("以后用 Java。", "Use Kotlin from now on.", "code language"),
        ("Always answer in English.", "以后用中文回答。", "回答语言"),
    ],
)
def test_a_wish_in_another_language_replaces_what_is_known_of_its_subject(
    known: str, said: str, key: str
) -> None:
    active = [{"key": "what I like", "text": known}]
    messages = [{"seq": 1, "text": said}]
    [found] = answered(task="preferences", active=active, messages=messages)["preferences"]
    assert (found["key"], found["text"], found["replaces"]) == (key, said, "what I like")


def test_what_is_active_already_is_not_found_again() -> None:
    active = [{"key": "code language", "text": "Code examples in Java, please."}]
    messages = [{"seq": 1, "text": "Code examples in Java, please."}]
    assert answered(task="preferences", active=active, messages=messages) == {"preferences": []}


def test_a_digest_is_the_first_lines_of_the_minutes_each_once() -> None:
    texts = ["Decisions:\n- Use Go\n\nFacts:\n- name: Bo", "Facts:\n- name: Bo\n- city: Rome"]
    assert answered(task="digest", conversations=texts) == {
        "lines": ["Use Go", "name: Bo", "city: Rome"]
    }


@pytest.mark.parametrize("task_name", list(tasks.ANSWERS))
@pytest.mark.parametrize("wrong", [None, "x", 3, [None], [[]], {}])
def test_a_task_without_its_texts_is_answered_all_the_same(task_name: str, wrong: Any) -> None:
    data = dict.fromkeys(("messages", "previous", "active", "conversations"), wrong)
    assert task(task=task_name, **data)


def test_a_task_is_known_whatever_stands_before_it_and_nothing_else_is_one() -> None:
    data = json.dumps({"task": "title", "messages": said("Plan a trip")})
    assert reply(user(f"{prompts.TITLE}\n\n{data}")).text == "Plan a trip"
    for text in ('{"task": "dance"}', '{"task": ', "task: title", '{"a": {"task": "title"}}'):
        assert tasks.task_in(text) is None


# --- Tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "Please remember that I prefer short answers.",
            {"key": "answer length", "text": "I prefer short answers"},
        ),
        ("请记住我喜欢喝绿茶。", {"key": "喝绿茶", "text": "我喜欢喝绿茶"}),
    ],
)
def test_an_explicit_wish_to_remember_calls_the_tool_and_then_confirms(
    text: str, arguments: dict[str, str]
) -> None:
    asked = reply(user(text), tools=TOOLS)
    assert (asked.text, asked.finish) == ("", "tool_calls")
    [call] = asked.tools
    assert (call.name, json.loads(call.arguments)) == ("remember", arguments)
    result = {"role": "tool", "tool_call_id": "c", "content": "Remembered under 'x': y"}
    done = reply(user(text), {"role": "assistant", "content": None}, result, tools=TOOLS)
    assert done.tools == ()
    assert arguments["text"] in done.text


def test_a_failed_tool_is_told_and_not_called_a_success() -> None:
    text = "Remember that I prefer tea."
    result = {"role": "tool", "tool_call_id": "c", "content": "This cannot be remembered: x."}
    done = reply(user(text), {"role": "assistant", "content": None}, result, tools=TOOLS)
    assert done.text == "The tool answered:\n\nThis cannot be remembered: x."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What was the project code we talked about last time?", "project code"),
        ("上次的项目代号是什么？", "项目代号"),
    ],
)
def test_a_question_about_an_earlier_conversation_is_looked_up(text: str, words: str) -> None:
    [call] = reply(user(text), tools=TOOLS).tools
    assert (call.name, json.loads(call.arguments)) == ("search_history", {"words": words})
    found = "[2026-01-01 · user · conversation X, message 1]\n"
    fact = "My project code is X-9." if text.isascii() else "记住项目代号是X-9。"
    result = {"role": "tool", "tool_call_id": "c", "content": found + fact}
    done = reply(user(text), {"role": "assistant", "content": None}, result, tools=TOOLS).text
    assert "X-9" in done


@pytest.mark.parametrize(
    "text", [SEED, "Who am I?", "What is the project code?", "hello", "I prefer short answers."]
)
def test_nothing_else_calls_a_tool(text: str) -> None:
    assert reply(user(text), tools=TOOLS).tools == ()


def test_what_was_received_is_not_looked_up_and_no_tool_that_is_not_offered_is_called() -> None:
    question = user("What was the project code last time?")
    assert reply(user("My project code is X-9."), question, tools=TOOLS).tools == ()
    assert reply(question).tools == ()
    assert reply(question, tools=TOOLS, tool_choice="none").tools == ()


def test_the_seed_works_word_for_word_with_tools_offered() -> None:
    assert reply(user(SEED), tools=TOOLS).text == "已记住"


@pytest.mark.parametrize(
    ("text", "key"),
    [("Forget that I prefer Kotlin", "code language"), ("忘记我喜欢绿茶", "饮料")],
)
def test_a_wish_to_forget_calls_the_tool_and_is_no_preference(text: str, key: str) -> None:
    remembered = [
        PreferenceText(1, "code language", "I prefer Kotlin", "all", "chat"),
        PreferenceText(2, "饮料", "我喜欢绿茶", "all", "chat"),
    ]
    sent = user(preference_block(remembered) + text)
    [call] = reply(sent, tools=TOOLS).tools
    assert (call.name, json.loads(call.arguments)) == ("forget", {"key": key})
    result = {"role": "tool", "tool_call_id": "c", "content": f"Forgotten: {key}"}
    done = reply(sent, {"role": "assistant", "content": None}, result, tools=TOOLS)
    assert key in done.text
    assert reply(user("Forget about my boat"), tools=TOOLS).tools == ()
    found = answered(task="preferences", active=[], messages=[{"seq": 1, "text": text}])
    assert found == {"preferences": []}
