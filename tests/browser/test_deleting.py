"""Deleting a message with its answer, and a conversation: what goes is said before and after."""

from __future__ import annotations

import json
import re

from playwright.sync_api import expect

from tests.browser.chat import contents, say
from tests.browser.conftest import OpenChat
from tests.clients import Person


def test_a_message_goes_with_its_answer_in_every_window_and_a_receipt_is_shown(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session()
    for number in (1, 2, 3):
        say(new_person, session, f"demo: echo; fast\nMessage {number}")
    one, two = open_chat(new_person, session), open_chat(new_person, session)
    for chat in (one, two):
        expect(chat.finished_answers).to_have_count(3)
    question = one.questions.nth(1)
    question.hover()
    question.get_by_role("button", name="Delete this message and its answer").click()
    dialog = one.page.get_by_role("dialog", name="Delete this message and its answer?")
    expect(dialog).to_contain_text("Message 2")
    dialog.get_by_role("button", name="Delete").click()
    receipt = one.page.get_by_role("dialog", name="What was removed")
    expect(receipt).to_contain_text(re.compile(r"messages\s*2"))
    receipt.get_by_role("button", name="Close").click()
    for chat in (one, two):
        expect(chat.questions).to_have_count(2)
        assert chat.answer_texts() == ["Message 1", "Message 3"]
    assert [text.split("\n")[-1] for text in contents(new_person, session)] == [
        "Message 1",
        "Message 1",
        "Message 3",
        "Message 3",
    ]
    assert one.ask("demo: echo; fast\nMessage 4") == "Message 4"


def test_a_deleted_conversation_leaves_a_receipt(open_chat: OpenChat, new_person: Person) -> None:
    session = new_person.new_session(title="To be deleted")
    say(new_person, session, "Hello")
    chat = open_chat(new_person, session)
    row = chat.sessions.get_by_role("listitem").filter(has_text="To be deleted")
    chat.do_with("To be deleted", "Delete")
    dialog = chat.page.get_by_role("dialog", name="Delete this conversation?")
    dialog.get_by_role("button", name="Delete").click()
    receipt = chat.page.get_by_role("dialog", name="What was removed")
    expect(receipt).to_contain_text("messages")
    expect(receipt).to_contain_text("runs of the model")
    # The index is cleaned in the background: the open receipt says so when it is done.
    expect(receipt).to_contain_text("Everything is gone.", timeout=40_000)
    receipt.get_by_role("button", name="Close").click()
    expect(row).to_have_count(0)
    assert new_person.call("GET", f"sessions/{session}/")[0] == 404


def test_when_everything_is_deleted_elsewhere_no_title_stays_in_sight(
    open_chat: OpenChat, new_person: Person
) -> None:
    new_person.new_session(title="A quiet secret")
    chat = open_chat(new_person, new_person.new_session(title="A loud secret"))
    expect(chat.sessions).to_contain_text("A quiet secret")
    data = chat.page.locator("#page-data").text_content() or ""
    name = json.loads(data)["username"]
    order = {"confirm": name, "conversations": True}
    assert new_person.call("POST", "memory/forget-everything/", order)[0] == 200
    expect(chat.page.get_by_role("heading", name="This conversation was deleted")).to_be_visible()
    expect(chat.page.get_by_role("heading", name="No conversation")).to_be_visible()
    expect(chat.page).to_have_title("Chat")
    expect(chat.sessions).to_contain_text("Your conversations will stand here.")
    expect(chat.page.get_by_text("secret")).to_have_count(0)
