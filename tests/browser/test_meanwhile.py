"""What a person does while something else is still on its way: none of it is lost or undone."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from playwright.sync_api import FilePayload, Locator, WebSocketRoute, expect

from tests.browser import growth
from tests.browser.chat import Chat, contents, say
from tests.browser.conftest import OpenChat, OpenPage
from tests.browser.console import ConsoleWatch
from tests.browser.gate import Gate
from tests.builders import png
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


def test_an_arrow_that_is_pressed_twice_leads_two_versions_back(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    turn = say(alice, session, "demo: echo\nOnce")["id"]
    for _ in range(2):
        order = {"client_id": str(uuid.uuid4())}
        alice.call("POST", f"sessions/{session}/turns/{turn}/regenerate/", order)
        turn = alice.messages(session)[-1]["turn"]["id"]
    chat = open_chat(alice, session)
    gate = Gate(chat.page, "**/select/", method="POST")
    earlier = chat.answers.first.get_by_role("button", name="Earlier version")
    earlier.click()
    gate.wait()
    earlier.click()
    gate.open()
    expect(chat.messages).to_contain_text("Version 1 of 3")
    expect(chat.answers.first.get_by_role("button", name="Later version")).to_be_focused()


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


# --- Writing --------------------------------------------------------------------------------------


def test_what_is_typed_before_the_page_has_loaded_stays(
    open_page: OpenPage, new_person: Person
) -> None:
    chat = Chat(open_page(new_person))
    gate = Gate(chat.page, "**/chat/js/composer.js")
    chat.page.goto(f"/chat/{new_person.new_session()}/", wait_until="commit")
    chat.box.press_sequentially("An early ")
    gate.wait()
    gate.open()
    chat.wait_until_online()
    chat.page.keyboard.type("bird")
    expect(chat.box).to_have_value("An early bird")


def test_enter_while_the_session_of_an_image_is_made_does_not_send_without_it(
    open_page: OpenPage, new_person: Person
) -> None:
    chat = Chat(open_page(new_person))
    chat.page.goto("/")
    gate = Gate(chat.page, "**/api/v1/sessions/", method="POST")
    image = FilePayload(name="red.png", mimeType="image/png", buffer=png(8, 8))
    chat.page.locator("#attach-file").set_input_files([image])
    gate.wait()
    chat.send("What is this?")
    expect(chat.notice).to_contain_text("An image is still on its way")
    gate.open()
    expect(chat.page.get_by_role("button", name="Remove red.png")).to_be_visible()
    expect(chat.send_button).to_be_enabled()
    chat.box.press("Enter")
    expect(chat.questions.first.get_by_role("img")).to_be_attached()
    expect(chat.finished_answers).to_have_count(1)
    assert contents(new_person, chat.session_id)[0] == "What is this?"


class DeafLine:
    """The page's first line to the server loses orders of some types; a later one does not."""

    def __init__(self, chat: Chat, *lost: str) -> None:
        self._lost = lost
        self._lines: list[WebSocketRoute] = []
        self.was_lost = 0
        chat.page.route_web_socket("**/ws/chat/**", self._relay)

    def break_off(self) -> None:
        self._lines[0].close()

    def _relay(self, line: WebSocketRoute) -> None:
        is_first = not self._lines
        self._lines.append(line)
        there = line.connect_to_server()

        def outwards(frame: str | bytes) -> None:
            if is_first and json.loads(frame)["type"] in self._lost:
                self.was_lost += 1
            else:
                there.send(frame)

        line.on_message(outwards)


def test_stop_that_was_lost_on_the_way_is_said_again(open_page: OpenPage, alice: Person) -> None:
    chat = Chat(open_page(alice))
    line = DeafLine(chat, "turn.stop")
    chat.open(alice.new_session())
    chat.send(growth.slowly(growth.numbered(1_000), ms=20))
    expect(chat.live_answer).to_contain_text("n2")
    chat.stop_button.click()
    expect(chat.page.locator("#connection")).to_contain_text("Stopping")
    line.break_off()
    expect(chat.messages).to_contain_text("Stopped by you after")
    assert line.was_lost == 1


