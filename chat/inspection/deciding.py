"""The settings that decide what a session remembers: as they are today, and where each is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from chat.models import ChatSession
from chat.turns import policies

SESSION, ASSISTANT, ENDPOINT, ENVIRONMENT = "session", "assistant", "endpoint", "environment"

LABELS = {
    "enabled": "memory",
    "max_messages": "messages in the window",
    "max_tokens": "tokens in the window",
    "stride": "steps of the window's start",
    "summarize": "summaries",
    "use_preferences": "preferences",
    "use_digest": "the digest of earlier sessions",
}
FIELDS = {"enabled": "memory_enabled", "use_digest": "use_preferences"}  # else as the switch
SESSION_FIELDS = {
    "enabled": "memory_enabled",
    "max_messages": "max_messages",
    "max_tokens": "max_tokens",
}
VARIABLES = {
    "enabled": "CHAT_MEMORY_ENABLED",
    "max_messages": "CHAT_MEMORY_MAX_MESSAGES",
    "max_tokens": "CHAT_MEMORY_MAX_TOKENS",
    "summarize": "CHAT_MEMORY_SUMMARIZE_ENABLED",
    "use_digest": "CHAT_DIGEST_ENABLED",
}
OF_ENDPOINT = {
    "context_window": "context window of the endpoint",
    "max_output_tokens": "tokens kept free for the answer",
    "token_correction": "correction of our count",
    "strict_roles": "strict roles",
}
OF_SESSION = {
    "memory_starts_after": "forget line, after message",
    "idle_line": "pause line, after message",
}
OF_INSTALLATION = {
    "CHAT_CONTEXT_MARGIN_PERCENT": "margin of the context window, in percent",
    "CHAT_PREFERENCE_TOKENS": "share of preferences, in tokens",
    "CHAT_MEMORY_IDLE_DAYS": "pause in days",
}


@dataclass(frozen=True)
class Setting:
    """`field` is the column of the row `pk`, or the environment's variable."""

    label: str
    value: str
    where: str
    """ "session", "assistant", "endpoint" or "environment"."""
    field: str
    pk: Any = None
    of_session: str = ""
    """The session's own field for it, where that is not what decides now."""


def settings_of(chat_session: ChatSession, names: Iterable[str]) -> tuple[Setting, ...]:
    """Today's settings of these names, for a session with its assistant and endpoint at hand."""
    switches = {each.name: each for each in policies.switches(chat_session)}
    return tuple(
        _of_switch(chat_session, switches[name])
        if name in switches
        else _of_row(chat_session, name)
        for name in names
    )


def _of_switch(chat_session: ChatSession, switch: policies.Switch) -> Setting:
    label, value = LABELS[switch.name], shown(switch.value)
    own = SESSION_FIELDS.get(switch.name, "") if switch.source != SESSION else ""
    if switch.source == ENVIRONMENT:
        own = "" if switch.name == "enabled" else own  # what it forbids stays off
        return Setting(label, value, ENVIRONMENT, VARIABLES[switch.name], of_session=own)
    owners = {SESSION: chat_session.pk, ASSISTANT: chat_session.assistant_id}
    field = FIELDS.get(switch.name, switch.name)
    return Setting(label, value, switch.source, field, owners[switch.source], own)


def _of_row(chat_session: ChatSession, name: str) -> Setting:
    if name in OF_ENDPOINT:
        endpoint = chat_session.assistant.endpoint
        is_window = name == "context_window"
        value = policies.context_window(endpoint) if is_window else getattr(endpoint, name)
        return Setting(OF_ENDPOINT[name], shown(value), ENDPOINT, name, endpoint.pk)
    if name in OF_SESSION:
        line = shown(getattr(chat_session, name))
        return Setting(OF_SESSION[name], line, SESSION, name, chat_session.pk)
    if name in OF_INSTALLATION:
        return Setting(OF_INSTALLATION[name], shown(getattr(settings, name)), ENVIRONMENT, name)
    if name == "system_prompt":
        owner = chat_session.assistant_id
        length = f"{len(chat_session.assistant.system_prompt):,} characters"
        return Setting("prompt of the assistant", length, ASSISTANT, name, owner)
    raise ValueError(f"{name!r} is no setting that decides what is remembered")


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "no limit" if value is None else f"{value:,}"
