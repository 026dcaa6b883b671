"""Wrong settings are named by their check before the server starts."""

from __future__ import annotations

from typing import Any

import pytest

from chat import checks
from tests.databases import Databases, manage


def ids(found: list[Any]) -> list[str]:
    return [message.id for message in found]


def test_the_settings_of_tests_have_nothing_wrong() -> None:
    for check in (checks.unreadable_values, checks.positive_numbers, checks.context_margin):
        assert check(None) == []


def test_a_value_of_the_wrong_type_is_named_with_what_it_should_be(settings: Any) -> None:
    settings.BAD_VALUES = {"CHAT_LEASE_SECONDS": ("soon", "a whole number")}
    (found,) = checks.unreadable_values(None)
    assert found.id == "chat.E001"
    assert found.msg == "CHAT_LEASE_SECONDS is 'soon'."
    assert found.hint == "Set it to a whole number, or remove it."


def test_the_server_does_not_start_without_a_secret_key(databases: Databases) -> None:
    with pytest.raises(AssertionError, match="SECRET_KEY is empty"):
        manage(databases.empty("sqlite"), "check", SECRET_KEY="")


@pytest.mark.parametrize("name", checks.POSITIVE)
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_positive(settings: Any, name: str, value: int) -> None:
    setattr(settings, name, value)
    assert ids(checks.positive_numbers(None)) == ["chat.E002"]


@pytest.mark.parametrize("name", checks.NOT_NEGATIVE)
@pytest.mark.parametrize(("value", "expected"), [(-1, 1), (0, 0)])
def test_a_time_may_be_none_and_not_negative(
    settings: Any, name: str, value: int, expected: int
) -> None:
    setattr(settings, name, value)
    assert ids(checks.positive_numbers(None)) == ["chat.E002"] * expected


@pytest.mark.parametrize(("value", "expected"), [(-1, 1), (0, 0), (50, 0), (51, 1)])
def test_the_margin_leaves_room_for_a_request(settings: Any, value: int, expected: int) -> None:
    settings.CHAT_CONTEXT_MARGIN_PERCENT = value
    assert ids(checks.context_margin(None)) == ["chat.E003"] * expected


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("chat.tools.clock.CURRENT_TIME", ""),
        ("chat.tools.clock.current_time", "it is a function"),
        ("chat.tools.clock.NONE", "does not define a"),
        ("nowhere.TOOL", "No module named 'nowhere'"),
    ],
)
def test_a_tool_is_there_and_is_one(settings: Any, path: str, problem: str) -> None:
    settings.CHAT_TOOLS = ["chat.tools.history.SEARCH_HISTORY", path]
    found = checks.named_tools(None)
    assert ids(found) == ["chat.E007"] * bool(problem)
    assert all(f"CHAT_TOOLS names {path!r}" in each.msg and problem in each.msg for each in found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", 0),
        ("chat.search.sentence_encoder.SentenceEncoder", 0),
        ("chat.search.sentence_encoder.LENGTH", 1),
        ("nowhere.Encoder", 1),
    ],
)
def test_a_source_of_embeddings_is_there_and_can_be_called(
    settings: Any, path: str, expected: int
) -> None:
    settings.CHAT_SEARCH_EMBEDDINGS = path
    assert ids(checks.named_embedder(None)) == ["chat.E008"] * expected


@pytest.mark.parametrize(
    ("processes", "redis", "expected"), [(1, "", 0), (2, "", 1), (2, "redis://localhost", 0)]
)
def test_several_processes_need_a_shared_cache(
    settings: Any, processes: int, redis: str, expected: int
) -> None:
    settings.WEB_CONCURRENCY, settings.REDIS_URL = processes, redis
    assert ids(checks.shared_cache(None)) == ["chat.E004"] * expected


def test_a_deployment_without_redis_is_warned(settings: Any) -> None:
    settings.REDIS_URL = ""
    assert ids(checks.one_process_only(None)) == ["chat.W001"]
    settings.REDIS_URL = "redis://localhost"
    assert checks.one_process_only(None) == []


def test_the_server_does_not_start_with_a_wrong_setting(databases: Databases) -> None:
    url = databases.empty("sqlite")
    with pytest.raises(AssertionError) as refused:
        manage(url, "check", CHAT_TURN_SECONDS="a minute", DEBUG="perhaps", LOG_LEVEL="loud")
    text = str(refused.value)
    assert "CHAT_TURN_SECONDS is 'a minute'." in text
    assert "DEBUG is 'perhaps'." in text
    assert "Set it to true or false, or remove it." in text
    assert "LOG_LEVEL is 'LOUD'." in text


def test_a_database_that_is_not_known_is_told_by_what_is() -> None:
    with pytest.raises(AssertionError, match="DATABASE_URL names no database that is known here"):
        manage("oracle://somebody:secret@db.example.org/chat", "check")
