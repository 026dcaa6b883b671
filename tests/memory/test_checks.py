from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django import Settings


def found() -> list[tuple[str, str]]:
    return [
        (each.id, each.msg) for each in run_checks() if each.id and each.id.startswith("memory.")
    ]


def test_the_defaults_are_right() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("CHAT_MEMORY_MAX_MESSAGES", 0, "memory.E001"),
        ("CHAT_MEMORY_MAX_MESSAGES", -3, "memory.E001"),
        ("CHAT_MEMORY_MAX_MESSAGES", None, "memory.E001"),
        ("CHAT_MEMORY_MAX_MESSAGES", True, "memory.E001"),
        ("CHAT_MEMORY_MAX_TOKENS", 0, "memory.E002"),
        ("CHAT_MEMORY_MAX_TOKENS", "100", "memory.E002"),
        ("CHAT_MEMORY_ENABLED", "yes", "memory.E003"),
        ("CHAT_MEMORY_PERSISTENCE_ENABLED", 1, "memory.E003"),
        ("CHAT_MEMORY_SUMMARIZE_ENABLED", None, "memory.E003"),
        ("CHAT_MEMORY_AUTO_CLEANUP_DAYS", -1, "memory.E004"),
        ("CHAT_MEMORY_IDLE_DAYS", "7", "memory.E004"),
        ("CHAT_REFERENCE_PASSAGES", 0, "memory.E006"),
        ("CHAT_DOCUMENT_MAX_BYTES", -1, "memory.E006"),
        ("CHAT_DOCUMENTS_MAX_BYTES", None, "memory.E006"),
    ],
)
def test_a_wrong_value_is_named_with_the_setting(
    settings: Settings, name: str, value: Any, check: str
) -> None:
    setattr(settings, name, value)
    assert found() == [(check, f"{name} is {value!r}.")]


def test_a_limit_that_holds_no_exchange_is_a_warning(settings: Settings) -> None:
    settings.CHAT_MEMORY_MAX_MESSAGES = 1
    assert [check for check, _ in found()] == ["memory.W001"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("no_such_module.passages", "No module named 'no_such_module'"),
        ("chat.documents.no_such_name", 'does not define a "no_such_name"'),
        ("chat.documents.PIECE_LENGTH", "it is a int"),
        ("passages", "doesn't look like a module path"),
    ],
)
def test_a_source_of_references_that_is_not_there_is_named(
    settings: Settings, path: str, problem: str
) -> None:
    settings.CHAT_REFERENCE_SOURCES = ["chat.documents.passages", path]
    ((check, message),) = found()
    assert check == "memory.E005"
    assert message.startswith(f"CHAT_REFERENCE_SOURCES names {path!r}: ")
    assert problem in message


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("memory.stores.DatabaseStore", ""),
        ("memory.stores.CacheStore", ""),
        ("memory.stores.InMemoryStore", ""),
        ("memory.stores.NoSuchStore", 'does not define a "NoSuchStore"'),
        ("no_such_module.Store", "No module named 'no_such_module'"),
        ("DatabaseStore", "doesn't look like a module path"),
        ("memory.stores.base.ATTEMPTS", "'int' object is not callable"),
        ("builtins.dict", "it has no method load, replace, delete"),
    ],
)
def test_a_snapshot_store_that_is_not_one_is_named(
    settings: Settings, path: str, problem: str
) -> None:
    settings.CHAT_MEMORY_STORE = path
    messages = [message for check, message in found() if check == "memory.E007"]
    assert bool(messages) == bool(problem)
    assert all(each.startswith(f"CHAT_MEMORY_STORE names {path!r}: ") for each in messages)
    assert all(problem in each for each in messages)
