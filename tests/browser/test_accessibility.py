"""Whoever uses a keyboard or a screen reader: axe finds nothing serious, and names are there."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.axe import complaints_in_light_and_dark
from tests.browser.chat import say
from tests.browser.conftest import OpenChat, OpenPage
from tests.clients import Person

PHONE = {"width": 390, "height": 844}
ANSWER = "demo: markdown"


@pytest.fixture
def session(alice: Person) -> str:
    """A session with a rich answer, a failed turn, a forget line and a stop."""
    made = alice.new_session(title="见闻 and more")
    say(alice, made, ANSWER)
    alice.call("POST", f"sessions/{made}/clear-memory/", {})
    say(alice, made, "demo: echo; break 2\none two three")
    return made


def test_signing_in_and_the_empty_page(open_page: OpenPage, new_person: Person) -> None:
    page = open_page()
    page.goto("/accounts/login/")
    assert complaints_in_light_and_dark(page) == []
    page = open_page(new_person)
    page.goto("/")
    expect(page.get_by_role("heading", name="What would you like to talk about?")).to_be_visible()
    assert complaints_in_light_and_dark(page) == []


def test_answers_the_details_and_the_dialogs(
    open_chat: OpenChat, alice: Person, session: str
) -> None:
    chat = open_chat(alice, session, viewport={"width": 1440, "height": 900})
    page = chat.page
    expect(chat.try_again).to_be_visible()
    assert complaints_in_light_and_dark(page) == []
    chat.show_details("What was sent").locator("summary").first.click()
    assert complaints_in_light_and_dark(page) == []
    chat.show_details("Memory").get_by_label("What it is about").fill("tea")
    assert complaints_in_light_and_dark(page) == []
    page.get_by_role("button", name="Clear memory").click()
    expect(page.get_by_role("dialog", name="Clear memory?")).to_be_visible()
    assert complaints_in_light_and_dark(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.get_by_role("dialog", name="Keyboard and commands")).to_be_visible()
    assert complaints_in_light_and_dark(page) == []


def test_the_drawers_at_390_px(open_chat: OpenChat, alice: Person, session: str) -> None:
    chat = open_chat(alice, session, viewport=PHONE)
    page = chat.page
    page.get_by_role("button", name="Show conversations").click()
    expect(chat.sessions).to_be_in_viewport()
    assert complaints_in_light_and_dark(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="What was sent, and memory").click()
    expect(chat.details).to_be_in_viewport()
    assert complaints_in_light_and_dark(page) == []


def test_an_answer_is_announced_in_sentences_with_its_start_and_its_end(
    open_chat: OpenChat, alice: Person
) -> None:
    chat = open_chat(alice, alice.new_session())
    live = chat.page.locator("[aria-live=polite]#live")
    live.evaluate(
        """(region) => {
          window.said = [];
          new MutationObserver((changes) => {
            for (const change of changes)
              for (const line of change.addedNodes) window.said.push(line.textContent);
          }).observe(region, { childList: true });
        }"""
    )
    chat.ask("demo: echo; slow 2\nThe first sentence. The second one. And the last.")
    said = chat.page.evaluate("window.said")
    assert said[0] == "The answer begins."
    assert said[-1] == "The answer is complete."
    assert " ".join(said[1:-1]) == "The first sentence. The second one. And the last."
    assert len(said) < 6


def test_the_keyboard_reaches_renaming_and_escape_stops_an_answer(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session(title="Old name")
    chat = open_chat(new_person, session)
    chat.sessions.get_by_role("link", name="Old name").focus()
    chat.page.keyboard.press("Tab")
    expect(chat.sessions.get_by_role("button", name="Options of Old name")).to_be_focused()
    for key in ("Enter", "ArrowDown", "Enter"):
        chat.page.keyboard.press(key)
    chat.page.keyboard.type("New name")
    chat.page.keyboard.press("Enter")
    expect(chat.sessions.get_by_role("button", name="Options of New name")).to_be_focused()
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("New name")
    chat.send("demo: long 400; slow 20")
    expect(chat.stop_button).to_be_visible()
    chat.page.keyboard.press("Escape")
    expect(chat.messages).to_contain_text("Stopped by you")
