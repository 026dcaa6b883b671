"""A person signs in at /accounts/login/."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.browser.people import sign_in


@pytest.mark.parametrize("name", ["alice", "bob", "admin"])
def test_a_demo_user_signs_in_and_arrives_at_the_chat_page(page: Page, name: str) -> None:
    sign_in(page, name)
    path = urlsplit(page.url).path
    assert path == "/" or path.startswith("/chat/")  # the last session, when there is one
    assert "sessionid" in {cookie["name"] for cookie in page.context.cookies()}


def test_a_wrong_password_signs_nobody_in_and_says_so(page: Page) -> None:
    page.goto("/accounts/login/")
    page.fill("input[name=username]", "alice")
    page.fill("input[name=password]", "not her password")
    page.press("input[name=password]", "Enter")
    page.get_by_role("alert").wait_for()
    assert urlsplit(page.url).path == "/accounts/login/"
    assert "sessionid" not in {cookie["name"] for cookie in page.context.cookies()}
