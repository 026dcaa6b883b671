"""What people do in the browser before a test begins."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.environment import DEMO_PASSWORD


def sign_in(page: Page, name: str, password: str = DEMO_PASSWORD) -> None:
    """Sign in through the form and arrive at the page's start."""
    page.goto("/accounts/login/")
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", password)
    with page.expect_navigation(url="**/"):
        page.press("input[name=password]", "Enter")
