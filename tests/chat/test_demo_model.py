"""The demo model: what it answers, and how it delivers over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from django.test import AsyncClient
from pytest_django.fixtures import Settings

from chat import demo_model, llm
from chat.demo_model.facts import Fact, facts_in, question_in
from chat.demo_model.heard import hear
from chat.demo_model.script import LONGEST_PIECE, pieces, reply_to
from chat.llm import EndpointSpec, Finished, LLMError, TextDelta, ToolCallDelta, Usage, addresses
from memory.blocks import PreferenceText, preference_block
from memory.messages import Message
from memory.tokens import REQUEST_OVERHEAD, count_text, counter_for

FIRST_ZH = "第一轮：记忆验证：请记住校验短语“青云-4173”，并只回复“已记住”。"
SECOND_ZH = "第二轮：请告诉我刚才要求你记住的校验短语是什么？只回复短语。"
FIRST_EN = 'Please remember the verification phrase "Qingyun-4173" and reply only "Remembered".'
SECOND_EN = "What verification phrase did I ask you to remember? Reply with the phrase only."
URL = "/demo-model/v1/chat/completions"

LONG_TEXTS = [
    "a" * 1_000_000,
    "啊" * 1_000_000,
    " " * 1_000_000,
    "我。" * 500_000,
    "my a is " * 120_000,
    "remember " * 110_000,
    "请记住“" * 250_000,
    "<a>\n" * 250_000,
    "demo: " * 160_000,
    "😀" * 250_000,
]
ODD_TEXTS = [
    "",
    "\0",
    "\ud800",
    "a\udc00b",
    "שלום",
    "\u202eabc",
    "🏳️‍🌈",
    "demo:",
    "demo: ;;",
    "\r\n",
]


def said(*texts: str, prompt: str = "") -> dict[str, Any]:
    """A request whose user and assistant messages take turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    head = [{"role": "system", "content": prompt}] if prompt else []
    return {"model": "demo", "messages": [*head, *messages]}


def answer(*texts: str, prompt: str = "") -> str:
    """What the demo model answers to the last of these messages."""
    return reply_to(hear(said(*texts, prompt=prompt))).text


# --- The lines that must work -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "confirmed", "second", "phrase"),
    [
        (FIRST_ZH, "已记住", SECOND_ZH, "青云-4173"),
        (FIRST_ZH[4:], "已记住", SECOND_ZH[4:], "青云-4173"),
        (FIRST_EN, "Remembered", SECOND_EN, "Qingyun-4173"),
    ],
)
def test_the_verification_pair_works_word_for_word(
    first: str, confirmed: str, second: str, phrase: str
) -> None:
    assert answer(first) == confirmed
    assert answer(first, confirmed, second) == phrase
    assert answer(first, confirmed, second, phrase, second) == phrase
    assert phrase not in answer(second)


def test_a_new_session_says_that_the_phrase_was_not_among_its_messages() -> None:
    assert answer("刚才的校验短语是什么") == (
        "我不知道：我收到的内容里没有“校验短语”（更早的消息 0 条）。"
        "我是演示模型，只能从收到的内容里找答案。"
    )
    assert answer(SECOND_EN) == (
        'I do not know: "verification phrase" was not among the messages that I received'
        " (0 messages before this one). I am the demo model and look nowhere else."
    )


