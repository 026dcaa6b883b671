"""Room for everything: nothing scrolls sideways at 390 px, and nothing jumps while it is read."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat, say
from tests.browser.conftest import OpenChat, OpenPage, SignIn
from tests.clients import Person
from tests.servers import Server

PHONE = {"width": 390, "height": 844}
WIDE_TEXTS = {
    "an unbroken word": "x" * 900 + " https://example.org/" + "y" * 400,
    "Chinese": "记忆窗口的长度由设置决定，" * 40,
    "right to left": "مرحبا بالعالم، هذه رسالة طويلة من اليمين إلى اليسار " * 8,
    "code": f"```python\nvalue = compute({'argument, ' * 60})\n```\n\n`{'z' * 200}`",
    "a table": "| " + " | ".join(f"column {n}" for n in range(20)) + " |\n" + "| --- " * 20 + "|\n"
    + "| " + " | ".join("w" * 30 for _ in range(20)) + " |",
    "math": "$$\n" + " + ".join(f"x_{{{n}}}^2" for n in range(60)) + "\n$$",
    "deep lists": "\n".join("  " * depth + f"- level {depth}" for depth in range(20)),
}  # fmt: skip


def sideways(page: Page) -> int:
    """By how many px the page is wider than its window."""
    return int(page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth"))


@pytest.fixture
def session(alice: Person) -> str:
    """A session with every wide text, from a person and from the model."""
    made = alice.new_session(title="W" * 200)
    for text in WIDE_TEXTS.values():
        say(alice, made, f"demo: echo\n{text}")
    return made


def test_the_chat_page_never_scrolls_sideways_at_390_px(
    open_chat: OpenChat, alice: Person, session: str
) -> None:
    chat = open_chat(alice, session, viewport=PHONE)
    expect(chat.finished_answers).to_have_count(len(WIDE_TEXTS))
    for index, name in enumerate(WIDE_TEXTS):
        for article in (chat.questions.nth(index), chat.answers.nth(index)):
            article.scroll_into_view_if_needed()
            box = article.bounding_box()
            assert box is not None
            assert box["x"] >= 0, name
            assert box["x"] + box["width"] <= PHONE["width"], name
        assert sideways(chat.page) <= 0, name
    assert chat.messages.evaluate("(region) => region.scrollWidth - region.clientWidth") <= 0
    chat.page.get_by_role("button", name="What was sent, and memory").click()
    expect(chat.details).to_be_in_viewport()
    expect(chat.details).to_contain_text("Your message")
    assert sideways(chat.page) <= 0
    assert chat.details.evaluate("(panel) => panel.scrollWidth - panel.clientWidth") <= 0


def test_the_admins_list_and_transcript_never_scroll_sideways_at_390_px(
    open_page: OpenPage, person: SignIn, site: Server, session: str
) -> None:
    page = open_page(person(site, "admin"), viewport=PHONE)
    for address in (
        "/admin/chat/chatsession/",
        "/admin/chat/chatmessage/",
        f"/admin/chat/chatsession/{session}/transcript/",
    ):
        page.goto(address)
        expect(page.get_by_role("main")).to_be_visible()
        assert sideways(page) <= 0, address


def test_the_composer_and_the_messages_fit_into_every_width(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "demo: markdown")
    chat = open_chat(alice, session)
    expect(chat.finished_answers).to_have_count(1)
    for width in (390, 700, 900, 1200, 1920):
        chat.page.set_viewport_size({"width": width, "height": 700})
        expect(chat.box).to_be_in_viewport()
        assert sideways(chat.page) <= 0, width


def test_new_text_is_followed_to_its_end_by_who_is_at_the_end(
    open_chat: OpenChat, alice: Person
) -> None:
    chat = open_chat(alice, alice.new_session())
    for number in (1, 2):
        chat.send("demo: long 300; slow 2")
        expect(chat.live_answer.locator("p").first).to_be_visible()
        await_the_end(chat)
        expect(chat.finished_answers).to_have_count(number)
        await_the_end(chat)
    chat.page.reload()
    expect(chat.finished_answers).to_have_count(2)
    await_the_end(chat)


def test_new_text_moves_nothing_for_who_reads_further_up(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    say(alice, session, "demo: long 300")
    chat = open_chat(alice, session)
    chat.send("demo: long 300; slow 8")
    expect(chat.live_answer.locator("p").first).to_be_visible()
    chat.messages.hover()
    chat.page.mouse.wheel(0, -600)
    expect(chat.page.get_by_role("button", name="Latest")).to_be_visible()
    top = chat.messages.evaluate("(region) => region.scrollTop")
    expect(chat.finished_answers).to_have_count(2)
    assert chat.messages.evaluate("(region) => region.scrollTop") == top
    chat.page.get_by_role("button", name="Latest").click()
    expect(chat.page.get_by_role("button", name="Latest")).to_be_hidden()
    await_the_end(chat)


def await_the_end(chat: Chat) -> None:
    """The end of the conversation is in sight, as soon as everything has its height."""
    chat.page.wait_for_function(
        """() => {
          const region = document.getElementById("scroller");
          return region.scrollHeight - region.scrollTop - region.clientHeight < 50;
        }"""
    )


def test_the_newest_fifty_come_first_and_older_ones_upwards_without_a_jump(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    for number in range(40):
        say(alice, session, f"demo: echo; fast\nMessage {number}")
    chat = open_chat(alice, session)
    expect(chat.messages.get_by_role("article")).to_have_count(50)
    chat.messages.evaluate("(region) => region.scrollTo(0, 0)")
    expect(chat.messages.get_by_role("article")).to_have_count(80)
    first = chat.page.locator('article[data-seq="31"]')
    expect(first).to_be_in_viewport()


def test_the_theme_is_chosen_and_kept(open_chat: OpenChat, alice: Person) -> None:
    chat: Chat = open_chat(alice, alice.new_session(), color_scheme="light")
    page = chat.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    toggle = page.get_by_role("button", name="Theme")
    toggle.click()
    toggle.click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(ground) != light
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(ground) != light
