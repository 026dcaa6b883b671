"""Versions of a message: writing one anew, answering anew, and going from one to another."""

from __future__ import annotations

import time
import uuid

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.axe import complaints_in_light_and_dark
from tests.browser.chat import Chat, say, shown_text
from tests.browser.conftest import OpenChat
from tests.clients import Person

WORD_COMES = 0.5  # seconds in which a frame has come to the page


def versions(article: Locator) -> Locator:
    return article.get_by_role("group", name="Versions")


def place(article: Locator) -> str:
    """ "Version 2 of 3", as a screen reader says it."""
    return versions(article).locator(".versions-place .sr-only").inner_text()


def write_anew(chat: Chat, text: str) -> None:
    """In the editor that is open: another text, sent with Enter."""
    editor = chat.page.get_by_role("textbox", name="Your message, written anew")
    expect(editor).to_be_focused()
    editor.fill(text)
    editor.press("Enter")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_answers_are_gone_through_with_the_keyboard_and_stay_chosen(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    say(alice, session, "demo: echo; fast\none")
    chat, other = open_chat(alice, session), open_chat(alice, session)
    answer = chat.finished_answers.first
    expect(versions(answer)).to_have_count(0)
    chat.page.get_by_role("button", name="Regenerate").click()
    expect(versions(answer)).to_contain_text("2/2")
    first, second = (each["siblings"] for each in alice.messages(session))
    assert (len(first), len(second)) == (1, 2)
    answer.get_by_role("button", name="Earlier version").focus()
    press(chat.page, "Enter")
    expect(versions(answer)).to_contain_text("Version 1 of 2")
    expect(chat.announcements.last).to_have_text("Version 1 of 2.")
    expect(answer.get_by_role("button", name="Later version")).to_be_focused()
    expect(versions(other.finished_answers.first)).to_contain_text("Version 1 of 2")
    press(chat.page, "ArrowRight")
    expect(versions(answer)).to_contain_text("Version 2 of 2")
    press(chat.page, "ArrowRight", "ArrowLeft")  # beyond the last there is nothing
    expect(versions(answer)).to_contain_text("Version 1 of 2")
    chat.page.reload()
    chat.wait_until_online()
    expect(versions(answer)).to_contain_text("Version 1 of 2")
    assert alice.messages(session)[-1]["id"] == second[0]


def test_two_windows_go_to_and_fro_and_show_the_same(alice: Person, open_chat: OpenChat) -> None:
    session = alice.new_session()
    say(alice, session, "demo: echo; fast\none")
    one, two = open_chat(alice, session), open_chat(alice, session)
    one.page.get_by_role("button", name="Regenerate").click()
    shown = [versions(each.finished_answers.first) for each in (one, two)]
    for chat, button, place_ in (
        (one, "Earlier version", "Version 1 of 2"),
        (two, "Later version", "Version 2 of 2"),
        (two, "Earlier version", "Version 1 of 2"),
        (one, "Later version", "Version 2 of 2"),
    ):
        chat.finished_answers.first.get_by_role("button", name=button).click()
        for each in shown:
            expect(each).to_contain_text(place_)


def test_a_branch_that_is_chosen_elsewhere_during_a_look_at_another_is_the_one_shown(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    say(alice, session, "demo: echo; fast\none")
    chat = open_chat(alice, session)
    chat.page.get_by_role("button", name="Regenerate").click()
    shown = versions(chat.finished_answers.first)
    expect(shown).to_contain_text("Version 2 of 2")
    first, second = alice.messages(session)[-1]["siblings"]
    reads: list[str] = []

    def old_news(route: Route) -> None:
        """The first look gets what was so before the next branch was chosen."""
        answer = route.fetch()
        reads.append(route.request.url)
        if len(reads) == 1:
            alice.call("POST", f"sessions/{session}/messages/{second}/select/", {})
            time.sleep(WORD_COMES)
        route.fulfill(response=answer)

    chat.page.route("**/messages/?limit=50", old_news)
    with chat.page.expect_response(lambda answer: "limit=50" in answer.url and len(reads) > 1):
        alice.call("POST", f"sessions/{session}/messages/{first}/select/", {})
    expect(shown).to_contain_text("Version 2 of 2")


def test_the_last_message_is_written_anew_from_the_keyboard(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    for text in ("first", "secnd"):
        say(alice, session, f"{text}\ndemo: echo; fast")
    chat, other = open_chat(alice, session), open_chat(alice, session)
    chat.box.press("ArrowUp")
    press(chat.page, "Escape")
    expect(chat.questions.last.get_by_role("button", name="Edit")).to_be_focused()
    chat.box.press("ArrowUp")
    write_anew(chat, "second\ndemo: echo; fast")
    expect(chat.finished_answers).to_have_count(2)
    expect(chat.answers.last).to_contain_text("second")
    expect(chat.box).to_be_focused()
    assert place(chat.questions.last) == "Version 2 of 2"
    expect(other.questions.last).to_contain_text("second")
    versions(chat.questions.last).get_by_role("button", name="Earlier version").click()
    expect(chat.answers.last).to_contain_text("secnd")
    assert [shown_text(each).split("\n")[0] for each in chat.questions.all()] == ["first", "secnd"]


def test_the_first_message_is_written_anew_and_every_turn_stays_within_reach(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    for text in ("one", "two", "three"):
        say(alice, session, f"{text}\ndemo: echo; fast")
    chat = open_chat(alice, session)
    chat.questions.first.hover()
    chat.questions.first.get_by_role("button", name="Edit").click()
    write_anew(chat, "eins\ndemo: echo; fast")
    expect(chat.finished_answers).to_have_count(1)
    expect(chat.answers.first).to_contain_text("eins")
    chat.page.reload()
    chat.wait_until_online()
    versions(chat.questions.first).get_by_role("button", name="Earlier version").click()
    expect(chat.questions).to_have_count(3)
    assert [text.split("\n")[0] for text in chat.answer_texts()] == ["one", "two", "three"]
    versions(chat.questions.first).get_by_role("button", name="Later version").click()
    expect(chat.questions).to_have_count(1)


def test_what_cannot_be_sent_stays_in_the_editor(alice: Person, open_chat: OpenChat) -> None:
    session = alice.new_session()
    say(alice, session, "one\ndemo: echo; fast")
    chat = open_chat(alice, session)
    chat.box.press("ArrowUp")
    long = "word " * 39_000
    write_anew(chat, long)
    editor = chat.page.get_by_role("textbox", name="Your message, written anew")
    expect(chat.page.locator(".message-editor .field-error")).to_contain_text("too long for the")
    expect(editor).to_have_value(long)
    assert len(alice.messages(session)) == 2
    write_anew(chat, "short\ndemo: echo; fast")
    expect(chat.answers.last).to_contain_text("short")


def test_an_answer_that_one_without_text_took_the_place_of_is_shown_again(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    say(alice, session, "kept\ndemo: echo; wait 2; fast")
    chat = open_chat(alice, session)
    chat.page.get_by_role("button", name="Regenerate").click()
    chat.stop_button.click()
    expect(chat.messages).to_contain_text("Stopped by you before anything was written.")
    expect(chat.answers).to_have_count(0)
    chat.page.get_by_role("button", name="Show the earlier answer").click()
    expect(chat.answers).to_contain_text("kept")
    expect(chat.page.get_by_role("button", name="Regenerate")).to_be_visible()


def test_what_was_being_written_anew_is_lost_neither_by_a_reload_nor_by_another_window(
    alice: Person, open_chat: OpenChat
) -> None:
    session, other = alice.new_session(), alice.new_session()
    say(alice, session, "one\ndemo: echo; fast")
    chat = open_chat(alice, session)
    editor = chat.page.get_by_role("textbox", name="Your message, written anew")
    chat.box.press("ArrowUp")
    editor.fill("one, at length")
    chat.page.reload()
    chat.wait_until_online()
    expect(editor).to_have_value("one, at length")
    chat.choose(other)
    expect(editor).to_have_count(0)
    chat.choose(session)
    expect(editor).to_have_value("one, at length")
    asked = alice.messages(session)[0]["id"]
    order = {"text": "uno\ndemo: echo; fast", "client_id": str(uuid.uuid4())}
    assert alice.call("POST", f"sessions/{session}/messages/{asked}/edit/", order)[0] == 200
    expect(chat.box).to_have_value("one, at length")
    expect(chat.notice).to_contain_text("not on this page any more")
    expect(chat.questions.last).to_contain_text("uno")


def test_another_version_far_up_stays_in_its_place_and_the_rest_is_below(
    alice: Person, open_chat: OpenChat
) -> None:
    session = alice.new_session()
    for number in range(1, 31):
        say(alice, session, f"demo: echo; fast\nq{number}")
    asked = alice.messages(session)[-8]
    order = {"text": "anew\ndemo: echo; fast", "client_id": str(uuid.uuid4())}
    path = f"sessions/{session}/messages/{asked['id']}/edit/"
    assert alice.call("POST", path, order)[0] == 200
    chat = open_chat(alice, session)
    question = chat.questions.last
    before = question.bounding_box()
    versions(question).get_by_role("button", name="Earlier version").click()
    old = chat.page.locator(f'article[data-seq="{asked["seq"]}"]')
    expect(old).to_contain_text("q27")
    after = old.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2
    chat.page.get_by_role("button", name="Latest").click()
    expect(chat.answers.last).to_contain_text("q30")


def test_versions_and_the_editor_are_accessible(alice: Person, open_chat: OpenChat) -> None:
    session = alice.new_session()
    say(alice, session, "one\ndemo: echo; fast")
    chat = open_chat(alice, session)
    chat.page.get_by_role("button", name="Regenerate").click()
    expect(versions(chat.finished_answers.first)).to_contain_text("Version 2 of 2")
    chat.box.press("ArrowUp")
    assert complaints_in_light_and_dark(chat.page) == []