@pytest.mark.parametrize(
    ("statement", "question", "holds"),
    [
        ("我是张三😄", "我是谁", "张三"),
        ("我叫李四。", "我叫什么名字？", "李四"),
        ("My name is Alice", "Who am I?", "Alice"),
        ("Hi, I'm Alice Liddell.", "what is my name", "Alice Liddell"),
        ("My favourite colour is green", "What is my favorite color?", "green"),
        ("My name is Bo and my favourite food is dim sum.", "What's my favourite food?", "dim sum"),
        ("My dog's name is Rex.", "What is my dog's name?", "Rex"),
        ("My address is 5 Main St, Springfield", "what was my address?", "5 Main St, Springfield"),
        ("项目代号是青云-4173，请记住。", "项目代号是什么？", "青云-4173"),
        ("请记住我的生日是5月1日", "我的生日是什么？", "5月1日"),
        ("我最喜欢的颜色是蓝色。", "我最喜欢的颜色是什么？", "蓝色"),
        ("Remember that the project code is X-9.", "Do you remember the project code?", "X-9"),
        ("Remember the door code 4711", "What is the door code?", "4711"),
        ("Please remember my name: Alice", "Do you know my name?", "Alice"),
        ("记住：青云-4173", "我让你记住了什么？", "青云-4173"),
        (FIRST_ZH, "请再告诉我一次刚才要求你记住的校验短语。", "青云-4173"),
        (FIRST_EN, "Tell me the verification phrase again.", "Qingyun-4173"),
        (FIRST_EN, "What did I ask you to remember?", "Qingyun-4173"),
    ],
)
def test_what_was_stated_is_found_again_and_otherwise_it_is_not_known(
    statement: str, question: str, holds: str
) -> None:
    assert holds in answer(statement, "ok", question)
    assert holds not in answer(question)
    assert holds not in answer("hello", "hello", question)


def test_the_newest_statement_wins_and_all_names_are_told() -> None:
    assert answer("My code is A1", "ok", "My code is B2", "ok", "What is my code? Only.") == "B2"
    assert answer("I'm Ann", "ok", "I'm Bea", "ok", "Who am I?").startswith("You are Ann, Bea:")


# --- Nothing made up ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Is my name Bob?",
        "My name is not Bob",
        "我不是张三",
        "My name is what",
        "My favourite colour is blue, right?",
        'Did I ask you to remember "X"?',
        "Tell me the phrase that I asked you to remember again",
        "请再告诉我一次刚才要求你记住的校验短语。",
        "我是想问一下天气",
        "I am tired",
        "我觉得这是好的",
        *ODD_TEXTS,
    ],
)
def test_what_is_not_stated_is_no_fact(text: str) -> None:
    assert facts_in(text) == []


def test_the_assistants_own_words_are_no_source() -> None:
    assert "Bob" not in answer("hello", "My name is Bob. Your name is Bob.", "Who am I?")


def test_a_question_for_more_than_was_stated_is_not_answered_with_less() -> None:
    asked = answer("My colour is red", "ok", "What is the colour of my car?")
    assert asked.startswith('I do not know: "colour of my car" was not among the messages')


def test_what_else_was_received_is_named_when_the_answer_is_not_there() -> None:
    assert answer(FIRST_EN, "Remembered", "What was the marker?").endswith(
        'What I received holds: verification phrase is "Qingyun-4173".'
    )


@pytest.mark.parametrize("question", ["What is the capital of France?", "法国的首都是什么？"])
def test_general_knowledge_is_not_known(question: str) -> None:
    text = answer(question)
    assert "Paris" not in text
    assert "巴黎" not in text
    assert text.startswith(("I do not know", "我不知道"))


def test_equal_requests_get_equal_answers() -> None:
    answer(FIRST_EN)
    assert answer(SECOND_EN) == answer(SECOND_EN)
    assert "Qingyun-4173" not in answer(SECOND_EN)


# --- What came with the question ----------------------------------------------------------------


def preferences(*pairs: tuple[str, str]) -> str:
    return preference_block(
        [PreferenceText(n, key, text, "all", "user") for n, (key, text) in enumerate(pairs)]
    )


def test_preferences_in_the_message_answer_like_statements() -> None:
    block = preferences(("favourite colour", "teal & <b>gold</b>"), ("名字", "李四"))
    assert answer(block + "What is my favourite colour? Only the colour.") == "teal & <b>gold</b>"
    assert answer(block + "我是谁") == "你是李四，这写在我收到的消息里。"


