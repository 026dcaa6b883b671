"""Searching one's own messages: found in any session, opened at the message, and marked."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.chat import Chat, say
from tests.browser.conftest import OpenChat
from tests.clients import Person


@pytest.fixture
def long_session(new_person: Person) -> str:
    """Sixty messages; the fifth speaks of a heron."""
    session = new_person.new_session(title="Birds")
    for number in range(1, 31):
        bird = "heron <i>Ardea</i>" if number == 3 else "sparrow"
        say(new_person, session, f"demo: echo; fast\nBird {number}: {bird}")
    return session


def results(chat: Chat) -> Locator:
    return chat.page.get_by_role("list", name="Search results").get_by_role("link")


def test_a_hit_far_up_in_another_session_is_opened_in_sight_and_marked(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    other = new_person.new_session(title="Other")
    say(new_person, other, "Nothing about birds here")
    chat = open_chat(new_person, other)
    chat.page.keyboard.press("Control+k")
    chat.page.keyboard.type("heron")
    first = results(chat).filter(has_text="<i>Ardea</i>").filter(has_text="you,").first
    expect(first).to_contain_text("Birds")
    expect(first).to_contain_text("heron <i>Ardea</i>")
    expect(first.locator("mark")).to_have_text("heron")
    first.click()
    expect(chat.page).to_have_url(re.compile(rf"/chat/{long_session}/#5$"))
    message = chat.page.locator('article[data-seq="5"]')
    expect(message).to_be_in_viewport()
    expect(message).to_be_focused()
    marked = "() => [...CSS.highlights.get('found')].map(String)"
    assert chat.page.evaluate(marked) == ["heron"]
    chat.wait_until_online()
    expect(message).to_be_in_viewport()
    chat.page.get_by_role("button", name="Latest").click()
    expect(chat.page.locator('article[data-seq="60"]')).to_be_in_viewport()


def test_a_hit_by_its_neighbours_words_says_next_to_what_it_stands(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session(title="Pond")
    say(new_person, session, "demo: echo; fast\nA kingfisher by the pond")
    say(new_person, session, "demo: echo; fast\nAnd what else?")
    chat = open_chat(new_person, session)
    chat.page.keyboard.press("Control+k")
    chat.page.keyboard.type("kingfisher")
    near = results(chat).filter(has_text="And what else?").first
    expect(near).to_contain_text("Next to: A kingfisher by the pond")
    expect(near.locator(".search-reason mark")).to_have_text("kingfisher")
    expect(results(chat).first).not_to_contain_text("Next to")


def test_the_search_is_worked_by_keys_and_closed_again(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    chat = open_chat(new_person, long_session)
    chat.send("/search Ardea")
    field = chat.page.get_by_role("searchbox", name="Search your messages")
    expect(field).to_have_value("Ardea")
    expect(field).to_be_focused()
    expect(results(chat).nth(1)).to_be_visible()
    field.press("ArrowDown")
    expect(results(chat).first).to_be_focused()
    results(chat).first.press("ArrowDown")
    expect(results(chat).nth(1)).to_be_focused()
    results(chat).nth(1).press("ArrowUp")
    chat.page.keyboard.press("Enter")
    expect(chat.page).to_have_url(re.compile(r"#[56]$"))
    field.press("Escape")
    expect(field).to_have_value("")
    expect(chat.sessions.get_by_role("link", name="Birds")).to_be_visible()
    field.fill("no such word")
    expect(chat.page.get_by_text("Nothing was found.")).to_be_visible()


def test_only_this_conversation_is_searched_where_that_is_ticked(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    other = new_person.new_session(title="Other")
    say(new_person, other, "demo: echo; fast\nA heron elsewhere")
    chat = open_chat(new_person, other)
    field = chat.page.get_by_role("searchbox", name="Search your messages")
    field.fill("heron")
    expect(results(chat).filter(has_text="Birds").first).to_be_visible()
    chat.page.get_by_label("Only in this conversation").check()
    expect(results(chat).filter(has_text="Birds")).to_have_count(0)
    expect(results(chat).filter(has_text="A heron elsewhere").first).to_be_visible()
