"""The rows that a new installation starts with, and that a second run changes none of them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.conf import LazySettings, settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.serializers import serialize
from django.utils.module_loading import import_string

from chat.bootstrap import DEMO_TOOLS
from chat.models import Assistant, ModelEndpoint, Tenant
from tests import builders

pytestmark = pytest.mark.django_db


def bootstrap(*options: str) -> list[str]:
    out = StringIO()
    call_command("bootstrap", *options, stdout=out)
    return out.getvalue().splitlines()


def everything() -> str:
    """Every row of every table."""
    rows: list[Any] = []
    for model in apps.get_models():
        rows += model._default_manager.order_by("pk")
    return serialize("json", rows)


def person(name: str) -> Any:
    return get_user_model().objects.get(username=name)


@pytest.fixture
def openai(settings: LazySettings) -> LazySettings:
    settings.OPENAI_API_KEY_SET = True
    settings.OPENAI_BASE_URL = ""
    settings.OPENAI_MODEL = ""
    return settings


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "first-password")


# --- The demo -------------------------------------------------------------------------------------


def test_the_demo_has_an_endpoint_two_assistants_and_three_people() -> None:
    bootstrap("--demo")
    endpoint = ModelEndpoint.objects.get()
    assert (endpoint.name, endpoint.base_url, endpoint.model) == ("demo", "", "demo")
    assert (endpoint.encoding, endpoint.context_window, endpoint.max_output_tokens) == (
        "o200k_base",
        32768,
        4096,
    )
    assert (endpoint.supports_tools, endpoint.supports_json_schema) == (True, True)
    assistants = Assistant.objects.order_by("slug")
    assert {each.summarize for each in assistants} == {True}
    assert [each.tools for each in assistants] == [DEMO_TOOLS, DEMO_TOOLS]
    assert [(each.slug, each.is_default, each.max_messages) for each in assistants] == [
        ("demo", True, None),
        ("demo-brief", False, 2),
    ]
    people = get_user_model().objects.order_by("username")
    assert [(each.username, each.is_staff, each.is_superuser) for each in people] == [
        ("admin", True, True),
        ("alice", False, False),
        ("bob", False, False),
    ]


def test_the_rows_pass_their_own_checks() -> None:
    bootstrap("--demo")
    for row in [*ModelEndpoint.objects.all(), *Assistant.objects.all()]:
        row.full_clean()


def test_a_second_run_changes_nothing_and_prints_the_accounts_again() -> None:
    first = bootstrap("--demo")
    before = everything()
    second = bootstrap("--demo")
    assert everything() == before
    accounts = [
        "Demo users:",
        "  admin  password first-password",
        "  alice  password first-password",
        "  bob    password first-password",
    ]
    assert first[-4:] == accounts
    assert second == accounts


def test_a_password_that_somebody_has_is_never_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap("--demo")
    monkeypatch.setenv("DEMO_PASSWORD", "another-password")
    lines = bootstrap("--demo")
    assert lines[2] == (
        "  alice  has a password of its own, which stays"
        " (set it with `manage.py changepassword alice`)"
    )
    assert person("alice").check_password("first-password")


def test_without_a_password_in_the_environment_one_is_made_once_and_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "")
    lines = bootstrap("--demo")
    made = lines[-1].removeprefix("  bob    password ")
    assert len(made) == 12
    assert person("bob").check_password(made)
    assert made not in "".join(bootstrap("--demo"))
    assert person("bob").check_password(made)


def test_somebody_who_was_there_before_keeps_everything() -> None:
    builders.user("admin")
    bootstrap("--demo")
    assert not person("admin").is_superuser
    assert person("admin").check_password(builders.PASSWORD)


def test_what_staff_changed_stays_as_they_want_it() -> None:
    bootstrap("--demo")
    Assistant.objects.filter(slug="demo").update(system_prompt="Be terse.", is_default=False)
    Assistant.objects.filter(slug="demo-brief").update(is_default=True)
    bootstrap("--demo")
    assert Assistant.objects.get(slug="demo").system_prompt == "Be terse."
    assert Assistant.objects.get(is_default=True).slug == "demo-brief"


def test_without_the_demo_model_there_are_no_demo_assistants(settings: LazySettings) -> None:
    settings.DEMO_MODEL_ENABLED = False
    lines = bootstrap("--demo")
    assert lines[0] == ("No demo assistants: the demo model is off; set DEMO_MODEL_ENABLED=true")
    assert not Assistant.objects.exists()


def test_without_demo_there_are_no_demo_users() -> None:
    Tenant.objects.all().delete()
    assert bootstrap() == ["Made the tenant default"]
    assert (Assistant.objects.count(), get_user_model().objects.count()) == (0, 0)


# --- OpenAI and compatible endpoints --------------------------------------------------------------


def test_a_key_makes_an_endpoint_and_the_default_assistant(openai: LazySettings) -> None:
    bootstrap("--demo")
    endpoint = ModelEndpoint.objects.get(name="openai")
    assert (endpoint.base_url, endpoint.model, endpoint.api_key_env) == (
        "https://api.openai.com/v1",
        "gpt-4o-mini",
        "OPENAI_API_KEY",
    )
    assert Assistant.objects.get(is_default=True).slug == "openai"
    assert Assistant.objects.filter(slug="demo").exists()


def test_the_key_itself_is_stored_nowhere(
    openai: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-key")
    lines = bootstrap("--demo")
    assert "sk-planted-key" not in everything()
    assert "sk-planted-key" not in "".join(lines)


def test_an_endpoint_that_comes_later_becomes_the_default(openai: LazySettings) -> None:
    openai.OPENAI_API_KEY_SET = False
    bootstrap("--demo")
    openai.OPENAI_API_KEY_SET = True
    lines = bootstrap("--demo")
    assert lines[:2] == [
        "Made the endpoint openai: gpt-4o-mini at https://api.openai.com/v1",
        "Made the assistant openai; new conversations use it",
    ]
    assert Assistant.objects.get(is_default=True).slug == "openai"
    before = everything()
    bootstrap("--demo")
    assert everything() == before


def test_another_model_in_the_environment_is_followed_and_told(openai: LazySettings) -> None:
    bootstrap()
    ModelEndpoint.objects.filter(name="openai").update(context_window=200_000)
    openai.OPENAI_MODEL = "gpt-5"
    assert bootstrap() == ["Endpoint openai: model is now 'gpt-5', was 'gpt-4o-mini'"]
    endpoint = ModelEndpoint.objects.get()
    assert (endpoint.model, endpoint.context_window) == ("gpt-5", 200_000)


def test_an_endpoint_elsewhere_needs_no_key_but_the_name_of_its_model(
    openai: LazySettings,
) -> None:
    openai.OPENAI_API_KEY_SET = False
    openai.OPENAI_BASE_URL = "http://127.0.0.1:11434/v1"
    assert bootstrap() == [
        "No assistant for http://127.0.0.1:11434/v1: set OPENAI_MODEL to the model to ask for there"
    ]
    openai.OPENAI_MODEL = "qwen3"
    bootstrap()
    endpoint = ModelEndpoint.objects.get()
    assert (endpoint.api_key_env, endpoint.encoding) == ("", "estimate")
    endpoint.full_clean()


def test_the_demo_names_tools_that_there_are() -> None:
    known = {import_string(path).name for path in settings.CHAT_TOOLS}
    assert set(DEMO_TOOLS) <= known