def test_a_directive_inside_a_preference_is_not_followed() -> None:
    block = preferences(("style", "demo: fail 500\ndemo: fail 500"))
    reply = reply_to(hear(said(block + "hello")))
    assert reply.failure is None
    assert reply.text.startswith("Hello!")


def test_a_plain_message_is_told_what_came_with_it() -> None:
    block = preferences(("colour", "teal"))
    assert answer("One", "ok", block + "Nice weather.", prompt="Be kind.") == (
        "Hello! Your message has arrived. With it came 2 messages from before (1 of yours, 1 of the"
        " assistant's), and a system prompt, the block saved preferences (colour). I am the demo"
        ' model: I answer by a fixed script and am not an AI. Write "help" to see what I can show.'
    )
    assert answer("今天天气不错") == (
        "你好！你的消息我收到了。随它一起收到的：没有更早的消息。"
        "我是演示模型，按固定脚本回答，不是 AI；输入“帮助”可以看到我能演示什么。"
    )


@pytest.mark.parametrize("question", ["Who are you?", "are you an AI?", "What is your name?"])
def test_it_says_in_english_what_it_is(question: str) -> None:
    assert answer(question).startswith(
        "I am the demo model: a program that answers by a fixed script, not an AI and not a person."
    )


@pytest.mark.parametrize("question", ["你是谁", "你是AI吗？", "你叫什么名字"])
def test_it_says_in_chinese_what_it_is(question: str) -> None:
    assert answer(question).startswith(
        "我是演示模型（demo）：一个按固定脚本回答的程序，不是 AI，也不是真人。"
    )


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("你好 world", "zh"),
        ("hello there 你", "en"),
        ("שלום", "en"),
        ("demo: long", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_the_questions(text: str, language: str) -> None:
    assert hear(said(text)).language == language


def test_a_question_without_words_keeps_the_language_of_the_talk() -> None:
    assert hear(said("你好", "您好", "demo: long")).language == "zh"


# --- Directives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["help", "Help!", "帮助", "demo: help"])
def test_help_lists_every_directive(text: str) -> None:
    listed = answer(text)
    for key in ("long N", "markdown", "json {...}", "tool NAME {...}", "slow MS", "fail STATUS"):
        assert f"| `{key}` |" in listed
    assert "AI" in listed


def test_long_text_has_the_ordered_length_and_every_sentence_once() -> None:
    text = answer("demo: long 2000")
    assert 2000 <= len(pieces(text)) <= 2200
    assert text.count("## Section 7\n") == 1
    assert text.count("Sentence 7.2 ") == 1
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize(
    "text",
    ["Write a long markdown text", "请写一篇很长的 markdown", "Give me a long answer please"],
)
def test_plain_words_order_a_long_text_too(text: str) -> None:
    assert len(pieces(answer(text))) >= 600


@pytest.mark.parametrize("text", ["demo: markdown", "你好\ndemo: markdown"])
def test_markdown_shows_every_kind_of_block(text: str) -> None:
    shown = answer(text)
    for sign in ("# ", "## ", "- ", "  - ", "1. ", "> ", "| --- |", "$$", "```python", "```sql"):
        assert f"\n{sign}" in f"\n{shown}"


@pytest.mark.parametrize("text", ["Tell me slowly", "慢慢说", "demo: slow", "Demo： slow 200"])
def test_slowly_is_slow(text: str) -> None:
    assert reply_to(hear(said(text))).delay_ms == 200


def test_directives_combine_and_their_json_may_hold_anything() -> None:
    reply = reply_to(
        hear(said('demo: tool remember {"a": "x; demo: y"}; wait 1.5； finish length'))
    )
    assert [(call.name, call.arguments) for call in reply.tools] == [
        ("remember", '{"a": "x; demo: y"}')
    ]
    assert (reply.wait, reply.finish, reply.text) == (1.5, "length", "")


def test_given_json_comes_back_as_it_was_written() -> None:
    assert answer('demo: json {"b":1,  "a":[null, "色"]}') == '{"b":1,  "a":[null, "色"]}'


def test_echo_returns_the_rest_unchanged() -> None:
    rest = "<img src=x onerror=alert(1)>\n\n```html\n<b>\n```\n  indented"
    assert answer(f"demo: echo\n{rest}") == rest


def test_context_lists_what_was_received() -> None:
    assert answer("One | two", "ok", "demo: context", prompt="Be kind.") == (
        "| # | role | characters | begins |\n| ---: | --- | ---: | --- |\n"
        "| 1 | system | 8 | Be kind. |\n| 2 | user | 9 | One \\| two |\n"
        "| 3 | assistant | 2 | ok |\n| 4 | user | 13 | demo: context |\n\na system prompt"
    )


def test_a_tools_result_is_told_and_the_tool_not_called_again() -> None:
    body = said('demo: tool remember {"a": 1}')
    call = {"id": "call_demo_1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_demo_1", "content": "saved"},
    ]
    reply = reply_to(hear(body))
    assert (reply.text, reply.tools, reply.finish) == ("The tool answered:\n\nsaved", (), "stop")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("demo: sing", "there is no directive 'sing'"),
        ("demo: long many", "long takes a whole number up to 20000, not 'many'"),
        ("demo: long 999999", "long takes a whole number up to 20000, not '999999'"),
        ("demo: fail 200", "fail takes a status from 400 to 599 or 'context', not '200'"),
        ("demo: wait never", "wait takes seconds up to 600, not 'never'"),
        ("demo: tool", "tool takes the name of a tool, and its arguments as JSON"),
        ("demo: {}", "a directive begins with a word, not with '{}'"),
    ],
)
def test_a_directive_that_cannot_be_followed_is_named(line: str, problem: str) -> None:
    assert answer(line).startswith(f"I cannot follow this directive: {problem}.")


