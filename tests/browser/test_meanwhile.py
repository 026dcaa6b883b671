"""What a person does while something else is still on its way: none of it is lost or undone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.chat import Chat
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
