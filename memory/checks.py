"""System checks: a wrong memory setting is named before the server starts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

SWITCHES = (
    "CHAT_MEMORY_ENABLED",
    "CHAT_MEMORY_PERSISTENCE_ENABLED",
    "CHAT_MEMORY_SUMMARIZE_ENABLED",
)
REFERENCE_LIMITS = (
    "CHAT_REFERENCE_PASSAGES",
    "CHAT_DOCUMENT_MAX_BYTES",
    "CHAT_DOCUMENTS_MAX_BYTES",
)
STORE_METHODS = ("load", "replace", "delete")
DAYS = ("CHAT_MEMORY_AUTO_CLEANUP_DAYS", "CHAT_MEMORY_IDLE_DAYS")


@register(Tags.compatibility)
def window_limits(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """memory.E001, E002: limits that no window can have; W001: one that holds no exchange."""
    found: list[CheckMessage] = []
    messages = settings.CHAT_MEMORY_MAX_MESSAGES
    tokens = settings.CHAT_MEMORY_MAX_TOKENS
    if not _is_whole(messages, at_least=1):
        hint = "Set it to a positive number of messages, for example 20."
        found.append(_wrong("CHAT_MEMORY_MAX_MESSAGES", hint, "memory.E001"))
    elif messages == 1:
        found.append(
            checks.Warning(
                "CHAT_MEMORY_MAX_MESSAGES is 1, which holds no question with its answer.",
                hint="Set it to 2 or more, or set CHAT_MEMORY_ENABLED=false.",
                id="memory.W001",
            )
        )
    if tokens is not None and not _is_whole(tokens, at_least=1):
        hint = "Leave it empty for no limit, or set a positive number of tokens."
        found.append(_wrong("CHAT_MEMORY_MAX_TOKENS", hint, "memory.E002"))
    return found


@register(Tags.compatibility)
def switches(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """memory.E003: a switch that is neither on nor off."""
    return [
        _wrong(name, "Set it to true or false.", "memory.E003")
        for name in SWITCHES
        if not isinstance(getattr(settings, name), bool)
    ]


@register(Tags.compatibility)
def days(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """memory.E004: a number of days that is not one."""
    return [
        _wrong(name, "Set it to 0 (never) or a positive number of days.", "memory.E004")
        for name in DAYS
        if not _is_whole(getattr(settings, name), at_least=0)
    ]


@register(Tags.compatibility)
def reference_sources(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """memory.E005: a source of references that is not there or cannot be called."""
    return [
        Error(
            f"CHAT_REFERENCE_SOURCES names {path!r}: {problem}.",
            hint="Give the dotted path of a function that takes a memory.references.Question.",
            id="memory.E005",
        )
        for path in settings.CHAT_REFERENCE_SOURCES
        if (problem := _problem_of_source(path))
    ]


def _problem_of_source(path: str) -> str:
    try:
        source = import_string(path)
    except ImportError as error:
        return str(error)
    return "" if callable(source) else f"it is a {type(source).__name__}"


@register(Tags.compatibility)
def reference_limits(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """memory.E006: a limit of references that lets nothing in."""
    return [
        _wrong(name, "Set it to 1 or more.", "memory.E006")
        for name in REFERENCE_LIMITS
        if not _is_whole(getattr(settings, name), at_least=1)
    ]


@register(Tags.compatibility)
def snapshot_store(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """memory.E007: a store of snapshots that is not there, or is none."""
    path = settings.CHAT_MEMORY_STORE
    if not (problem := _problem_of_store(path)):
        return []
    return [
        Error(
            f"CHAT_MEMORY_STORE names {path!r}: {problem}.",
            hint="Give the dotted path of a class such as memory.stores.DatabaseStore or"
            " memory.stores.CacheStore.",
            id="memory.E007",
        )
    ]


def _problem_of_store(path: str) -> str:
    try:
        store = import_string(path)()
    except Exception as error:  # whatever its module or its class raises is what is wrong
        return f"{type(error).__name__}: {error}"
    missing = [name for name in STORE_METHODS if not callable(getattr(store, name, None))]
    return f"it has no method {', '.join(missing)}" if missing else ""


def _wrong(name: str, hint: str, id: str) -> Error:  # noqa: A002 (Django's name)
    return Error(f"{name} is {getattr(settings, name)!r}.", hint=hint, id=id)


def _is_whole(value: object, *, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least
