"""A person chats: what was said is remembered in its session, kept, and answered again."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import Route, expect

from tests.browser.chat import Chat, contents, say
from tests.browser.conftest import OpenChat, OpenPage, SignIn
from tests.browser.console import ConsoleWatch
from tests.clients import Person
from tests.servers import Server

FIRST_ZH = "第一轮：记忆验证：请记住校验短语“青云-4173”，并只回复“已记住”。"
SECOND_ZH = "第二轮：请告诉我刚才要求你记住的校验短语是什么？只回复短语。"
FIRST_EN = 'Please remember the verification phrase "Qingyun-4173" and reply only "Remembered".'
SECOND_EN = "What verification phrase did I ask you to remember? Reply with the phrase only."
PAIRS = {
    "chinese": (FIRST_ZH, "已记住", SECOND_ZH, "青云-4173", "没有"),
    "english": (FIRST_EN, "Remembered", SECOND_EN, "Qingyun-4173", "not among the messages"),
}


@pytest.mark.parametrize("language", PAIRS)
def test_a_phrase_is_remembered_in_its_session_after_reopening_and_in_no_other(
    open_chat: OpenChat, alice: Person, language: str
) -> None:
    first, confirmation, second, phrase, unknown = PAIRS[language]
    session = alice.new_session()
    chat = open_chat(alice, session)
    assert confirmation in chat.ask(first)
    assert phrase in chat.ask(second)
    chat.page.reload()
    expect(chat.finished_answers).to_have_count(2)
    assert chat.question_texts() == [first, second]
    assert phrase in chat.ask(second)
    other = alice.new_session()
    chat.open(other)
    answer = chat.ask(second)
    assert phrase not in answer
    assert unknown in answer
    reopened = open_chat(alice, session)
    assert phrase in reopened.ask(second)
    assert contents(alice, session)[::2] == [first, second, second, second]


def test_the_first_message_makes_a_session_that_is_named_after_it(
    open_chat: OpenChat, person: SignIn, site: Server
) -> None:
    bob = person(site, "bob")
    chat = open_chat(bob, bob.new_session())
    chat.page.get_by_role("button", name="New chat").click()
    chat.page.get_by_role("dialog").get_by_role("button", name="Demo, short memory").click()
    chat.wait_until_online()
    chat.ask("Good morning, planet")
    title = "Good morning"  # which the model makes of it after the turn
    expect(chat.page.get_by_role("heading", level=1)).to_have_text(title)
    entry = chat.sessions.get_by_role("link", name=title, exact=True)
    expect(entry).to_have_attribute("aria-current", "page")
    expect(chat.page).to_have_title(f"{title} · Chat")


def test_enter_pressed_five_times_on_the_start_page_makes_one_session_and_one_turn(
    open_page: OpenPage, new_person: Person
) -> None:
    page = open_page(new_person)
    chat = Chat(page)
    page.goto("/")
    expect(page.get_by_role("heading", name="What would you like to talk about?")).to_be_visible()
    chat.write("Once")
    for _ in range(5):
        page.keyboard.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    assert len(new_person.call("GET", "sessions/")[1]["results"]) == 1
    assert len(contents(new_person, chat.session_id)) == 2


def test_enter_pressed_five_times_makes_one_turn(open_chat: OpenChat, alice: Person) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.write("Once")
    chat.box.evaluate(
        """(box) => {
          for (let press = 0; press < 5; press += 1) {
            box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
          }
        }"""
    )
    expect(chat.finished_answers).to_have_count(1)
    assert len(contents(alice, session)) == 2


def test_somebody_elses_session_is_as_unknown_as_one_that_never_was(
    open_page: OpenPage, alice: Person, person: SignIn, site: Server, console: ConsoleWatch
) -> None:
    console.allow("404")
    hers = alice.new_session()
    bob = person(site, "bob")
    page = open_page(bob)
    for session in (hers, str(uuid.uuid4())):
        response = page.goto(f"/chat/{session}/")
        assert response is not None
        assert response.status == 404
        code = page.evaluate(
            """(id) => new Promise((resolve) => {
              const socket = new WebSocket(`ws://${location.host}/ws/chat/${id}/`);
              socket.onmessage = (event) => resolve(event.data);
              socket.onclose = (event) => resolve(event.code);
            })""",
            session,
        )
        assert code == 4404


# --- Failures and second tries --------------------------------------------------------------------


def test_a_refused_request_says_why_and_the_next_message_works(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send("demo: fail 400")
    expect(chat.messages).to_contain_text("This answer failed: ")
    expect(chat.messages).to_contain_text("The model refused this request.")
    chat.try_again.click()
    expect(chat.announcements.filter(has_text="The answer failed.")).to_have_count(2)
    expect(chat.try_again).to_have_count(1)
    assert contents(alice, session) == ["demo: fail 400"]
    assert "I am the demo model" in chat.ask("Hello")


def test_a_server_error_of_the_model_is_tried_again_and_then_said(
    open_chat: OpenChat, alice: Person
) -> None:
    chat = open_chat(alice, alice.new_session())
    chat.send("demo: fail 500")
    expect(chat.stop_button).to_be_visible()
    expect(chat.messages).to_contain_text("This answer failed: ")
    expect(chat.try_again).to_be_visible()
    expect(chat.stop_button).to_be_hidden()


def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send("demo: echo; break 3\none two three four five")
    expect(chat.messages).to_contain_text("This answer failed: ")
    assert chat.answer_texts() == ["one two three"]
    chat.page.reload()
    expect(chat.try_again).to_be_visible()
    assert chat.answer_texts() == ["one two three"]
    assert contents(alice, session)[1] == "one two three"


def test_regenerating_replaces_the_answer_and_keeps_the_question_once(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "Hello")
    chat = open_chat(alice, session)
    first = alice.messages(session)[1]["id"]
    chat.page.get_by_role("button", name="Regenerate").click()
    expect(chat.messages).to_contain_text("Version 2 of 2")
    expect(chat.finished_answers).to_have_count(1)
    assert chat.question_texts() == ["Hello"]
    stored = alice.messages(session)
    assert len(stored) == 2
    assert stored[1]["id"] != first


# --- Loading and switching ------------------------------------------------------------------------


def test_a_message_that_comes_in_while_the_history_loads_is_not_lost(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "Before")
    other = alice.new_session()
    chat = open_chat(alice, other)

    def late(route: Route) -> None:
        old = route.fetch()
        say(alice, session, "Meanwhile")
        route.fulfill(response=old)

    chat.page.route(f"**/api/v1/sessions/{session}/messages/**", late, times=1)
    chat.choose(session)
    expect(chat.finished_answers).to_have_count(2)
    assert chat.question_texts() == ["Before", "Meanwhile"]


def test_what_is_sent_while_the_history_loads_stays_in_the_box_and_goes_out_once_it_is_there(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "Before")
    chat = open_chat(alice, alice.new_session())
    held: list[Route] = []
    address = f"**/api/v1/sessions/{session}/messages/**"
    chat.page.route(address, lambda route: held.append(route), times=1)
    with chat.page.expect_request(address):
        chat.choose(session)
    chat.send("Too early")
    expect(chat.box).to_have_value("Too early")
    held[0].continue_()
    expect(chat.finished_answers).to_have_count(2)
    assert contents(alice, session)[::2] == ["Before", "Too early"]


@pytest.mark.parametrize("command", ["/new", "/temporary"])
def test_what_is_sent_before_a_new_chat_is_there_goes_out_in_it(
    open_chat: OpenChat, new_person: Person, command: str
) -> None:
    before = new_person.new_session()
    say(new_person, before, "Before")
    chat = open_chat(new_person, before)
    held: list[Route] = []
    address = "**/api/v1/sessions/*/messages/**"
    chat.page.route(address, lambda route: held.append(route), times=1)
    chat.send(command)
    with chat.page.expect_request(address):
        chat.page.get_by_role("button", name=re.compile("^Demo ?Scripted")).click()
    chat.send("Too early")
    expect(chat.box).to_have_value("Too early")
    held[0].continue_()
    expect(chat.finished_answers).to_have_count(1)
    assert contents(new_person, chat.session_id)[::2] == ["Too early"]


def test_drafts_and_sends_stay_with_their_chat_when_switching_fast(
    open_chat: OpenChat, alice: Person
) -> None:
    one, two = alice.new_session(title="One"), alice.new_session(title="Two")
    chat = open_chat(alice, one)
    chat.write("draft of one")
    chat.choose(two)
    expect(chat.box).to_have_value("")
    chat.write("draft of two")
    chat.choose(one)
    expect(chat.box).to_have_value("draft of one")
    chat.wait_until_online()
    # Enter and the click in one breath: the message is on its way when the chat changes.
    chat.page.evaluate(
        """(two) => {
          const enter = new KeyboardEvent("keydown", { key: "Enter", bubbles: true });
          document.getElementById("composer-text").dispatchEvent(enter);
          document.querySelector(`nav a[href="/chat/${two}/"]`).click();
        }""",
        two,
    )
    expect(chat.box).to_have_value("draft of two")
    chat.wait_until_online()
    expect(chat.questions).to_have_count(0)
    assert contents(alice, two) == []
    chat.choose(one)
    expect(chat.finished_answers).to_have_count(1)
    assert contents(alice, one)[::2] == ["draft of one"]
    chat.page.reload()
    expect(chat.box).to_have_value("")
    chat.choose(two)
    expect(chat.box).to_have_value("draft of two")
