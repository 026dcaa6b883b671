"""Which switch holds for a session, and who set it; what a request to its endpoint says of it."""

from __future__ import annotations

from typing import Any

import pytest

from chat.turns.policies import Switch, memory_policy, switches
from tests import builders
from tests.chat.admin_site import page_url, signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.pages]


def in_force(**fields: Any) -> dict[str, tuple[Any, str]]:
    chat_session = builders.chat_session(**fields)
    return {each.name: (each.value, each.source) for each in switches(chat_session)}


def test_the_environment_holds_where_nobody_says_more(settings: Any) -> None:
    settings.CHAT_MEMORY_MAX_TOKENS = 900
    assert in_force() == {
        "enabled": (True, "assistant"),
        "max_messages": (20, "environment"),
        "max_tokens": (900, "environment"),
        "stride": (0, "assistant"),
        "summarize": (False, "environment"),
        "use_preferences": (True, "assistant"),
        "use_digest": (True, "assistant"),
    }


def test_the_session_beats_the_assistant_and_the_assistant_the_environment() -> None:
    assistant = builders.assistant(
        max_messages=8, max_tokens=700, stride=4, use_preferences=False, memory_enabled=False
    )
    found = in_force(assistant=assistant, max_messages=6, memory_enabled=True)
    assert found == {
        "enabled": (True, "session"),
        "max_messages": (6, "session"),
        "max_tokens": (700, "assistant"),
        "stride": (4, "assistant"),
        "summarize": (False, "environment"),
        "use_preferences": (False, "assistant"),
        "use_digest": (False, "assistant"),
    }


@pytest.mark.parametrize("wanted", [True, False])
def test_summaries_are_made_where_the_environment_allows_and_the_assistant_wants_them(
    settings: Any, wanted: bool
) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    found = in_force(assistant=builders.assistant(summarize=wanted))
    assert found["summarize"] == (wanted, "assistant")


@pytest.mark.parametrize("switch", [True, False, None])
def test_what_the_environment_forbids_stays_off(settings: Any, switch: bool | None) -> None:
    settings.CHAT_MEMORY_ENABLED = False
    assert in_force(memory_enabled=switch)["enabled"] == (False, "environment")


def test_memory_goes_by_the_same_switches() -> None:
    chat_session = builders.chat_session(max_messages=6)
    policy = memory_policy(chat_session)
    shown = {each.name: each.value for each in switches(chat_session)}
    assert policy.described() == shown
    assert Switch("max_messages", 6, "session") in switches(chat_session)


def test_staff_see_them_on_the_sessions_page() -> None:
    chat_session = builders.chat_session(max_messages=1_000, memory_enabled=False)
    page = text_of(signed_in(builders.superuser()).get(page_url(chat_session)))
    assert "memory: off (set for this session)" in page
    assert "messages in the window: 1,000 (set for this session)" in page
    assert "tokens in the window: no limit (the installation's)" in page
    assert "preferences: on (the assistant's)" in page
