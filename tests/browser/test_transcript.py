"""What staff see of a conversation: each message, exactly what was sent, and nothing to change."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chat import contents, say
from tests.browser.conftest import OpenPage, SignIn
from tests.browser.people import add_users
from tests.clients import Person
from tests.environment import DEMO_PASSWORD
from tests.servers import Server

FIRST = "第一轮：记忆验证：请记住校验短语“青云-4173”，并只回复“已记住”。"
SECOND = "第二轮：请告诉我刚才要求你记住的校验短语是什么？只回复短语。"
PROMPT = "You are a friendly assistant. Answer in the language of the question, and be brief."
METADATA = [
    "view_chatsession",
    "view_chatmessage",
    "view_chatturn",
    "view_contextrecord",
    "view_context",
]


@pytest.fixture
def pair(alice: Person) -> str:
    """A session with both rounds of the check."""
    session = alice.new_session(title="Round one and two")
    for text in (FIRST, SECOND):
        say(alice, session, text)
    return session


def open_transcript(page: Page, session: str) -> None:
    page.goto(f"/admin/chat/chatsession/{session}/transcript/")
    expect(page.get_by_role("navigation", name="Messages, top")).to_be_visible()


def unfold(page: Page, turn: int) -> Locator:
    """Open "What was sent" beneath an answer; what it shows."""
    fold = page.locator("details.sent-fold").nth(turn)
    fold.locator("summary").click()
    expect(fold).to_contain_text("Proof ok")
    return fold


def test_the_transcript_shows_the_four_messages_and_exactly_what_each_turn_sent(
    open_page: OpenPage, person: SignIn, site: Server, alice: Person, pair: str
) -> None:
    stored = contents(alice, pair)
    assert [stored[0], stored[2], stored[3]] == [FIRST, SECOND, "青云-4173"]
    page = open_page(person(site, "admin"))
    open_transcript(page, pair)
    shown = page.locator(".message-text").all_inner_texts()
    assert shown == stored
    first, second = (unfold(page, turn) for turn in (0, 1))
    assert first.locator("pre[dir=auto]").all_inner_texts() == [PROMPT, FIRST]
    assert second.locator("pre[dir=auto]").all_inner_texts() == [PROMPT, *stored[:3]]
    # What was sent is read from the records; the demo model says what it received.
    received = requests_received(page)
    for sent in ([PROMPT, FIRST], [PROMPT, *stored[:3]]):
        assert sent in received


def requests_received(page: Page) -> list[list[str]]:
    """The texts of the newest requests that the demo model got."""
    seen = json.loads(page.request.get("/demo-model/v1/requests").text())["data"]
    return [[message["content"] for message in each["messages"]] for each in seen]


def test_messages_and_turns_cannot_be_changed_by_anyone(
    open_page: OpenPage, person: SignIn, site: Server, alice: Person, pair: str
) -> None:
    admin = person(site, "admin")
    message = alice.messages(pair)[0]
    page = open_page(admin)
    for address in (
        f"/admin/chat/chatmessage/{message['id']}/change/",
        f"/admin/chat/chatturn/{message['turn']['id']}/change/",
    ):
        page.goto(address)
        main = page.get_by_role("main")
        expect(main).to_contain_text(re.compile("第一轮|Completed"))
        expect(main.locator("input:not([type=hidden]), textarea, select")).to_have_count(0)
        expect(main.get_by_role("button", name=re.compile("Save|Delete"))).to_have_count(0)


def test_staff_who_may_not_read_texts_see_none_on_any_page(
    open_page: OpenPage, site: Server, site_database: str, alice: Person, pair: str
) -> None:
    add_users(site_database, ["auditor"], *METADATA)
    page = open_page(Person(site.url, "auditor", DEMO_PASSWORD))
    message = alice.messages(pair)[0]
    open_transcript(page, pair)
    expect(page.get_by_text("Text is hidden.")).to_have_count(4)
    fold = page.locator("details.sent-fold").first
    fold.locator("summary").click()
    expect(fold).to_contain_text("Proof ok")
    pages = [page.content()]
    for address in (
        "/admin/chat/chatsession/",
        f"/admin/chat/chatsession/{pair}/change/",
        "/admin/chat/chatmessage/",
        f"/admin/chat/chatmessage/{message['id']}/change/",
        f"/admin/chat/chatturn/{message['turn']['id']}/change/",
        "/admin/chat/contextrecord/",
    ):
        page.goto(address)
        expect(page.get_by_role("main")).to_be_visible()
        pages.append(page.content())
    page.goto("/admin/chat/contextrecord/")
    page.get_by_role("main").get_by_role("table").get_by_role("link").first.click()
    expect(page.get_by_text("Proof ok")).to_be_visible()
    pages.append(page.content())
    for text in ("青云", "记住", "Round one and two", PROMPT):
        assert [number for number, html in enumerate(pages) if text in html] == [], text