def test_an_order_that_was_lost_on_the_way_is_given_again(
    open_page: OpenPage, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "demo: echo\nOnce")
    chat = Chat(open_page(alice))
    line = DeafLine(chat, "turn.regenerate")
    chat.open(session)
    chat.answers.first.get_by_role("button", name="Regenerate").click()
    while not line.was_lost:
        chat.page.wait_for_timeout(20)
    line.break_off()
    expect(chat.messages).to_contain_text("Version 2 of 2")


def test_an_order_that_is_given_before_there_is_a_connection_waits_for_it(
    open_page: OpenPage, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "demo: echo\nOnce")
    chat = Chat(open_page(alice))
    lines: list[WebSocketRoute] = []
    chat.page.route_web_socket("**/ws/chat/**", lambda line: lines.append(line))
    chat.page.goto(f"/chat/{session}/")
    again = chat.answers.first.get_by_role("button", name="Regenerate")
    again.click()
    again.click()
    expect(chat.notice).to_have_text("It is done as soon as there is a connection.")
    lines[0].connect_to_server()
    expect(chat.messages).to_contain_text("Version 2 of 2")
    expect(chat.finished_answers).to_have_count(1)
    expect(chat.notice).to_have_text("")


def test_a_rating_leaves_the_focus_on_its_button(open_chat: OpenChat, alice: Person) -> None:
    session = alice.new_session()
    say(alice, session, "Hello")
    good = open_chat(alice, session).answers.first.get_by_role("button", name="Good answer")
    good.focus()
    good.press("Enter")
    expect(good).to_have_attribute("aria-pressed", "true")
    expect(good).to_be_focused()


# --- Lists that are read --------------------------------------------------------------------------

DIGEST = """
from chat.models import ChatSession
from memory import digests
session = ChatSession.objects.get(pk={!r})
digests.edit(session.tenant_id, session.user_id, "Likes birds")
"""


def test_a_list_that_comes_late_takes_back_no_name(open_chat: OpenChat, new_person: Person) -> None:
    session = new_person.new_session(title="Old name")
    chat = open_chat(new_person, session)
    rows = chat.sessions.get_by_role("link")
    expect(rows.filter(has_text="Old name")).to_be_visible()
    new_person.new_session(title="From elsewhere")
    gate = Gate(chat.page, "**/api/v1/sessions/?is_archived=false")
    chat.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    gate.wait()
    new_person.call("PATCH", f"sessions/{session}/", {"title": "New name"})
    expect(rows.filter(has_text="New name")).to_be_visible()
    gate.open()
    expect(rows.filter(has_text="From elsewhere")).to_be_visible()
    assert rows.filter(has_text="Old name").count() == 0


def test_what_is_remembered_while_the_list_is_read_stays_in_it(
    open_chat: OpenChat, new_person: Person
) -> None:
    chat = open_chat(new_person, new_person.new_session())
    gate = Gate(chat.page, "**/api/v1/preferences/")
    panel = chat.show_details("Memory")
    gate.wait()
    chat.send("/remember tea: green")
    tea = panel.get_by_role("listitem").filter(has_text="green")
    expect(tea).to_be_visible()
    with chat.page.expect_response("**/api/v1/preferences/"):
        gate.open()
    chat.page.evaluate("new Promise(requestAnimationFrame)")
    expect(tea).to_be_visible()


def test_the_next_thing_to_remember_can_be_written_while_one_is_kept(
    open_chat: OpenChat, new_person: Person
) -> None:
    chat = open_chat(new_person, new_person.new_session())
    panel = chat.show_details("Memory")
    key, text = panel.get_by_label("What it is about"), panel.get_by_label("What to remember")
    gate = Gate(chat.page, "**/api/v1/preferences/", method="POST")
    key.fill("city")
    text.fill("Lisbon")
    panel.get_by_role("button", name="Remember").click()
    gate.wait()
    key.fill("tea")
    gate.open()
    expect(panel.get_by_role("listitem").filter(has_text="Lisbon")).to_be_visible()
    expect(key).to_have_value("tea")
    expect(text).to_have_value("")


