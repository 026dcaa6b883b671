"""The rows that a new installation starts with. Running it again changes nothing."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import check_password
from django.db import transaction

from chat.models import Assistant, ModelEndpoint, Tenant
from chat.models.tenants import DEFAULT_TENANT_SLUG

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-4o-mini"  # what OpenAI is asked for when OPENAI_MODEL does not say
OPENAI_WINDOW, OPENAI_OUTPUT = 128_000, 16_384
OTHER_WINDOW, OTHER_OUTPUT = 32_768, 4_096  # what models elsewhere usually have at least

PROMPT = "You are a friendly assistant. Answer in the language of the question, and be brief."
STRIDE = 6  # a third of the usual 20 messages: docs/memory.md, "What a stride saves"
BRIEF_PROMPT = "You are a friendly assistant. Answer in one sentence."
DEMO_TOOLS = ["remember", "forget", "search_history", "current_time"]


@dataclass(frozen=True)
class DemoUser:
    name: str
    is_admin: bool = False


DEMO_USERS = (DemoUser("admin", is_admin=True), DemoUser("alice"), DemoUser("bob"))


@transaction.atomic
def run(*, demo: bool) -> list[str]:
    """Make what is missing; one line for each thing that was made or must be known."""
    lines = [*make_tenant(), *make_openai_assistant()]
    if demo:
        lines += [*make_demo_assistants(), *make_demo_users()]
    return lines


def make_tenant() -> Iterator[str]:
    _, is_new = Tenant.objects.get_or_create(slug=DEFAULT_TENANT_SLUG, defaults={"name": "Default"})
    if is_new:
        yield f"Made the tenant {DEFAULT_TENANT_SLUG}"


# --- Assistants -----------------------------------------------------------------------------------


def make_openai_assistant() -> Iterator[str]:
    """The endpoint that the environment names follows it; the assistant on top is made once."""
    if not (settings.OPENAI_API_KEY_SET or settings.OPENAI_BASE_URL):
        return
    base_url = settings.OPENAI_BASE_URL or OPENAI_URL
    model = settings.OPENAI_MODEL or (OPENAI_MODEL if base_url == OPENAI_URL else "")
    if not model:
        yield f"No assistant for {base_url}: set OPENAI_MODEL to the model to ask for there"
        return
    named = {
        "base_url": base_url,
        "model": model,
        "api_key_env": "OPENAI_API_KEY" if settings.OPENAI_API_KEY_SET else "",
    }
    endpoint, is_new = ModelEndpoint.objects.get_or_create(
        name="openai", defaults={**named, **first_limits(base_url)}
    )
    if is_new:
        yield f"Made the endpoint openai: {model} at {base_url}"
    else:
        yield from follow(endpoint, named)
    assistant, is_new = Assistant.objects.get_or_create(
        slug="openai",
        defaults={
            "name": "Assistant",
            "endpoint": endpoint,
            "system_prompt": PROMPT,
            "stride": STRIDE,
        },
    )
    if is_new:
        become_default(assistant)
        yield "Made the assistant openai; new conversations use it"


def first_limits(base_url: str) -> dict[str, Any]:
    """What a new endpoint is assumed to hold; staff correct it in the admin."""
    if base_url == OPENAI_URL:
        window, output, encoding = OPENAI_WINDOW, OPENAI_OUTPUT, ModelEndpoint.Encoding.O200K
    else:
        window, output, encoding = OTHER_WINDOW, OTHER_OUTPUT, ModelEndpoint.Encoding.ESTIMATE
    return {"context_window": window, "max_output_tokens": output, "encoding": encoding}


def follow(endpoint: ModelEndpoint, named: dict[str, str]) -> Iterator[str]:
    changed = [name for name, value in named.items() if getattr(endpoint, name) != value]
    for name in changed:
        yield f"Endpoint openai: {name} is now {named[name]!r}, was {getattr(endpoint, name)!r}"
        setattr(endpoint, name, named[name])
    if changed:
        endpoint.save(update_fields=changed)


def become_default(assistant: Assistant) -> None:
    Assistant.objects.exclude(pk=assistant.pk).filter(is_default=True).update(is_default=False)
    Assistant.objects.filter(pk=assistant.pk).update(is_default=True)


def make_demo_assistants() -> Iterator[str]:
    """Two assistants on the scripted demo model that differ in what they remember."""
    if not settings.DEMO_MODEL_ENABLED:
        yield "No demo assistants: the demo model is off; set DEMO_MODEL_ENABLED=true"
        return
    endpoint, _ = ModelEndpoint.objects.get_or_create(
        name="demo",
        defaults={
            "base_url": "",
            "model": "demo",
            "encoding": ModelEndpoint.Encoding.O200K,
            "context_window": 32_768,
            "max_output_tokens": 4_096,
            "supports_vision": True,  # it takes images and says that it cannot see them
            "supports_tools": True,
            "supports_json_schema": True,
        },
    )
    shared = {"endpoint": endpoint, "tools": DEMO_TOOLS, "summarize": True}
    assistant, is_new = Assistant.objects.get_or_create(
        slug="demo", defaults={"name": "Demo", "system_prompt": PROMPT, **shared}
    )
    if is_new:
        yield "Made the assistant demo: scripted, not an AI"
    if not Assistant.objects.filter(is_default=True).exists():
        become_default(assistant)
    _, is_new = Assistant.objects.get_or_create(
        slug="demo-brief",
        defaults={
            "name": "Demo, short memory",
            "system_prompt": BRIEF_PROMPT,
            "max_messages": 2,
            **shared,
        },
    )
    if is_new:
        yield "Made the assistant demo-brief: it is sent the last two messages only"


# --- People ---------------------------------------------------------------------------------------


def make_demo_users() -> Iterator[str]:
    """The demo users. A password that somebody has is never changed."""
    given = os.environ.get("DEMO_PASSWORD", "")
    password = given or secrets.token_urlsafe(9)
    yield "Demo users:"
    for demo in DEMO_USERS:
        found = get_user_model().objects.filter(username=demo.name).first()
        if found is None:
            make_user(demo, password)
            yield f"  {demo.name:<6} password {password}"
        elif given and check_password(given, found.password):
            yield f"  {demo.name:<6} password {given}"
        else:
            yield (
                f"  {demo.name:<6} has a password of its own, which stays"
                f" (set it with `manage.py changepassword {demo.name}`)"
            )


def make_user(demo: DemoUser, password: str) -> None:
    users: Any = get_user_model().objects
    if demo.is_admin:
        users.create_superuser(demo.name, password=password)
    else:
        users.create_user(demo.name, password=password)
