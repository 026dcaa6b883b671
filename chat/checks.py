"""System checks: a wrong setting is named before the server starts."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import Error, Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

POSITIVE = [
    "DATABASE_POOL_SIZE",
    "LOGIN_FAILURE_LIMIT",
    "CHAT_LEASE_SECONDS",
    "CHAT_TURN_SECONDS",
    "CHAT_CONNECT_SECONDS",
    "CHAT_FIRST_TOKEN_SECONDS",
    "CHAT_GAP_SECONDS",
    "CHAT_EXECUTOR_THREADS",
    "CHAT_EXECUTOR_QUEUE",
    "CHAT_MAX_MESSAGE_CHARS",
    "CHAT_MAX_FRAME_BYTES",
    "CHAT_MAX_ATTACHMENT_BYTES",
    "CHAT_MAX_REQUEST_IMAGE_BYTES",
    "CHAT_FRAMES_PER_MINUTE",
    "CHAT_TURNS_PER_MINUTE",
    "CHAT_REQUESTS_PER_MINUTE",
    "CHAT_SOCKETS_PER_USER",
    "CHAT_IDLE_SECONDS",
    "CHAT_TEMPORARY_HOURS",
    "CHAT_EXPORT_ROWS_INLINE",
    "CHAT_EXPORT_HOURS",
    "CHAT_SUMMARY_MAX_TOKENS",
    "CHAT_SUMMARY_CHUNK_TOKENS",
    "CHAT_PREFERENCE_TOKENS",
    "CHAT_FOLLOW_UP_TASKS",
    "CHAT_FOLLOW_UP_SECONDS",
    "CHAT_TOOL_ROUNDS",
    "CHAT_TOOL_SECONDS",
    "CHAT_TOOL_RESULT_CHARS",
    "CHAT_REVIEW_CLAIM_HOURS",
]
NOT_NEGATIVE = ["CHAT_DRAIN_SECONDS", "DEMO_MODEL_DELAY_MS"]
PREFERENCE_MODES = ("confirm", "auto", "off")


@register(Tags.security)
def unreadable_values(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E001: a value in the environment that is not of its setting's type."""
    return [
        Error(f"{name} is {value!r}.", hint=f"Set it to {expected}, or remove it.", id="chat.E001")
        for name, (value, expected) in settings.BAD_VALUES.items()
    ]


@register(Tags.security)
def secret_key(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E005: no secret key. Django itself says so only when the key is first used."""
    try:
        found = bool(settings.SECRET_KEY)
    except ImproperlyConfigured:
        found = False
    if found:
        return []
    return [
        Error(
            "SECRET_KEY is empty.",
            hint="Set SECRET_KEY to at least 50 random characters; `make run` writes one to .env.",
            id="chat.E005",
        )
    ]


@register(Tags.compatibility)
def positive_numbers(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E002: a limit or a time that must be positive, or at least not negative."""
    return [
        Error(f"{name} is {value}.", hint=f"Set it to {least} or more.", id="chat.E002")
        for least, names in ((1, POSITIVE), (0, NOT_NEGATIVE))
        for name in names
        if (value := getattr(settings, name)) < least
    ]


@register(Tags.compatibility)
def context_margin(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E003: a margin that leaves no room for a request."""
    if 0 <= settings.CHAT_CONTEXT_MARGIN_PERCENT <= 50:
        return []
    return [
        Error(
            f"CHAT_CONTEXT_MARGIN_PERCENT is {settings.CHAT_CONTEXT_MARGIN_PERCENT}.",
            hint="Set it between 0 and 50.",
            id="chat.E003",
        )
    ]


@register(Tags.compatibility)
def preferences_mode(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E006: no way of dealing with preferences that were found."""
    if settings.CHAT_PREFERENCES_MODE in PREFERENCE_MODES:
        return []
    return [
        Error(
            f"CHAT_PREFERENCES_MODE is {settings.CHAT_PREFERENCES_MODE!r}.",
            hint=f"Set it to one of {', '.join(PREFERENCE_MODES)}.",
            id="chat.E006",
        )
    ]


@register(Tags.compatibility)
def named_tools(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E007: a tool that is not there, or is none."""
    from chat.turns.tools import Tool

    return [
        _wrong_path("CHAT_TOOLS", path, problem, "a chat.turns.tools.Tool", "chat.E007")
        for path in settings.CHAT_TOOLS
        if (problem := _problem_of(path, lambda found: isinstance(found, Tool)))
    ]


@register(Tags.compatibility)
def named_embedder(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E008: a source of embeddings that is not there, or cannot be called."""
    name, path = "CHAT_SEARCH_EMBEDDINGS", settings.CHAT_SEARCH_EMBEDDINGS
    problem = _problem_of(path, callable) if path else ""
    expected = "a class such as chat.search.sentence_encoder.SentenceEncoder"
    return [_wrong_path(name, path, problem, expected, "chat.E008")] if problem else []


def _problem_of(path: str, fits: Callable[[Any], bool]) -> str:
    try:
        found = import_string(path)
    except ImportError as error:
        return str(error)
    return "" if fits(found) else f"it is a {type(found).__name__}"


def _wrong_path(name: str, path: str, problem: str, expected: str, code: str) -> Error:
    hint = f"Give the dotted path of {expected}."
    return Error(f"{name} names {path!r}: {problem}.", hint=hint, id=code)


@register(Tags.compatibility)
def shared_cache(app_configs: Any, **kwargs: Any) -> list[Error]:
    """chat.E004: temporary sessions in the cache of one process, beside other processes."""
    if settings.REDIS_URL or settings.WEB_CONCURRENCY < 2:
        return []
    return [
        Error(
            f"WEB_CONCURRENCY is {settings.WEB_CONCURRENCY} and REDIS_URL is empty: each process"
            " would keep the text of temporary sessions, and its rate limits, for itself.",
            hint="Set REDIS_URL, or run one process.",
            id="chat.E004",
        )
    ]


@register(Tags.security, deploy=True)
def one_process_only(app_configs: Any, **kwargs: Any) -> list[checks.Warning]:
    """chat.W001: nothing that lets two processes tell each other what happens."""
    if settings.REDIS_URL:
        return []
    return [
        checks.Warning(
            "REDIS_URL is empty: readers in another process see an answer late or not at all.",
            hint="Set REDIS_URL, or run exactly one server process.",
            id="chat.W001",
        )
    ]
