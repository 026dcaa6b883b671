"""The switches and limits that hold for one turn, read anew at every turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from chat.llm import EndpointSpec
from chat.models import Assistant, ChatSession, ModelEndpoint
from chat.turns import output_schema
from chat.turns.tools import Tool
from memory.context import Budget
from memory.recall import MemoryPolicy, Owner


def endpoint_spec(endpoint: ModelEndpoint) -> EndpointSpec:
    """The endpoint's row as the value that the model client takes."""
    return EndpointSpec(
        name=endpoint.name,
        base_url=endpoint.base_url,
        model=endpoint.model,
        api_key_env=endpoint.api_key_env,
        context_window=endpoint.context_window,
        max_output_tokens=endpoint.max_output_tokens,
        timeout=float(endpoint.timeout or settings.CHAT_TURN_SECONDS),
        max_retries=endpoint.max_retries,
        connect_timeout=float(settings.CHAT_CONNECT_SECONDS),
        first_token_timeout=float(settings.CHAT_FIRST_TOKEN_SECONDS),
        gap_timeout=float(settings.CHAT_GAP_SECONDS),
    )


@dataclass(frozen=True)
class Switch:
    """A setting of memory as it holds for a session, and who set it."""

    name: str
    """As in MemoryPolicy."""
    value: bool | int | None
    source: str
    """ "session", "assistant" or "environment"."""


def switches(chat_session: ChatSession) -> tuple[Switch, ...]:
    """Session beats assistant beats environment; what the environment forbids stays off."""
    assistant = chat_session.assistant
    return (
        _enabled(chat_session),
        _limit("max_messages", chat_session, settings.CHAT_MEMORY_MAX_MESSAGES),
        _limit("max_tokens", chat_session, settings.CHAT_MEMORY_MAX_TOKENS),
        Switch("stride", assistant.stride, "assistant"),
        _allowed("summarize", settings.CHAT_MEMORY_SUMMARIZE_ENABLED, assistant.summarize),
        Switch("use_preferences", assistant.use_preferences, "assistant"),
        _allowed("use_digest", settings.CHAT_DIGEST_ENABLED, assistant.use_preferences),
    )


def _allowed(name: str, allowed: bool, wanted: bool) -> Switch:
    """What the assistant wants, where the environment allows it."""
    return Switch(name, wanted, "assistant") if allowed else Switch(name, False, "environment")


def _enabled(chat_session: ChatSession) -> Switch:
    if not settings.CHAT_MEMORY_ENABLED:
        return Switch("enabled", False, "environment")
    if chat_session.memory_enabled is not None:
        return Switch("enabled", chat_session.memory_enabled, "session")
    return Switch("enabled", chat_session.assistant.memory_enabled, "assistant")


def _limit(name: str, chat_session: ChatSession, fallback: int | None) -> Switch:
    for source, holder in (("session", chat_session), ("assistant", chat_session.assistant)):
        if value := getattr(holder, name):
            return Switch(name, value, source)
    return Switch(name, fallback, "environment")


def memory_policy(chat_session: ChatSession) -> MemoryPolicy:
    """The switches of a session as memory takes them."""
    values: dict[str, Any] = {each.name: each.value for each in switches(chat_session)}
    return MemoryPolicy(**values, encoding=chat_session.assistant.endpoint.encoding)


def owner_of(chat_session: ChatSession) -> Owner:
    """Whose preferences concern this session."""
    return Owner(chat_session.tenant_id, chat_session.user_id, chat_session.assistant.slug)


def request_budget(endpoint: ModelEndpoint) -> Budget:
    """What a request to the endpoint may hold, in tokens."""
    window = context_window(endpoint)
    margin = window * settings.CHAT_CONTEXT_MARGIN_PERCENT // 100
    return Budget(window, output_tokens(endpoint), margin)


def context_window(endpoint: ModelEndpoint) -> int:
    """As configured, or less where the endpoint itself said so."""
    learned = endpoint.learned_context_window
    return min(endpoint.context_window, learned) if learned else endpoint.context_window


def output_tokens(endpoint: ModelEndpoint) -> int:
    """Tokens kept free for the answer: never more than half of what the endpoint takes."""
    return min(endpoint.max_output_tokens, context_window(endpoint) // 2)


def request_parameters(assistant: Assistant) -> dict[str, object]:
    """Everything of a request but its messages."""
    endpoint = assistant.endpoint
    limit = {"max_tokens": output_tokens(endpoint)}
    asked = output_schema.asked_of(assistant).parameters
    return {"model": endpoint.model, **limit, **assistant.parameters, **asked}


def tool_parameters(offered: Sequence[Tool], *, may_call: bool) -> dict[str, object]:
    """The tools of a request. They stay in it when none may be called any more: earlier messages
    of the request name them."""
    if not offered:
        return {}
    definitions: dict[str, object] = {"tools": [each.definition for each in offered]}
    return definitions if may_call else {**definitions, "tool_choice": "none"}
