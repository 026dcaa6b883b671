"""The model client against a real local HTTP server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from chat import llm
from chat.llm import (
    Chunk,
    Completion,
    EndpointSpec,
    Finished,
    LLMError,
    TextDelta,
    ToolCallDelta,
    Usage,
    addresses,
    calls,
    clients,
    errors,
)
from memory.messages import ToolCall
from tests.fakes import (
    DONE,
    Abort,
    Event,
    FakeEndpoint,
    Pause,
    Raw,
    Reply,
    Say,
    answer,
    breaks_off,
    chunk,
    endless,
    failure,
    tool_call,
)

REQUEST: Mapping[str, Any] = {
    "model": "fake",
    "messages": [{"role": "user", "content": "Hi 😄 \u202eשלום 你好"}],
    "temperature": 0.2,
}
KEY = "very-secret-0123456789"


@pytest.fixture(autouse=True)
async def _fresh_client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Short waits between attempts, nothing remembered of other endpoints, clients closed."""
    monkeypatch.setattr(calls, "FIRST_BACKOFF", 0.02)
    monkeypatch.setattr(calls, "_without_usage", set())
    monkeypatch.setattr(addresses, "_noted", None)
    yield
    await llm.aclose()


@pytest.fixture(params=["untyped", "typed"])
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways through the SDK must give the same."""
    monkeypatch.setattr(clients, "UNTYPED", request.param == "untyped")
    return str(request.param)


async def read(spec: EndpointSpec, request: Mapping[str, Any] = REQUEST) -> list[Chunk]:
    return [each async for each in llm.stream(spec, request)]


async def read_until_error(
    spec: EndpointSpec, request: Mapping[str, Any] = REQUEST
) -> tuple[list[Chunk], LLMError]:
    """What came before the error, and the error."""
    came: list[Chunk] = []
    try:
        async for each in llm.stream(spec, request):
            came.append(each)
    except LLMError as error:
        return came, error
    pytest.fail(f"no error after {came}")


def text_of(chunks: list[Chunk]) -> str:
    return "".join(each.text for each in chunks if isinstance(each, TextDelta))


# --- Answers ------------------------------------------------------------------------------------


async def test_pieces_come_in_order_then_usage_then_the_end(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(answer("Hel", "lo 😄", usage=(12, 8, 3)))
    assert await read(fake_endpoint.spec()) == [
        TextDelta("Hel"),
        TextDelta("lo 😄"),
        Usage(input=12, cached_input=8, output=3),
        Finished("stop"),
    ]


async def test_the_request_arrives_exactly_with_the_stream_flags_added(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    await read(fake_endpoint.spec(), {**REQUEST, "stream": False, "stream_options": {"x": 1}})
    (received,) = fake_endpoint.requests
    assert received.body == {
        **REQUEST,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_frames_cut_inside_a_character_lose_nothing(fake_endpoint: FakeEndpoint) -> None:
    text = "a😄é你好\u202e🏳️‍🌈"
    fake_endpoint.replies(answer(text, text, split=3))
    assert text_of(await read(fake_endpoint.spec())) == text * 2


async def test_a_frame_of_a_megabyte_arrives_whole(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(answer("x" * 1_000_000))
    assert text_of(await read(fake_endpoint.spec())) == "x" * 1_000_000


async def test_text_can_always_be_stored(fake_endpoint: FakeEndpoint, either_path: str) -> None:
    halves = [r'"a\ud83d"', r'"\ude04b"', r'"c\u0000d"', r'"\udc00e"', r'"\u0000"', r'"f\ud83d"']
    frames = (
        f'data: {{"choices":[{{"index":0,"delta":{{"content":{half}}}}}]}}\n\n' for half in halves
    )
    steps = [Raw(frame.encode()) for frame in frames]
    fake_endpoint.replies(Reply([*steps, chunk({}, reason="stop"), DONE]))
    chunks = await read(fake_endpoint.spec())
    assert text_of(chunks) == "a😄bcd\ufffdef\ufffd"
    assert TextDelta("") not in chunks


async def test_a_tool_call_comes_in_pieces(fake_endpoint: FakeEndpoint, either_path: str) -> None:
    fake_endpoint.replies(tool_call("remember", {"key": "色"}))
    chunks = await read(fake_endpoint.spec())
    pieces = [each for each in chunks if isinstance(each, ToolCallDelta)]
    assert pieces[0] == ToolCallDelta(0, "call_1", "remember", "")
    assert "".join(piece.arguments for piece in pieces) == '{"key": "色"}'
    assert chunks[-1] == Finished("tool_calls")


async def test_a_refusal_is_text(fake_endpoint: FakeEndpoint, either_path: str) -> None:
    refusal = chunk({"content": None, "refusal": "I cannot."})
    fake_endpoint.replies(Reply([refusal, chunk({}, reason="stop"), DONE]))
    assert await read(fake_endpoint.spec()) == [TextDelta("I cannot."), Finished("stop")]


async def test_other_choices_and_empty_chunks_are_passed_over(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(
        Reply(
            [
                Event({"choices": [], "prompt_filter_results": []}),
                Raw(b": a comment\n\n"),
                Say("one"),
                chunk({"content": "two"}, index=1),
                chunk({}, reason="stop"),
                DONE,
            ]
        )
    )
    assert await read(fake_endpoint.spec()) == [TextDelta("one"), Finished("stop")]


async def test_a_server_that_does_not_stream_is_read_all_the_same(
    fake_endpoint: FakeEndpoint,
) -> None:
    message = {"role": "assistant", "content": "whole"}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    fake_endpoint.replies(Reply(body=body))
    assert await read(fake_endpoint.spec()) == [TextDelta("whole"), Finished("stop")]


# --- Usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "refusal",
    [
        failure(400, "Unknown parameter: 'stream_options'.", kind="invalid_request_error"),
        Reply(
            status=422,
            body={
                "message": {
                    "detail": [{"loc": ["body", "stream_options", "include_usage"], "msg": "Extra"}]
                }
            },
        ),
    ],
)
async def test_an_endpoint_that_refuses_the_usage_option_is_asked_without_it(
    fake_endpoint: FakeEndpoint, refusal: Reply
) -> None:
    fake_endpoint.replies(refusal, answer("a", usage=None), answer("b", usage=None))
    spec = fake_endpoint.spec()
    assert await read(spec) == [TextDelta("a"), Finished("stop")]
    assert await read(spec) == [TextDelta("b"), Finished("stop")]
    asked = ["stream_options" in received.body for received in fake_endpoint.requests]
    assert asked == [True, False, False]


async def test_an_answer_without_a_usage_report_is_an_answer(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(answer("a", usage=None))
    assert await read(fake_endpoint.spec()) == [TextDelta("a"), Finished("stop")]


@pytest.mark.parametrize("report", [{"prompt_tokens": "7"}, {"completion_tokens": 1}, 3, "x"])
async def test_a_usage_report_that_is_none_is_left_out(
    fake_endpoint: FakeEndpoint, report: Any
) -> None:
    fake_endpoint.replies(
        Reply([Say("a"), chunk({}, reason="stop"), Event({"choices": [], "usage": report}), DONE])
    )
    assert await read(fake_endpoint.spec()) == [TextDelta("a"), Finished("stop")]


@pytest.mark.parametrize("ending", [Abort(), Pause(30)])
async def test_a_whole_answer_stands_though_its_usage_never_comes(
    fake_endpoint: FakeEndpoint, ending: Abort | Pause, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "USAGE_WAIT", 0.2)
    fake_endpoint.replies(Reply([Say("a"), chunk({}, reason="stop"), Pause(0.02), ending]))
    assert await read(fake_endpoint.spec()) == [TextDelta("a"), Finished("stop")]


# --- Answers that are none ----------------------------------------------------------------------


async def test_a_stream_that_just_ends_is_an_error(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(Reply([Say("a"), DONE]))
    came, error = await read_until_error(fake_endpoint.spec())
    assert came == [TextDelta("a")]
    assert (error.code, error.retryable) == ("bad_response", True)
    assert error.detail.endswith("ended the stream in the middle of its answer (no finish_reason).")
    assert len(fake_endpoint.requests) == 1


async def test_a_connection_lost_in_the_middle_is_an_error_and_not_repeated(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(breaks_off("a", "b"))
    came, error = await read_until_error(fake_endpoint.spec())
    assert came == [TextDelta("a"), TextDelta("b")]
    assert (error.code, error.retryable) == ("provider_error", True)
    assert error.detail.endswith("broke off in the middle of its answer.")
    assert len(fake_endpoint.requests) == 1


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"data: {broken\n\n", "not JSON in UTF-8"),
        (b'data: "\xff\xfe"\n\n', "not JSON in UTF-8"),
        (b"data: [1]\n\n", "a list where a chunk was expected"),
        (b"data: 7\n\n", "a number where a chunk was expected"),
        (b"data: null\n\n", "null where a chunk was expected"),
        (b'data: {"choices": "x"}\n\n', "choices that are text"),
        (b'data: {"choices": [7]}\n\n', "choices that are a list"),
        (b'data: {"choices": [{"delta": 7}]}\n\n', "a delta that is a number"),
        (b'data: {"choices": [{"delta": {"content": {"a": 1}}}]}\n\n', "content that is an object"),
        (b'data: {"choices": [{"delta": {"tool_calls": "x"}}]}\n\n', "tool calls that are text"),
        (
            b'data: {"choices": [{"delta": {"tool_calls": [3]}}]}\n\n',
            "a tool call that is a number",
        ),
    ],
)
async def test_a_malformed_chunk_is_named_and_not_passed_over(
    fake_endpoint: FakeEndpoint, frame: bytes, said: str
) -> None:
    fake_endpoint.replies(Reply([Say("a"), Raw(frame), chunk({}, reason="stop"), DONE]))
    came, error = await read_until_error(fake_endpoint.spec())
    assert came == [TextDelta("a")]
    assert error.code == "bad_response"
    assert said in error.detail


async def test_a_page_instead_of_an_answer_is_named(fake_endpoint: FakeEndpoint) -> None:
    page = Reply(body=b"<html>Sign in", headers={"content-type": "text/html"})
    fake_endpoint.replies(page)
    _, error = await read_until_error(fake_endpoint.spec())
    assert error.code == "bad_response"
    assert error.detail.endswith("sent no answer (content type text/html).")


async def test_a_redirect_is_not_followed(fake_endpoint: FakeEndpoint) -> None:
    elsewhere = {"location": f"{fake_endpoint.base_url}/chat/completions?again"}
    fake_endpoint.replies(Reply(status=307, headers=elsewhere, body=b""))
    _, error = await read_until_error(fake_endpoint.spec())
    assert (error.code, len(fake_endpoint.requests)) == ("bad_response", 1)
    assert "redirects" in error.detail


# --- Errors that the endpoint names -------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "code", "retryable"),
    [
        (failure(400, "Bad temperature."), "bad_request", False),
        (failure(404, "The model does not exist."), "bad_request", False),
        (failure(401, "Incorrect API key."), "auth_failed", False),
        (failure(403, "Not yours."), "auth_failed", False),
        (failure(429, "Slow down."), "rate_limited", True),
        (failure(429, "Pay first.", code="insufficient_quota"), "rate_limited", False),
        (failure(408, "Too slow."), "provider_error", True),
        (failure(503, "Overloaded."), "provider_error", True),
        (Reply(status=502, body=b"<html>Bad gateway</html>"), "provider_error", True),
        (Reply([Event({"error": {"message": "Oops"}})]), "provider_error", True),
        (Reply([Event({"error": {"message": "x", "code": 429}})]), "rate_limited", True),
        (Reply([Event({"error": "just words"})]), "provider_error", True),
        (Reply(body={"error": {"message": "Oops", "code": "boom"}}), "provider_error", True),
        (Reply([chunk({}, reason="error")]), "provider_error", True),
    ],
)
async def test_an_error_gets_its_code(
    fake_endpoint: FakeEndpoint, reply: Reply, code: str, retryable: bool, either_path: str
) -> None:
    fake_endpoint.replies(reply)
    _, error = await read_until_error(fake_endpoint.spec(max_retries=0))
    assert (error.code, error.retryable) == (code, retryable)


async def test_an_error_in_the_middle_of_a_stream_ends_it(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(Reply([Say("a"), Event({"error": {"message": "Out of memory"}}), DONE]))
    came, error = await read_until_error(fake_endpoint.spec())
    assert came == [TextDelta("a")]
    assert error.code == "provider_error"
    assert error.detail.endswith(": Out of memory")
    assert len(fake_endpoint.requests) == 1


CONTEXT_ERRORS = [
    (
        failure(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted"
            " in 9001 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        8192,
    ),
    (
        failure(
            400,
            "the request exceeds the available context size. try increasing the context size",
            kind="exceed_context_size_error",
            n_ctx=256,
        ),
        256,
    ),
    (failure(400, "prompt is too long: 210000 tokens > 200000 maximum"), 200000),
    (
        failure(
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed"
            " (1048576).",
        ),
        1048576,
    ),
    (failure(422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"), 4096),
    (failure(400, "Range of input length should be [1, 30720]"), 30720),
    (
        failure(
            413,
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        ),
        32768,
    ),
    (
        Reply([Event({"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 512}})]),
        512,
    ),
]


@pytest.mark.parametrize(("reply", "limit"), CONTEXT_ERRORS)
async def test_a_request_longer_than_the_context_is_recognised_with_its_limit(
    fake_endpoint: FakeEndpoint, reply: Reply, limit: int
) -> None:
    fake_endpoint.replies(reply)
    _, error = await read_until_error(fake_endpoint.spec())
    assert (error.code, error.context_limit, error.retryable) == ("context_length", limit, False)
    assert len(fake_endpoint.requests) == 1


async def test_too_many_output_tokens_are_not_a_context_error(fake_endpoint: FakeEndpoint) -> None:
    text = "max_tokens is too large: 9000. This model supports at most 4096 completion tokens."
    fake_endpoint.replies(failure(400, text, code="invalid_value"))
    _, error = await read_until_error(fake_endpoint.spec())
    assert error.code == "bad_request"


async def test_an_endpoint_with_a_small_context_refuses_what_is_over_it(
    fake_endpoint: FakeEndpoint,
) -> None:
    fake_endpoint.reject_above = 20
    long = {"model": "fake", "messages": [{"role": "user", "content": "word " * 30}]}
    _, error = await read_until_error(fake_endpoint.spec(), long)
    assert (error.code, error.context_limit) == ("context_length", 20)
    short = {"model": "fake", "messages": [{"role": "user", "content": "word"}]}
    assert text_of(await read(fake_endpoint.spec(), short)) == "Hello there."


# --- Keys ---------------------------------------------------------------------------------------


async def test_the_key_comes_from_the_named_variable(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, either_path: str
) -> None:
    monkeypatch.setenv("FAKE_KEY", KEY)
    await read(fake_endpoint.spec(api_key_env="FAKE_KEY"))
    assert fake_endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_variable_no_real_key_is_sent(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    await read(fake_endpoint.spec())
    assert fake_endpoint.requests[0].headers["authorization"] == "Bearer no-key-needed"


async def test_a_variable_that_is_not_set_is_named_and_nothing_is_sent(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAKE_KEY", raising=False)
    _, error = await read_until_error(fake_endpoint.spec(api_key_env="FAKE_KEY"))
    assert (error.code, error.retryable) == ("missing_key", False)
    assert error.detail == (
        "The environment variable FAKE_KEY is not set; endpoint 'fake' takes its API key from it."
    )
    assert fake_endpoint.requests == []


@pytest.mark.parametrize(
    "reply",
    [
        failure(401, f"Incorrect API key provided: {KEY}."),
        failure(400, f"Bad header: Bearer {KEY}"),
        failure(500, f"{KEY} {KEY}"),
        Reply([Event({"error": {"message": f"key {KEY} is out of money"}})]),
        failure(400, "Incorrect API key provided: sk-abcd****wxyz"),
    ],
)
async def test_no_error_holds_a_key(
    fake_endpoint: FakeEndpoint, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", KEY)
    fake_endpoint.replies(reply)
    _, error = await read_until_error(fake_endpoint.spec(api_key_env="FAKE_KEY", max_retries=0))
    for text in (str(error), error.detail, repr(error)):
        assert KEY not in text
        assert "sk-abcd" not in text
    assert error.__cause__ is None
    assert error.__suppress_context__


# --- Retries ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [failure(500), failure(429), Reply([Abort()]), Reply([Event({"error": {"message": "x"}})])],
)
async def test_before_the_first_piece_the_call_is_repeated(
    fake_endpoint: FakeEndpoint, first: Reply, either_path: str
) -> None:
    fake_endpoint.replies(first, answer("fine", usage=None))
    assert await read(fake_endpoint.spec()) == [TextDelta("fine"), Finished("stop")]
    assert len(fake_endpoint.requests) == 2


async def test_retries_end_with_the_last_error(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(failure(500, "one"), failure(502, "two"), failure(503, "three"))
    _, error = await read_until_error(fake_endpoint.spec(max_retries=2))
    assert error.detail.endswith("(HTTP 503): three")
    assert len(fake_endpoint.requests) == 3


async def test_hidden_reasoning_counts_as_begun(fake_endpoint: FakeEndpoint) -> None:
    thought = chunk({"reasoning_content": "Let me think"})
    fake_endpoint.replies(Reply([thought, Pause(0.02), Abort()]))
    came, error = await read_until_error(fake_endpoint.spec())
    assert (came, error.code, len(fake_endpoint.requests)) == ([], "provider_error", 1)


async def test_the_endpoint_says_how_long_to_wait(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(failure(429, headers={"retry-after-ms": "300"}), answer("a"))
    started = time.monotonic()
    await read(fake_endpoint.spec())
    assert 0.3 <= time.monotonic() - started < 2


async def test_a_wait_beyond_the_deadline_is_not_begun(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(failure(429, headers={"retry-after": "60"}))
    started = time.monotonic()
    _, error = await read_until_error(fake_endpoint.spec(timeout=5))
    assert (error.code, error.retry_after) == ("rate_limited", 60.0)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_number_or_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert errors.retry_after(headers) == seconds


def test_retry_after_as_a_date_counts_from_now() -> None:
    wait = errors.retry_after({"retry-after": formatdate(time.time() + 30, usegmt=True)})
    assert wait is not None
    assert 28 <= wait <= 30


def test_waits_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "FIRST_BACKOFF", 0.5)
    waits = [calls.backoff(number) for number in range(1, 9)]
    assert 0.375 <= waits[0] <= 0.5
    assert 0.75 <= waits[1] <= 1.0
    assert all(6.0 <= wait <= 8.0 for wait in waits[5:])


# --- Deadlines ----------------------------------------------------------------------------------


async def test_no_first_piece_in_time(fake_endpoint: FakeEndpoint, either_path: str) -> None:
    fake_endpoint.replies(Reply([chunk({"role": "assistant"}), Pause(30)]))
    _, error = await read_until_error(fake_endpoint.spec(first_token_timeout=1.0))
    assert (error.code, error.retryable) == ("timeout", True)
    assert error.detail.endswith("gave no first token within 1 s.")
    assert await fake_endpoint.requests[0].ended() == "disconnected"
    assert len(fake_endpoint.requests) == 1


async def test_silence_between_two_pieces(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(Reply([Say("a"), Pause(30)]))
    came, error = await read_until_error(fake_endpoint.spec(gap_timeout=0.2))
    assert came == [TextDelta("a")]
    assert error.code == "timeout"
    assert error.detail.endswith("was silent for 0.2 s.")
    assert await fake_endpoint.requests[0].ended() == "disconnected"


async def test_the_whole_call_has_a_deadline(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(endless(delay=0.02))
    came, error = await read_until_error(fake_endpoint.spec(timeout=0.4))
    assert len(came) > 3
    assert error.code == "timeout"
    assert error.detail.endswith("did not finish within 0.4 s.")
    assert await fake_endpoint.requests[0].ended() == "disconnected"


async def test_retries_stay_inside_the_deadline(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "FIRST_BACKOFF", 1.0)
    fake_endpoint.default = lambda body: failure(500)
    started = time.monotonic()
    _, error = await read_until_error(fake_endpoint.spec(timeout=2.0, max_retries=10))
    assert error.code == "provider_error"
    assert time.monotonic() - started < 2.5


async def test_nobody_listens_there() -> None:
    spec = EndpointSpec(name="gone", base_url="http://127.0.0.1:9/v1", model="x", max_retries=1)
    _, error = await read_until_error(spec)
    assert (error.code, error.retryable) == ("connect_failed", True)
    assert error.detail == "No connection to 127.0.0.1:9."


def test_the_transport_times_the_connection_alone() -> None:
    timeout = clients.only_connecting(3.0)
    assert (timeout.connect, timeout.pool, timeout.read, timeout.write) == (3.0, 3.0, None, None)


# --- Stopping -----------------------------------------------------------------------------------


async def test_cancelling_the_reader_closes_the_upstream(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(endless())
    five = asyncio.Event()

    async def reader() -> None:
        count = 0
        async for _ in llm.stream(fake_endpoint.spec(), REQUEST):
            count += 1
            if count == 5:
                five.set()

    task = asyncio.create_task(reader())
    await five.wait()
    stopped = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (received,) = fake_endpoint.requests
    assert await received.ended() == "disconnected"
    assert received.ended_at - stopped < 0.5
    generated = received.generated
    await asyncio.sleep(0.1)
    assert received.generated == generated


async def test_closing_the_generator_closes_the_upstream(
    fake_endpoint: FakeEndpoint, either_path: str
) -> None:
    fake_endpoint.replies(endless())
    chunks = llm.stream(fake_endpoint.spec(), REQUEST)
    assert await anext(chunks) == TextDelta("more ")
    stopped = time.monotonic()
    await chunks.aclose()
    (received,) = fake_endpoint.requests
    assert await received.ended() == "disconnected"
    assert received.ended_at - stopped < 0.5


@pytest.mark.parametrize("steps", [[Pause(30)], [chunk({"role": "assistant"}), Pause(30)]])
async def test_cancelling_before_the_first_piece_closes_the_upstream(
    fake_endpoint: FakeEndpoint, steps: list[Any]
) -> None:
    fake_endpoint.replies(Reply(steps))
    task = asyncio.create_task(read(fake_endpoint.spec()))
    while not fake_endpoint.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await fake_endpoint.requests[0].ended() == "disconnected"


async def test_cancelling_between_two_attempts_ends_the_call(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "FIRST_BACKOFF", 5.0)
    fake_endpoint.replies(failure(500))
    task = asyncio.create_task(read(fake_endpoint.spec()))
    while not fake_endpoint.requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(fake_endpoint.requests) == 1


# --- Whole answers ------------------------------------------------------------------------------


async def test_a_whole_answer(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(answer("Hel", "lo", usage=(7, 2, 1)))
    assert await llm.complete(fake_endpoint.spec(), {**REQUEST, "stream": True}) == Completion(
        text="Hello", tool_calls=(), usage=Usage(7, 2, 1), finish_reason="stop"
    )
    assert fake_endpoint.requests[0].body == REQUEST


async def test_a_whole_answer_with_a_tool_call(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(tool_call("remember", {"a": 1}))
    assert await llm.complete(fake_endpoint.spec(), REQUEST) == Completion(
        text="",
        tool_calls=(ToolCall("call_1", "remember", '{"a": 1}'),),
        usage=None,
        finish_reason="tool_calls",
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"message": "x"}}, "provider_error"),
        ({"choices": []}, "bad_response"),
        ({"choices": [{"message": {"content": "a"}, "finish_reason": None}]}, "bad_response"),
        ({"choices": ["a"]}, "bad_response"),
        ([], "bad_response"),
        (b"{broken", "bad_response"),
    ],
)
async def test_a_whole_answer_that_is_none(
    fake_endpoint: FakeEndpoint, body: Any, code: str
) -> None:
    fake_endpoint.replies(Reply(body=body))
    with pytest.raises(LLMError) as caught:
        await llm.complete(fake_endpoint.spec(max_retries=0), REQUEST)
    assert caught.value.code == code


async def test_a_whole_answer_is_tried_again_and_has_a_deadline(
    fake_endpoint: FakeEndpoint,
) -> None:
    fake_endpoint.replies(failure(503), answer("ok"))
    assert (await llm.complete(fake_endpoint.spec(), REQUEST)).text == "ok"
    fake_endpoint.replies(Reply([Pause(30), Say("late")]))
    with pytest.raises(LLMError, match=r"did not finish within 0\.3 s"):
        await llm.complete(fake_endpoint.spec(timeout=0.3, max_retries=0), REQUEST)


# --- Requests -----------------------------------------------------------------------------------


async def test_half_a_character_in_a_request_is_named(fake_endpoint: FakeEndpoint) -> None:
    broken = {"model": "fake", "messages": [{"role": "user", "content": "a\ud800"}]}
    _, error = await read_until_error(fake_endpoint.spec(), broken)
    assert (error.code, fake_endpoint.requests) == ("bad_request", [])


async def test_one_client_serves_an_endpoint_and_its_connection_is_kept(
    fake_endpoint: FakeEndpoint,
) -> None:
    spec = fake_endpoint.spec()
    for _ in range(3):
        await read(spec)
    assert {received.connection for received in fake_endpoint.requests} == {1}
    first = clients.client_for(spec.base_url, "", own=False)
    assert clients.client_for(spec.base_url, "", own=False) is first
    assert clients.client_for(spec.base_url, KEY, own=False) is not first


def test_every_event_loop_has_its_own_client(fake_endpoint: FakeEndpoint) -> None:
    async def once() -> list[Chunk]:
        chunks = await read(fake_endpoint.spec())
        await llm.aclose()
        return chunks

    assert asyncio.run(once()) == asyncio.run(once())


async def test_after_closing_the_next_call_opens_a_new_client(fake_endpoint: FakeEndpoint) -> None:
    await read(fake_endpoint.spec())
    await llm.aclose()
    assert text_of(await read(fake_endpoint.spec())) == "Hello there."


# --- Addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noted", "url"),
    [
        (("127.0.0.1", 8123), "http://127.0.0.1:8123/demo-model/v1"),
        (("0.0.0.0", "8123"), "http://127.0.0.1:8123/demo-model/v1"),
        (("::", 8123), "http://[::1]:8123/demo-model/v1"),
        (("fd00::1", 80), "http://[fd00::1]:80/demo-model/v1"),
        (("/run/chat.sock", None), "http://127.0.0.1:8000/demo-model/v1"),
    ],
)
def test_this_server_is_found_at_the_address_it_serves(
    noted: tuple[str, Any], url: str, settings: Settings
) -> None:
    settings.HOST, settings.PORT = "127.0.0.1", 8000
    llm.note_server_address(*noted)
    assert llm.own_base_url() == url


def test_without_a_request_yet_the_settings_say_the_address(settings: Settings) -> None:
    settings.HOST, settings.PORT = "0.0.0.0", 9000
    assert llm.own_base_url() == "http://127.0.0.1:9000/demo-model/v1"


@pytest.mark.parametrize(
    ("allowed", "headers"),
    [
        (["127.0.0.1"], {}),
        (["*"], {}),
        ([], {}),
        (["chat.example.com", "other.example.com"], {"Host": "chat.example.com"}),
        ([".example.com"], {"Host": "example.com"}),
    ],
)
def test_this_server_accepts_its_own_call(
    allowed: list[str], headers: dict[str, str], settings: Settings
) -> None:
    llm.note_server_address("127.0.0.1", 8000)
    settings.ALLOWED_HOSTS = allowed
    assert addresses.own_headers() == headers


async def test_an_empty_address_is_this_server_past_any_proxy_or_guard(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    settings.CHAT_ALLOW_PRIVATE_ENDPOINTS = False
    settings.ALLOWED_HOSTS = ["chat.example.com"]
    llm.note_server_address("127.0.0.1", fake_endpoint.port)
    assert text_of(await read(fake_endpoint.spec(base_url=""))) == "Hello there."
    (received,) = fake_endpoint.requests
    assert received.path == "/demo-model/v1/chat/completions"
    assert received.headers["host"] == "chat.example.com"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "2130706433",
        "10.0.0.7",
        "192.168.1.1",
        "172.16.3.4",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
    ],
)
async def test_a_private_address_is_refused_where_settings_say_so(
    fake_endpoint: FakeEndpoint, host: str, settings: Settings
) -> None:
    settings.CHAT_ALLOW_PRIVATE_ENDPOINTS = False
    spec = fake_endpoint.spec(base_url=f"http://{host}:{fake_endpoint.port}/v1")
    _, error = await read_until_error(spec)
    assert (error.code, error.retryable) == ("endpoint_refused", False)
    assert error.detail.startswith(f"{host.strip('[]')} is a private address")
    assert "CHAT_ALLOW_PRIVATE_ENDPOINTS" in error.detail
    with pytest.raises(LLMError, match="endpoint_refused"):
        await llm.complete(spec, REQUEST)
    assert fake_endpoint.requests == []


async def test_a_public_address_passes_the_guard(settings: Settings) -> None:
    settings.CHAT_ALLOW_PRIVATE_ENDPOINTS = False
    await addresses.refuse_private("https://8.8.8.8/v1")
    await addresses.refuse_private("https://[2606:4700::1111]/v1")


async def test_a_name_that_does_not_exist_is_named(settings: Settings) -> None:
    settings.CHAT_ALLOW_PRIVATE_ENDPOINTS = False
    with pytest.raises(LLMError) as caught:
        await addresses.refuse_private("http://no-such-host.invalid/v1")
    assert caught.value.code == "connect_failed"
    assert caught.value.detail == "The host name 'no-such-host.invalid' was not found."


# --- Texts of errors ----------------------------------------------------------------------------


def test_a_detail_is_one_short_line_that_can_be_stored() -> None:
    assert errors.clean("a\n\tb \0c\ud800", "") == "a b c?"
    assert len(errors.clean("x" * 1_000_000, "")) == errors.MAX_DETAIL
    assert errors.clean("key is hunter2!", "hunter2") == "key is [key]!"


def test_an_error_never_shows_the_address_with_its_password(fake_endpoint: FakeEndpoint) -> None:
    spec = EndpointSpec(name="x", base_url="http://me:hunter2@example.com:81/v1?a=b", model="m")
    assert calls.Call(spec, spec.base_url, "", 0.0).host == "example.com:81"


def test_the_installed_sdk_still_streams_plain_data() -> None:
    assert clients.untyped_streaming() is True
    assert clients.UNTYPED is True
