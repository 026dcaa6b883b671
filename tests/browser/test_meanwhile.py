"""What a person does while something else is still on its way: none of it is lost or undone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.chat import Chat, say
from tests.browser.conftest import OpenChat
from tests.browser.console import ConsoleWatch
from tests.browser.gate import Gate
from tests.clients import Person
from tests.databases import run_with_models

FILL = """
from django.db import transaction
from chat.models import ChatSession
from tests import builders
with transaction.atomic():
    builders.exchanges(ChatSession.objects.get(pk={!r}), {})
"""


@pytest.fixture
def long_session(new_person: Person, site_database: str, console: ConsoleWatch) -> str:
    """A hundred and sixty messages: "Question 1", "Answer 1", and so on."""
    console.allow("404.*/context/")  # no model was asked
    session = new_person.new_session()
    run_with_models(site_database, FILL.format(session, 80))
    return session


def message(chat: Chat, seq: int) -> Locator:
    return chat.page.locator(f'article[data-seq="{seq}"]')


def go_to(chat: Chat, seq: int) -> None:
    """As a link to a message of the conversation that is open."""
    chat.page.evaluate(
        """(seq) => {
          history.pushState(null, "", `${location.pathname}#${seq}`);
          dispatchEvent(new PopStateEvent("popstate"));
        }""",
        seq,
    )


# --- Going to places ------------------------------------------------------------------------------


def test_a_page_that_comes_after_the_reader_has_gone_elsewhere_leaves_no_gap(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    chat = open_chat(new_person, long_session)
    expect(message(chat, 160)).to_be_in_viewport()
    older = Gate(chat.page, "**/messages/?before=*")
    chat.messages.evaluate("(region) => region.scrollTo(0, 0)")
    older.wait()
    go_to(chat, 3)
    expect(message(chat, 3)).to_be_in_viewport()
    older.open()
    chat.messages.evaluate("(region) => region.scrollTo(0, region.scrollHeight)")
    expect(message(chat, 40)).to_be_attached()
    shown = [int(each.get_attribute("data-seq") or 0) for each in chat.questions.all()]
    assert shown == list(range(1, shown[-1] + 1, 2))


def test_what_was_wished_for_last_is_shown(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    chat = open_chat(new_person, long_session)
    gate = Gate(chat.page, "**/messages/?around=5&*")
    go_to(chat, 5)
    gate.wait()
    go_to(chat, 60)
    expect(message(chat, 60)).to_be_in_viewport()
    gate.open()
    expect(message(chat, 60)).to_be_focused()
    chat.page.wait_for_timeout(100)
    expect(message(chat, 60)).to_be_in_viewport()
    expect(chat.notice).to_have_text("")


def test_a_message_that_is_chosen_while_its_conversation_loads_is_shown(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    chat = open_chat(new_person, new_person.new_session())
    gate = Gate(chat.page, "**/messages/?limit=50")
    chat.choose(long_session)
    gate.wait()
    go_to(chat, 5)
    gate.open()
    expect(message(chat, 5)).to_be_in_viewport()


def test_a_message_that_comes_into_sight_late_leaves_the_focus_to_who_writes(
    open_chat: OpenChat, new_person: Person, long_session: str
) -> None:
    chat = open_chat(new_person, long_session)
    gate = Gate(chat.page, "**/messages/?around=*")
    go_to(chat, 5)
    gate.wait()
    chat.box.press_sequentially("Half of ")
    gate.open()
    expect(message(chat, 5)).to_be_in_viewport()
    chat.page.keyboard.type("a sentence")
    expect(chat.box).to_have_value("Half of a sentence")


# --- Beginning a chat -----------------------------------------------------------------------------


def begin_new(chat: Chat) -> None:
    chat.page.get_by_role("button", name="New chat", exact=True).click()
    chat.page.get_by_role("button", name=re.compile("^Demo ?Scripted")).click()


def test_a_new_chat_that_comes_late_does_not_take_the_focus(
    open_chat: OpenChat, new_person: Person
) -> None:
    chat = open_chat(new_person, new_person.new_session())
    chat.ask("Hello")
    gate = Gate(chat.page, "**/api/v1/sessions/*/messages/?*")
    begin_new(chat)
    expect(chat.box).to_be_focused()
    gate.wait()
    search = search_box(chat)
    search.press_sequentially("hel")
    gate.open()
    chat.wait_until_online()
    chat.page.keyboard.type("lo")
    expect(search).to_have_value("hello")


def test_a_new_chat_that_comes_late_leaves_who_has_opened_another_one(
    open_chat: OpenChat, new_person: Person
) -> None:
    other = new_person.new_session(title="Other")
    chat = open_chat(new_person, new_person.new_session())
    chat.ask("Hello")
    gate = Gate(chat.page, "**/api/v1/sessions/", method="POST")
    begin_new(chat)
    gate.wait()
    chat.choose(other)
    chat.wait_until_online()
    gate.open()
    expect(chat.sessions.get_by_role("link", name="New conversation")).to_be_visible()
    assert chat.session_id == other
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Other")


# --- Questions and panels -------------------------------------------------------------------------


def test_an_answer_to_one_question_is_not_taken_for_the_answer_to_another(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session()
    say(new_person, session, "Keep this")
    chat = open_chat(new_person, session)
    panel = chat.show_details("Memory")
    gate = Gate(chat.page, "**/clear-memory/")
    panel.get_by_role("button", name="Clear memory").click()
    gate.wait()
    chat.questions.first.get_by_role("button", name="Delete this message and its answer").click()
    delete = chat.page.get_by_role("dialog", name="Delete this message and its answer?")
    expect(delete).to_be_visible()
    gate.open()
    delete.get_by_role("button", name="Cancel").click()
    clear = chat.page.get_by_role("dialog", name="Clear memory?")
    clear.get_by_role("button", name="Clear memory").click()
    expect(chat.messages).to_contain_text("Memory was cleared here.")
    expect(chat.questions).to_have_count(1)
    assert len(new_person.messages(session)) == 2


def test_what_was_sent_is_not_said_to_be_nothing_before_it_is_read(
    open_chat: OpenChat, new_person: Person
) -> None:
    chat = open_chat(new_person, new_person.new_session())
    panel = chat.show_details("What was sent")
    expect(panel).to_have_text("Nothing has been sent in this conversation yet.")
    session = new_person.new_session(title="Said")
    say(new_person, session, "Hello")
    chat.page.reload()
    chat.wait_until_online()
    gate = Gate(chat.page, "**/context/")
    chat.choose(session)
    gate.wait()
    expect(panel).to_have_text("Reading what was sent")
    gate.open()
    expect(panel).to_contain_text("Your message")


# --- Searching ------------------------------------------------------------------------------------


@pytest.fixture
def searching(open_chat: OpenChat, new_person: Person) -> Chat:
    """Somebody who said something in another session and has just found it by a word of it."""
    session = new_person.new_session(title="Birds")
    say(new_person, session, "demo: echo\nA heron by the pond")
    chat = open_chat(new_person, new_person.new_session())
    search_box(chat).fill("heron")
    expect(found(chat).first).to_be_visible()
    return chat


def search_box(chat: Chat) -> Locator:
    return chat.page.get_by_role("searchbox", name="Search your messages")


def found(chat: Chat) -> Locator:
    return chat.page.get_by_role("list", name="Search results").get_by_role("link")


def test_enter_opens_no_result_of_other_words(searching: Chat) -> None:
    here = searching.page.url
    gate = Gate(searching.page, "**/search/?q=heron+pond&*")
    search_box(searching).fill("heron pond")
    search_box(searching).press("Enter")
    gate.wait()
    search_box(searching).press_sequentially(" stork")
    with searching.page.expect_response("**/search/?q=heron+pond+stork&*"):
        gate.open()
    assert searching.page.url == here


def test_results_that_come_later_keep_the_focus_in_the_list(searching: Chat) -> None:
    gate = Gate(searching.page, "**/search/?q=heron+pond&*")
    search_box(searching).fill("heron pond")
    gate.wait()
    search_box(searching).press("ArrowDown")
    expect(found(searching).first).to_be_focused()
    before = found(searching).first.element_handle()
    gate.open()
    searching.page.wait_for_function("(link) => !link.isConnected", arg=before)
    expect(found(searching).first).to_be_focused()
