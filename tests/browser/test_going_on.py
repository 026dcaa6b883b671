"""An answer that was cut goes on when its reader says so."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.chat import say
from tests.browser.conftest import OpenChat
from tests.clients import Person


@pytest.mark.parametrize(
    ("text", "asked"),
    [("one two", "Go on exactly where you stopped."), ("一 二", "请从中断的地方接着写。")],
    ids=["english", "chinese"],
)
def test_an_answer_that_was_cut_by_length_goes_on_with_what_there_is_of_it(
    alice: Person, open_chat: OpenChat, text: str, asked: str
) -> None:
    session = alice.new_session()
    say(alice, session, f"demo: echo; finish length; fast\n{text}")
    chat = open_chat(alice, session)
    expect(chat.messages).to_contain_text("it reached the model's limit of length")
    chat.page.get_by_role("button", name="Continue").click()
    expect(chat.finished_answers).to_have_count(2)
    expect(chat.questions.last).to_contain_text(asked)
    expect(chat.page.get_by_role("button", name="Continue")).to_have_count(0)
    turn = alice.messages(session)[-1]["turn"]["id"]
    sent = alice.call("GET", f"sessions/{session}/turns/{turn}/context/")[1]["parts"]
    assert any(text in part.get("text", "") and part["role"] == "assistant" for part in sent)


def test_a_stopped_answer_goes_on_or_begins_again(alice: Person, open_chat: OpenChat) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send("demo: echo; slow 60\n" + " ".join(f"n{n}" for n in range(1, 99)))
    expect(chat.live_answer).to_contain_text("n3")
    chat.box.press("Escape")
    expect(chat.messages).to_contain_text("Stopped by you after")
    expect(chat.try_again).to_be_visible()
    chat.page.get_by_role("button", name="Continue").click()
    expect(chat.questions.last).to_contain_text("Go on exactly where you stopped.")
    expect(chat.finished_answers).to_have_count(2)


def test_what_goes_on_is_in_sight_for_who_had_scrolled_up_and_goes_on_once(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    long = "\n\n".join(f"Paragraph {n}." for n in range(60))
    say(alice, session, f"demo: echo; finish length; fast\n{long}")
    chat = open_chat(alice, session)
    sent: list[str] = []
    chat.page.on(
        "websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame)))
    )
    chat.page.reload()
    going_on = chat.page.get_by_role("button", name="Continue")
    expect(going_on).to_be_in_viewport()
    chat.page.locator("#scroller").evaluate("(each) => each.scrollBy(0, -150)")
    going_on.evaluate("(each) => each.click()")
    expect(chat.finished_answers).to_have_count(2)
    expect(chat.finished_answers.last).to_be_in_viewport()
    kinds = [json.loads(frame)["type"] for frame in sent]
    assert kinds.count("turn.continue") == 1
    assert "message.send" not in kinds
