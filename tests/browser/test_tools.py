"""Tools in an answer: shown while they run, opened to what came back, the same after a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.chat import Chat, body
from tests.browser.conftest import OpenChat
from tests.clients import Person


@pytest.fixture
def chat(open_chat: OpenChat, new_person: Person) -> Chat:
    return open_chat(new_person, new_person.new_session())


def chip(answer: Locator, words: str) -> Locator:
    return answer.get_by_role("listitem").filter(has_text=words)


def test_tools_stand_in_the_answer_that_used_them_and_open_to_what_came_back(chat: Chat) -> None:
    chat.send('demo: tool current_time; tool weather {"city": "<b>Łódź</b>"}')
    answer = chat.finished_answers.first
    expect(answer).to_contain_text("The tool answered:")
    expect(chat.finished_answers).to_have_count(1)
    expect(chip(answer, "Looked at the clock")).to_be_visible()
    failed = chip(answer, "Using weather")
    expect(failed).to_contain_text("failed")
    failed.locator("summary").click()
    expect(failed.get_by_label("Asked for")).to_have_text(re.compile(r'"city": "<b>Łódź</b>"'))
    expect(failed.get_by_label("Result")).to_contain_text("There is no tool 'weather'")
    shown = body(answer).inner_text()
    failed.locator("summary").click()
    chat.page.reload()
    expect(chat.finished_answers).to_have_count(1)
    chip(chat.finished_answers.first, "Using weather").locator("summary").click()
    assert body(chat.finished_answers.first).inner_text() == shown
    chat.ask("And now without any")
    expect(chat.finished_answers).to_have_count(2)


def test_a_reload_while_an_answer_goes_on_after_its_tools_keeps_them_in_their_place(
    chat: Chat,
) -> None:
    chat.send("demo: tool current_time; tool weather; slow 150")
    expect(body(chat.live_answer)).to_contain_text("The tool")
    chat.page.reload()
    expect(chip(chat.live_answer, "Looked at the clock")).to_be_visible()
    expect(chat.finished_answers).to_have_count(1)
    answer = body(chat.finished_answers.first)
    expect(answer.get_by_role("listitem")).to_have_count(2)
    kinds = answer.evaluate("(body) => [...body.children].map((child) => child.tagName)")
    assert kinds[0] == "UL"
    assert "UL" not in kinds[1:]


def test_what_a_tool_wrote_into_memory_is_shown_under_the_answer_and_can_be_forgotten(
    chat: Chat, new_person: Person
) -> None:
    chat.send('demo: tool remember {"key": "tea", "text": "Likes 茉莉花茶"}')
    expect(chat.finished_answers).to_have_count(1)
    note = chat.finished_answers.first.get_by_text("Remembered: Likes 茉莉花茶")
    expect(note).to_be_visible()
    assert [each["key"] for each in new_person.call("GET", "preferences/")[1]["results"]] == ["tea"]
    chat.page.get_by_role("button", name="Forget it").click()
    expect(note).to_be_hidden()
    assert new_person.call("GET", "preferences/")[1]["results"] == []