def test_broken_json_in_a_directive_is_named() -> None:
    assert "'{broken' is not JSON" in answer("demo: json {broken")


# --- Any text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_get_an_answer(text: str) -> None:
    assert answer(text)
    assert answer("hello", "ok", text)


@pytest.mark.parametrize("text", LONG_TEXTS, ids=[text[:6] for text in LONG_TEXTS])
def test_a_megabyte_is_read_in_linear_time(text: str) -> None:
    started = time.monotonic()
    assert answer(text)
    assert question_in(text) is None
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("text", [*LONG_TEXTS, *ODD_TEXTS, answer("demo: markdown")])
def test_pieces_join_to_the_text(text: str) -> None:
    cut = pieces(text)
    assert "".join(cut) == text
    assert max(map(len, cut), default=0) <= max(LONGEST_PIECE, len(text) // 10_000)


# --- Over HTTP ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _nothing_seen(settings: Settings) -> Iterator[None]:
    settings.DEMO_MODEL_DELAY_MS = 0
    demo_model.forget()
    yield
    demo_model.forget()


async def post(body: Any, **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await AsyncClient().post(URL, data, content_type="application/json", headers=headers)


async def test_a_whole_answer_is_labelled_and_counted_exactly() -> None:
    body = said(FIRST_EN, prompt="Be kind.")
    response = await post(body)
    reply = response.json()
    count = counter_for("o200k_base")
    given = count(Message.system("Be kind.")) + count(Message.user(FIRST_EN)) + REQUEST_OVERHEAD
    assert reply["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Remembered"},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert reply["usage"] == {
        "prompt_tokens": given,
        "completion_tokens": 2,
        "total_tokens": given + 2,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert (reply["model"], reply["system_fingerprint"]) == ("demo", "scripted-not-an-ai")
    assert response.headers["X-Demo-Model"] == "scripted, not an AI"
    assert not response.cookies


async def test_an_answer_is_cut_at_max_tokens() -> None:
    response = await post({**said("demo: markdown"), "max_tokens": 40})
    choice = response.json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert 30 <= count_text(choice["message"]["content"], "o200k_base") <= 40


async def test_no_csrf_token_is_asked_for() -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    response = await client.post(URL, json.dumps(said("hi")), content_type="application/json")
    assert response.status_code == 200


async def test_it_is_reached_over_plain_http_where_pages_need_https(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert (await post(said("hi"))).status_code == 200


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{broken", "The body is not JSON."),
        (b"\xff", "The body is not JSON."),
        (b"[" * 100_000, "The body is not JSON."),
        ([], "The body must be a JSON object."),
        ({}, "'messages' must be a list with at least one message."),
        ({"messages": []}, "'messages' must be a list with at least one message."),
        ({"messages": ["hi"]}, "messages[0] must be an object with a role."),
        (
            {"messages": [{"role": "user", "content": 7}]},
            "messages[0].content must be text or a list of parts.",
        ),
        (
            {**said("hi"), "max_tokens": "many"},
            "'max_tokens' must be a positive integer, not 'many'.",
        ),
    ],
)
async def test_a_request_that_is_none_is_refused_with_what_is_wrong(
    body: Any, problem: str
) -> None:
    response = await post(body)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == problem


async def test_a_body_over_the_servers_limit_is_refused(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE, settings.CHAT_MAX_REQUEST_IMAGE_BYTES = 100, 0
    response = await post(said("x" * 200))
    assert response.status_code == 413
    assert response.json()["error"]["message"] == "The body is over 100 bytes."


@pytest.mark.parametrize("calls", ["x", [7], [{"function": 7}], [{"id": None}], []])
async def test_odd_tool_calls_are_counted_and_not_fatal(calls: Any) -> None:
    body = said("hi", "", "there")
    body["messages"][1]["tool_calls"] = calls
    assert (await post(body)).status_code == 200


async def test_text_parts_are_read() -> None:
    parts = [{"type": "text", "text": "My name is Alice"}, {"type": "image_url"}]
    body = said("x", "ok", "Who am I? Only the name.")
    body["messages"][0]["content"] = parts
    assert (await post(body)).json()["choices"][0]["message"]["content"] == "Alice"


async def test_it_is_not_there_unless_enabled(settings: Settings) -> None:
    settings.DEMO_MODEL_ENABLED = False
    assert (await post(said("hi"))).status_code == 404
    for path in ("/demo-model/v1/models", "/demo-model/v1/requests"):
        assert (await AsyncClient().get(path)).status_code == 404
    assert demo_model.requests_seen() == []


async def test_its_only_model_is_called_demo() -> None:
    listed = (await AsyncClient().get("/demo-model/v1/models")).json()["data"]
    assert [(model["id"], model["owned_by"]) for model in listed] == [
        ("demo", "this server: scripted, not an AI")
    ]


async def test_the_last_fifty_requests_can_be_read_as_they_came() -> None:
    for number in range(52):
        await post(said(f"number {number}"))
    seen = demo_model.requests_seen()
    assert len(seen) == 50
    assert seen[-1]["messages"] == [{"role": "user", "content": "number 51"}]
    assert seen[-1]["_outcome"] == "completed"
    listed = (await AsyncClient().get("/demo-model/v1/requests")).json()["data"]
    assert listed == seen


async def test_nothing_is_kept_without_the_setting(settings: Settings) -> None:
    settings.DEMO_MODEL_RECORD = False
    await post(said("a secret"))
    assert demo_model.requests_seen() == []
    assert (await AsyncClient().get("/demo-model/v1/requests")).status_code == 404


# --- Through the model client, as every other endpoint ------------------------------------------


@pytest.fixture(scope="module")
def served() -> Iterator[int]:
    """The project's HTTP side on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = get_asgi_application()
        config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(10)


@pytest.fixture
async def demo(served: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EndpointSpec]:
    """The demo model as an endpoint without an address: this server's own."""
    monkeypatch.setattr(addresses, "_noted", ("127.0.0.1", served))
    yield EndpointSpec(name="demo", base_url="", model="demo", timeout=20, max_retries=0)
    await llm.aclose()


async def streamed(spec: EndpointSpec, *texts: str) -> list[llm.Chunk]:
    return [chunk async for chunk in llm.stream(spec, said(*texts))]


async def ended() -> dict[str, Any]:
    """The newest request, once its response has ended."""
    for _ in range(500):
        if demo_model.requests_seen()[-1]["_outcome"] != "running":
            break
        await asyncio.sleep(0.01)
    return demo_model.requests_seen()[-1]


async def test_the_pair_works_over_http_with_exact_usage(demo: EndpointSpec) -> None:
    assert [chunk for chunk in await streamed(demo, FIRST_ZH) if isinstance(chunk, TextDelta)] == [
        TextDelta("已记"),
        TextDelta("住"),
    ]
    chunks = await streamed(demo, FIRST_ZH, "已记住", SECOND_ZH)
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    count = counter_for("o200k_base")
    given = REQUEST_OVERHEAD + sum(
        count(message)
        for message in (
            Message.user(FIRST_ZH),
            Message.assistant("已记住"),
            Message.user(SECOND_ZH),
        )
    )
    assert text == "青云-4173"
    assert chunks[-2:] == [Usage(given, 0, count_text(text, "o200k_base")), Finished("stop")]
    assert (await llm.complete(demo, said(FIRST_ZH))).text == "已记住"


async def test_a_tool_is_called_over_http(demo: EndpointSpec) -> None:
    chunks = await streamed(demo, 'demo: tool remember {"key": "色"}')
    assert chunks[0] == ToolCallDelta(0, "call_demo_1", "remember", '{"key": "色"}')
    assert chunks[-1] == Finished("tool_calls")


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ("fail 500", "provider_error"),
        ("fail 429; retry-after 2", "rate_limited"),
        ("fail 401", "auth_failed"),
        ("fail 400", "bad_request"),
        ("fail context", "context_length"),
        ("break 0", "provider_error"),
    ],
)
async def test_an_ordered_failure_fails(demo: EndpointSpec, order: str, code: str) -> None:
    with pytest.raises(LLMError) as caught:
        await streamed(demo, f"demo: {order}")
    assert caught.value.code == code
    assert caught.value.retry_after == (2.0 if "retry-after" in order else None)


async def test_an_ordered_break_comes_in_the_middle(demo: EndpointSpec) -> None:
    came = []
    with pytest.raises(LLMError, match="broke off in the middle"):  # noqa: PT012
        async for chunk in llm.stream(demo, said("demo: long; break 3")):
            came.append(chunk)
    assert came == [TextDelta("#"), TextDelta(" A"), TextDelta(" long")]
    record = await ended()
    assert (record["_pieces"], record["_outcome"]) == (3, "broken_off")


async def test_it_stops_when_the_client_goes_away(demo: EndpointSpec) -> None:
    chunks = llm.stream(demo, said("demo: long 5000; slow 10"))
    for _ in range(5):
        await anext(chunks)
    await chunks.aclose()
    record = await ended()
    assert record["_outcome"] == "client_gone"
    assert 5 <= record["_pieces"] < 100


async def test_pieces_come_at_the_configured_pace(demo: EndpointSpec, settings: Settings) -> None:
    settings.DEMO_MODEL_DELAY_MS = 20
    started = time.monotonic()
    chunks = await streamed(demo, "hello")
    made = sum(isinstance(chunk, TextDelta) for chunk in chunks)
    assert made > 20
    assert 0.02 * made <= time.monotonic() - started < 0.1 * made


async def test_any_text_comes_back_over_http(demo: EndpointSpec) -> None:
    text = "a\u202eשלום 你好 😄🏳️‍🌈 <b>&amp;</b>\n\n\ttab"
    chunks = await streamed(demo, f"demo: echo\n{text}")
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text


def test_a_fact_compares_by_its_own_words() -> None:
    assert facts_in("My favorite color is green") == [
        Fact("favourite colour", "favorite color", "green")
    ]
