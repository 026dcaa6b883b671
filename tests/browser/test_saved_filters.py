"""Saved filters of the admin's lists by keyboard alone, in every look."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.test_admin import LOOKS, admin, complaints
from tests.clients import Person

__all__ = ["admin"]
NAMES = (
    "Held ones",
    "待处理的对话",
    "A name of sixty characters that has to find its room, at 390",
)


@pytest.mark.parametrize("look", LOOKS)
def test_a_filter_is_saved_opened_and_removed_by_keyboard(
    open_page: OpenPage, admin: Person, look: str
) -> None:
    page = open_page(admin, **LOOKS[look])
    for name in NAMES:
        page.goto("/admin/chat/chatsession/?state=held&q=plan")
        page.get_by_label("Save this filter as").press_sequentially(name)
        page.keyboard.press("Enter")
        page.get_by_text(f"Saved this filter as “{name}”.").wait_for()
    saved = page.get_by_role("region", name="Saved filters")
    assert complaints(page) == []
    page.goto("/admin/chat/chatsession/")
    link = saved.get_by_role("link", name=NAMES[0])
    expect(link).not_to_have_attribute("aria-current", "page")
    link.focus()
    page.keyboard.press("Enter")
    expect(link).to_have_attribute("aria-current", "page")
    for name in NAMES:
        saved.get_by_role("button", name=f"Remove the saved filter {name}").focus()
        page.keyboard.press("Enter")
        page.get_by_text(f"Removed the saved filter “{name}”.").wait_for()
    expect(saved.get_by_role("link")).to_have_count(0)
