"""The page that describes the REST API, under the same policy as every other page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.clients import Person


def test_the_api_is_described_and_can_be_tried_without_any_policy_violation(
    open_page: OpenPage, new_person: Person
) -> None:
    page = open_page(new_person)
    page.goto("/api/docs/")
    operation = page.locator("#operations-sessions-create_session")
    expect(operation).to_be_visible()
    operation.get_by_role("button").first.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.locator("textarea").fill('{"title": "Made here"}')
    operation.get_by_role("button", name="Execute").click()
    answer = operation.locator(".live-responses-table tbody .response-col_status")
    expect(answer).to_have_text(re.compile("^201"))


def test_who_is_not_signed_in_is_sent_to_sign_in(page: Page) -> None:
    page.goto("/api/docs/")
    expect(page).to_have_url(re.compile(r"/accounts/login/\?next=/api/docs/$"))
