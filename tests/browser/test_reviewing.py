"""A reviewer's work in a browser: claim, read, annotate, go on, by keyboard."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.browser import axe
from tests.browser.chat import say
from tests.browser.conftest import OpenPage
from tests.browser.people import add_staff, rate, sign_in
from tests.clients import Person
from tests.servers import Server

SESSIONS = "/admin/chat/chatsession/"


def wrong(page: Page) -> list[str]:
    """What axe finds in both themes, and whether the page is wider than its window."""
    found = axe.complaints_in_light_and_dark(page)
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        found.append(f"{page.url} is wider than the window")
    return found


@pytest.fixture
def pair(alice: Person, site_database: str) -> list[str]:
    """Two conversations; in the first one alice did not like the second answer."""
    made = []
    for title in ("Weather and tides", "退款：订单 4173 的问题"):
        session = alice.new_session(title=title)
        say(alice, session, "第一轮：请记住青云-4173。")
        say(alice, session, "What did I ask you to remember?")
        made.append(session)
    rate(site_database, made[0], 2, -1, "不对，请再想想")
    return made


@pytest.mark.timeout(300)
def test_a_reviewer_works_through_the_queue_by_keyboard(
    open_page: OpenPage, site: Server, site_database: str, pair: list[str]
) -> None:
    name = add_staff(site_database, f"rita-{uuid.uuid4().hex[:6]}", "Reviewer")
    page = open_page(viewport={"width": 1440, "height": 900})
    sign_in(page, name)

    # The list: filtered by what users thought, then both sessions are queued at once.
    page.goto(f"{SESSIONS}?person=alice")
    page.get_by_role("link", name="Bad, with a comment").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.goto(f"{SESSIONS}?person=alice")
    for session in pair:
        page.locator(f'input[name=_selected_action][value="{session}"]').check()
    page.get_by_label("Action:").select_option("queue_for_review")
    page.get_by_role("button", name="Go", exact=True).click()
    page.get_by_text("Queued 2 sessions.").wait_for()

    # The queue: the oldest first; n claims it.
    page.get_by_role("link", name="Review queue").click()
    page.get_by_role("heading", name="Waiting: 2").wait_for()
    assert wrong(page) == []
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Weather and tides")).to_be_focused()
    page.keyboard.press("n")
    page.wait_for_url(f"**/{pair[0]}/transcript/")
    expect(page.locator(".review .standing")).to_contain_text("In review claimed by you")

    # Reading: message by message, what was sent, and what alice thought.
    for seq in (1, 2, 3):
        page.keyboard.press("j")
        expect(page.locator(f"#seq-{seq}")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#seq-2")).to_be_focused()
    expect(page.locator("#seq-4 .vote")).to_contain_text("不对，请再想想")
    page.locator("details.sent-fold").first.locator("summary").click()
    page.get_by_text("Proof ok").wait_for()
    assert wrong(page) == []

    # A turn's note and score. What is written is not taken for a key.
    page.locator("#turn-2 .remark-fold summary").click()
    page.get_by_label("Note on turn 2").press_sequentially("jfn: not what was asked")
    page.get_by_label("Score of turn 2").select_option("1")
    page.locator("#turn-2").get_by_role("button", name="Save").click()
    expect(page.locator("#turn-2 .note-text")).to_have_text("jfn: not what was asked")
    expect(page.locator("#turn-2 .scores")).to_contain_text("overall: 1 of 5")

    # The session's note, score and tag; then the flag and the next one.
    page.get_by_label("Note", exact=True).fill("记忆没有用上。\nAsk the team.")
    page.get_by_label("Score from 1 to 5").select_option("2")
    page.get_by_label("New tags").fill("memory, 退款")
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(page.locator(".review .note-text")).to_have_text("记忆没有用上。\nAsk the team.")
    expect(page.locator(".review .tags")).to_contain_text("退款")
    assert wrong(page) == []
    page.locator("#review-heading").click()
    page.keyboard.press("f")
    expect(page.get_by_label("Flag it, when I go on")).to_be_checked()
    page.keyboard.press("n")
    page.wait_for_url(f"**/{pair[1]}/transcript/")
    expect(page.get_by_text(f"{pair[0][:8]}: flagged.")).to_be_visible()

    # Keys can be switched off, and stay off.
    page.get_by_label(re.compile("Use them")).uncheck()
    page.keyboard.press("j")
    page.reload()
    page.keyboard.press("j")
    expect(page.locator("#seq-1")).not_to_be_focused()
    page.get_by_label(re.compile("Use them")).check()
    page.locator("#review-heading").click()
    page.keyboard.press("n")
    page.wait_for_url("**/queue/")
    expect(page.get_by_text("Nothing else waits for review.")).to_be_visible()

    # The list knows what became of them; everything fits a narrow window.
    page.goto(f"{SESSIONS}?review=flagged&tag=退款")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.set_viewport_size({"width": 390, "height": 844})
    for address in (
        f"{SESSIONS}?review=flagged",
        f"{SESSIONS}queue/",
        f"{SESSIONS}{pair[0]}/transcript/",
    ):
        page.goto(address)
        assert wrong(page) == []
