"""An answer on its way: reloads, other chats, Stop and a cut network leave no gap and no double."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import WebSocketRoute, expect

from tests.browser import growth
from tests.browser.chat import Chat, body, contents
from tests.browser.conftest import OpenChat, OpenPage
from tests.browser.console import ConsoleWatch
from tests.browser.wire import mend_and_try_now, wire_to
from tests.clients import Person
from tests.servers import Server

TEXT = growth.numbered(150)
ONE_THIRD = "n51"
CUT_MS = 3_000
LONG_TEXT = growth.numbered(1_000)  # still being written when a slow machine is back
PACE = 30  # ms a word: a slow machine has time to press something in the middle


def await_word(chat: Chat, word: str) -> None:
    """Wait until the answer that is being written has got so far."""
    expect(body(chat.live_answer)).to_contain_text(word)


def more_than(chat: Chat) -> str:
    """A word that comes some time after those of the answer that is being written."""
    words = len(body(chat.live_answer).inner_text().split())
    return LONG_TEXT.split()[words + 30]


def newest_request(chat: Chat) -> dict[str, Any]:
    """The last request that the demo model got, and what became of it."""
    seen = json.loads(chat.page.request.get("/demo-model/v1/requests").text())["data"]
    return dict(seen[-1])


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_reload_in_the_middle_of_a_long_answer_goes_on_without_gap_or_double(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    growth.record(chat.page)
    chat.send(growth.slowly(LONG_TEXT, ms=20))
    await_word(chat, ONE_THIRD)
    chat.page.reload()
    expect(body(chat.live_answer)).to_contain_text(ONE_THIRD)
    await_word(chat, more_than(chat))
    chat.stop_button.click()
    expect(chat.finished_answers).to_have_count(1)
    stored = contents(alice, session)[1]
    growth.assert_grew_to(chat.page, stored)
    assert LONG_TEXT.startswith(stored)


def test_a_long_markdown_answer_looks_the_same_streamed_and_reloaded(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send("demo: long 400; slow 5")
    expect(chat.live_answer.get_by_role("heading", level=4).first).to_be_visible()
    expect(chat.finished_answers).to_have_count(1)
    streamed = body(chat.answers.first).inner_html()
    chat.page.reload()
    expect(chat.finished_answers).to_have_count(1)
    assert body(chat.answers.first).inner_html() == streamed
    stored = alice.messages(session)[1]
    assert chat.page.evaluate(
        """([shown, html]) => {
          const template = document.createElement("template");
          template.innerHTML = html;
          const shownTemplate = document.createElement("template");
          shownTemplate.innerHTML = shown;
          shownTemplate.content.querySelectorAll("button").forEach((each) => each.remove());
          return shownTemplate.content.textContent === template.content.textContent;
        }""",
        [streamed, stored["html"]],
    )


def test_a_second_window_joins_in_the_middle_and_both_show_the_same(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    one = open_chat(alice, session)
    two = Chat(one.page.context.new_page())
    for chat in (one, two):
        growth.record(chat.page)
    one.open(session)
    one.send(growth.slowly(TEXT))
    await_word(one, "n31")
    two.open(session)
    for chat in (one, two):
        expect(chat.finished_answers).to_have_count(1)
        growth.assert_grew_to(chat.page, TEXT)
    assert one.question_texts() == two.question_texts()
    assert body(one.answers.first).inner_html() == body(two.answers.first).inner_html()


def test_leaving_during_an_answer_and_coming_back_shows_text_so_far_live_tail_and_stop(
    open_chat: OpenChat, alice: Person
) -> None:
    session, other = alice.new_session(title="Long"), alice.new_session(title="Other")
    chat = open_chat(alice, session)
    chat.send(growth.slowly(LONG_TEXT, ms=20))
    await_word(chat, "n11")
    chat.choose(other)
    chat.wait_until_online()
    expect(chat.stop_button).to_be_hidden()
    expect(chat.answers).to_have_count(0)
    chat.choose(session)
    expect(chat.stop_button).to_be_visible()
    await_word(chat, "n11")
    seen = flat(body(chat.live_answer).inner_text())
    assert flat(LONG_TEXT).startswith(seen)
    await_word(chat, more_than(chat))
    chat.stop_button.click()
    expect(chat.finished_answers).to_have_count(1)


def test_stop_keeps_what_was_seen_also_after_a_reload(open_chat: OpenChat, alice: Person) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send(growth.slowly(TEXT, ms=PACE))
    await_word(chat, ONE_THIRD)
    # Read in the same breath in which Stop is pressed.
    seen = chat.stop_button.evaluate(
        """(button) => {
          button.click();
          return document.querySelector("#messages article[aria-busy=true] .body").innerText;
        }"""
    )
    expect(chat.messages).to_contain_text(re.compile(r"Stopped by you after [\d,]+ characters"))
    stored = contents(alice, session)[1]
    assert flat(stored) == flat(seen)
    assert flat(chat.answer_text(0)) == flat(seen)
    assert newest_request(chat)["_outcome"] == "client_gone"  # the model does not compute on
    chat.page.reload()
    expect(chat.messages).to_contain_text(f"Stopped by you after {len(stored)} characters")
    assert flat(chat.answer_text(0)) == flat(seen)
    chat.try_again.click()
    expect(chat.messages).to_contain_text("Version 2 of 2")
    assert contents(alice, session)[1] == TEXT


def test_a_follow_up_during_an_answer_waits_in_the_box_for_its_end(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send(growth.slowly(TEXT, ms=PACE))
    await_word(chat, "n1")
    chat.send("demo: context")
    expect(chat.notice).to_contain_text("The answer is still being written")
    expect(chat.box).to_have_value("demo: context")
    expect(chat.finished_answers).to_have_count(1)
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(2)
    stored = alice.messages(session)
    assert stored[2]["parent"] == stored[1]["id"]
    assert stored[1]["content"] == TEXT


def test_a_message_right_after_stop_follows_the_stopped_answer(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.send(growth.slowly(TEXT, ms=PACE))
    await_word(chat, "n11")
    chat.box.press("Escape")
    chat.send("demo: context")
    expect(chat.finished_answers).to_have_count(2)
    stored = alice.messages(session)
    assert [each["role"] for each in stored] == ["user", "assistant", "user", "assistant"]
    assert stored[1]["is_partial"] is True
    assert stored[2]["parent"] == stored[1]["id"]
    assert "n1 n2" in chat.answer_text(1)


def test_a_cut_of_three_seconds_is_said_and_then_caught_up_without_gap(
    open_page: OpenPage, alice: Person, site: Server, console: ConsoleWatch
) -> None:
    console.allow("ERR_CONNECTION")
    session = alice.new_session()
    with wire_to(site.port) as wire:
        chat = Chat(open_page(alice, base_url=wire.url))
        growth.record(chat.page)
        chat.open(session)
        chat.send(growth.slowly(LONG_TEXT, ms=20))
        await_word(chat, "n11")
        wire.cut()
        expect(chat.banner).to_contain_text("The server cannot be reached.")
        chat.write("typed while cut")
        chat.page.wait_for_timeout(CUT_MS)  # how long the cut lasts
        shown = flat(body(chat.live_answer).inner_text())
        mend_and_try_now(chat, wire)
        expect(chat.banner).to_contain_text("Connected again. Nothing was lost.")
        await_word(chat, "n251")
        chat.stop_button.click()
        expect(chat.finished_answers).to_have_count(1)
        expect(chat.box).to_have_value("typed while cut")
        stored = contents(alice, session)[1]
        growth.assert_grew_to(chat.page, stored)
    assert LONG_TEXT.startswith(stored)
    assert len(shown) < len(flat(stored))


def test_a_message_written_during_a_cut_is_sent_once_when_the_connection_is_back(
    open_page: OpenPage, alice: Person, site: Server, console: ConsoleWatch
) -> None:
    console.allow("ERR_CONNECTION")
    session = alice.new_session()
    with wire_to(site.port) as wire:
        chat = Chat(open_page(alice, base_url=wire.url))
        chat.open(session)
        wire.cut()
        expect(chat.banner).to_be_visible()
        chat.send("Into the cut")
        expect(chat.messages).to_contain_text("Will be sent when the connection is back")
        wire.mend()
        chat.page.reload()
        expect(chat.finished_answers).to_have_count(1)
        assert chat.question_texts() == ["Into the cut"]
    assert len(contents(alice, session)) == 2


def test_a_message_whose_acceptance_was_lost_is_sent_again_and_becomes_one_turn(
    open_page: OpenPage, alice: Person
) -> None:
    session = alice.new_session()
    page = open_page(alice)
    chat = Chat(page)
    lines: list[WebSocketRoute] = []
    sent: list[str] = []

    def relay(line: WebSocketRoute) -> None:
        """The first line goes deaf after its greeting; what the page sends arrives all the same."""
        lines.append(line)
        is_deaf = len(lines) == 1
        there = line.connect_to_server()

        def inwards(frame: str | bytes) -> None:
            if not is_deaf or "session.ready" in str(frame):
                line.send(frame)

        def outwards(frame: str | bytes) -> None:
            said = json.loads(frame)
            if said["type"] == "message.send":
                sent.append(said["client_id"])
            there.send(frame)

        there.on_message(inwards)
        line.on_message(outwards)

    page.route_web_socket("**/ws/chat/**", relay)
    chat.open(session)
    chat.send("Once")
    expect(chat.messages).to_contain_text("Sending")
    while not contents(alice, session):
        page.wait_for_timeout(20)  # lets the relay work
    lines[0].close()
    expect(chat.finished_answers).to_have_count(1)
    assert len(sent) == 2
    assert len(set(sent)) == 1
    assert contents(alice, session)[::2] == ["Once"]
