"""Why did it not remember? What an administrator finds out in the admin, and how it looks."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser import axe
from tests.browser.chat import say
from tests.browser.conftest import OpenPage, SignIn
from tests.clients import Person
from tests.servers import Server

pytestmark = pytest.mark.timeout(400)  # fourteen turns come before

PHRASE = "青云-4173"
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "390px": {"color_scheme": "light", "viewport": NARROW},
}
SHOTS = os.environ.get("SHOTS", "")


@pytest.fixture(scope="module")
def forgetful(alice: Person) -> str:
    """Fourteen turns: the phrase in the first, asked for in the last, twelve others between."""
    session = alice.new_session(title="An evicted phrase")
    say(alice, session, f"请记住校验短语“{PHRASE}”，并只回复“已记住”。")
    for number in range(2, 14):
        say(alice, session, f"Question {number}")
    say(alice, session, "请告诉我刚才要求你记住的校验短语是什么？只回复短语。")
    return session


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS, f"inspect-{name}.png"), full_page=True)


def complaints(page: Page) -> list[str]:
    found = axe.complaints(page)
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        found.append("wider than the window")
    return found


def test_an_administrator_finds_that_the_window_let_the_phrase_go(
    open_page: OpenPage, person: SignIn, site: Server, forgetful: str
) -> None:
    page = open_page(person(site, "admin"))
    page.goto(f"/admin/chat/chatsession/{forgetful}/transcript/")
    page.locator("#turn-14").get_by_text("What was sent:").click()
    page.locator("#turn-14").get_by_role("link", name="Open as a page").click()
    expect(page.get_by_role("heading", name="What turn 14 sent")).to_be_visible()
    left_out = page.get_by_role("region", name="Left out")
    expect(left_out).to_contain_text("messages 1–6: beyond the limit of messages (20 messages)")
    page.get_by_role("main").get_by_role("link", name="Why not?").click()
    page.get_by_label("in its words").fill(PHRASE)
    page.get_by_role("button", name="Was it in the request?").click()
    verdict = page.locator(".verdict-left_out").filter(has_text="Message 1 was not in it")
    expect(verdict).to_contain_text("beyond the limit of messages (20 messages)")
    expect(verdict).to_contain_text("CHAT_MEMORY_MAX_MESSAGES")
    expect(verdict).to_contain_text("26 messages")
    verdict.get_by_role("link", name="What if it had been in reach?").click()
    expect(page.get_by_text("Message 1 would be sent")).to_be_visible()
    page.get_by_label("Messages in the window").fill("50")
    page.get_by_role("button", name="What would be sent?").click()
    page.wait_for_url(re.compile("max_messages=50"))  # the page before says much the same
    expect(page.get_by_text("Message 1 would be sent")).to_be_visible()
    expect(page.get_by_role("region", name="Difference to what was sent")).to_contain_text(
        "6 added"
    )
    added = page.locator(".difference-added").first
    expect(added).to_contain_text(PHRASE)
    page.get_by_role("link", name="Memory doctor").click()
    expect(page.get_by_text("nothing found")).to_be_visible()
    assert page.url.endswith(f"/of/{forgetful}/doctor/")


@pytest.mark.parametrize("look", LOOKS)
def test_the_pages_are_clean(
    open_page: OpenPage, person: SignIn, site: Server, forgetful: str, look: str
) -> None:
    page = open_page(person(site, "admin"), **LOOKS[look])
    of = f"/admin/chat/contextrecord/of/{forgetful}"
    found = []
    page.goto(f"/admin/chat/contextrecord/?chat_session__id__exact={forgetful}")
    page.get_by_role("main").get_by_role("table").get_by_role("link").first.click()
    page.wait_for_url(re.compile(r"/contextrecord/.+/change/"))
    found += complaints(page)
    shoot(page, f"context-{look}")
    page.goto(f"{of}/why-not/?turn=14&seq=1")
    found += complaints(page)
    page.get_by_label("in its words").fill(PHRASE)
    page.get_by_role("button", name="Was it in the request?").click()
    expect(page.get_by_text("Message 1 was not in it").first).to_be_visible()
    found += complaints(page)
    shoot(page, f"why-not-{look}")
    page.goto(f"{of}/what-if/?turn=14&seq=1&max_messages=50&stride=none")
    found += complaints(page)
    page.goto(f"{of}/what-if/?turn=14&seq=1&max_messages=50")
    found += complaints(page)
    shoot(page, f"what-if-{look}")
    page.goto(f"{of}/doctor/")
    found += complaints(page)
    shoot(page, f"doctor-{look}")
    assert found == []


def test_the_sections_are_reached_by_keyboard(
    open_page: OpenPage, person: SignIn, site: Server, forgetful: str
) -> None:
    page = open_page(person(site, "admin"))
    page.goto(f"/admin/chat/contextrecord/of/{forgetful}/why-not/")
    page.get_by_label("Number of a message").focus()
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Message 1 was not in it")).to_be_visible()
    page.get_by_role("link", name="What if it had been in reach?").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Message 1 would be sent")).to_be_visible()
