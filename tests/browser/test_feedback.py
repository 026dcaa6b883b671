"""Rating an answer, and deleting everything with all conversations."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.chat import say
from tests.browser.conftest import OpenChat
from tests.clients import Person


def test_an_answer_is_rated_kept_over_a_reload_and_taken_back(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session()
    say(new_person, session, "demo: echo; fast\nAn answer")
    chat = open_chat(new_person, session)
    good = chat.page.get_by_role("button", name="Good answer")
    bad = chat.page.get_by_role("button", name="Bad answer")
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    bad.click()
    dialog = chat.page.get_by_role("dialog", name="What was wrong?")
    dialog.get_by_role("textbox").fill("太短了 <b>")
    dialog.get_by_role("button", name="Send").click()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    chat.page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    bad.click()
    expect(bad).to_have_attribute("aria-pressed", "false")


def test_everything_goes_with_all_conversations_when_that_is_ticked(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session(title="About to go")
    say(new_person, session, "demo: echo; fast\nHello")
    chat = open_chat(new_person, session)
    panel = chat.show_details("Memory")
    panel.get_by_role("button", name="Delete everything about me").click()
    dialog = chat.page.get_by_role("dialog", name="Delete everything about you?")
    dialog.get_by_role("checkbox", name="Delete all my conversations as well").check()
    name = dialog.locator("#erase-expected").inner_text()
    dialog.get_by_role("textbox").fill(name)
    dialog.get_by_role("button", name="Delete everything").click()
    receipt = chat.page.get_by_role("dialog", name="What was removed")
    expect(receipt).to_contain_text(re.compile(r"messages\s*2"))
    receipt.get_by_role("button", name="Close").click()
    assert new_person.call("GET", "sessions/")[1]["results"] == []