def test_a_wording_that_is_being_written_stays_while_the_list_is_read_again(
    open_chat: OpenChat, new_person: Person
) -> None:
    tea = new_person.call("POST", "preferences/", {"key": "tea", "text": "green"})[1]
    chat = open_chat(new_person, new_person.new_session())
    panel = chat.show_details("Memory")
    panel.get_by_role("button", name="Edit tea").click()
    field = panel.get_by_role("textbox", name="tea", exact=True)
    field.fill("black, with")
    new_person.call("PATCH", f"preferences/{tea['id']}/", {"text": "oolong"})
    with chat.page.expect_response("**/api/v1/preferences/"):
        chat.show_details("What was sent")
        chat.show_details("Memory")
    chat.page.evaluate("new Promise(requestAnimationFrame)")
    expect(field).to_have_value("black, with")
    field.press("Escape")
    expect(panel.get_by_text("oolong")).to_be_visible()
    expect(panel.get_by_role("button", name="Edit tea")).to_be_focused()


def test_who_writes_on_while_a_wording_is_saved_loses_nothing(
    open_chat: OpenChat, new_person: Person
) -> None:
    new_person.call("POST", "preferences/", {"key": "tea", "text": "green"})
    chat = open_chat(new_person, new_person.new_session())
    panel = chat.show_details("Memory")
    gate = Gate(chat.page, "**/api/v1/preferences/*/", method="PATCH")
    panel.get_by_role("button", name="Edit tea").click()
    field = panel.get_by_role("textbox", name="tea", exact=True)
    field.fill("black")
    panel.get_by_role("button", name="Save").click()
    gate.wait()
    field.fill("black, with milk")
    with chat.page.expect_response("**/api/v1/preferences/*/"):
        gate.open()
    chat.page.evaluate("new Promise(requestAnimationFrame)")
    expect(field).to_have_value("black, with milk")
    panel.get_by_role("button", name="Save").click()
    expect(panel.get_by_text("black, with milk")).to_be_visible()
    expect(panel.get_by_role("button", name="Edit tea")).to_be_focused()


def test_what_is_written_about_oneself_stays_while_the_panel_is_read_again(
    open_chat: OpenChat, new_person: Person, site_database: str
) -> None:
    session = new_person.new_session()
    run_with_models(site_database, DIGEST.format(session))
    chat = open_chat(new_person, session)
    panel = chat.show_details("Memory")
    expect(panel).to_contain_text("Likes birds")
    gate = Gate(chat.page, "**/api/v1/memory/")
    panel = chat.show_details("Memory")
    gate.wait()
    section = panel.locator("#digest")
    section.get_by_role("button", name="Edit").click()
    field = panel.get_by_role("textbox", name="What I know about you")
    field.fill("Likes herons")
    with chat.page.expect_response("**/api/v1/memory/"):
        gate.open()
    chat.page.evaluate("new Promise(requestAnimationFrame)")
    expect(field).to_have_value("Likes herons")
    section.get_by_role("button", name="Save").click()
    expect(section.get_by_role("button", name="Edit")).to_be_visible()
    expect(section).to_contain_text("Likes herons")


def test_memory_that_is_switched_off_late_is_not_said_to_be_off_elsewhere(
    open_chat: OpenChat, new_person: Person
) -> None:
    session, other = new_person.new_session(), new_person.new_session()
    chat = open_chat(new_person, session)
    panel = chat.show_details("Memory")
    gate = Gate(chat.page, f"**/api/v1/sessions/{session}/", method="PATCH")
    panel.get_by_role("switch", name="Send earlier messages along").uncheck()
    gate.wait()
    chat.choose(other)
    chat.wait_until_online()
    with chat.page.expect_response(f"**/api/v1/sessions/{session}/"):
        gate.open()
    chat.page.evaluate("new Promise(requestAnimationFrame)")
    expect(panel.get_by_role("switch", name="Send earlier messages along")).to_be_checked()
    expect(chat.page.get_by_text("Memory off")).to_be_hidden()
