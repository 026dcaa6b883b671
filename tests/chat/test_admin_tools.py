"""The page of the tools: what models may call, and which assistants offer it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests import builders
from tests.chat.admin_site import list_url, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db

ADDRESS = reverse("admin:chat_assistant_tools")


def test_every_tool_is_shown_with_the_assistants_that_the_reader_sees() -> None:
    home = builders.tenant("default")
    ours = builders.assistant("ours", tenant=home, tools=["current_time", "gone_since"])
    builders.assistant("theirs", tenant=builders.tenant(), tools=["current_time"])
    response = signed_in(viewer()).get(ADDRESS)
    found = {each.name: each for each in response.context["tools"]}
    assert list(found["current_time"].assistants) == [ours]
    assert '"timezone"' in found["current_time"].parameters
    assert found["gone_since"].tool is None
    page = text_of(response)
    assert "The current date and time." in page
    assert "not in CHAT_TOOLS" in page
    assert "No assistant offers it." in page
    assert "theirs" not in page


def test_the_list_of_assistants_leads_there() -> None:
    page = text_of(signed_in(viewer()).get(list_url(type(builders.assistant()))))
    assert f'href="{ADDRESS}"' in page
