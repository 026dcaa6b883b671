"""The chat page as a person uses it: what is written, what is pressed, what is read."""

from __future__ import annotations

import re
import uuid
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.clients import Frame, Person


class Chat:
    """One window with the chat page in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.messages = page.get_by_role("region", name="Messages")
        self.box = page.get_by_role("textbox", name="Message", exact=True)
        self.send_button = page.get_by_role("button", name="Send", exact=True)
        self.stop_button = page.get_by_role("button", name="Stop", exact=True)
        self.try_again = page.get_by_role("button", name="Try again")
        self.notice = page.locator("#composer-notice")
        self.announcements = page.locator("#live > p")
        self.banner = page.locator("#banner")
        self.details = page.get_by_role("complementary", name="What was sent, and memory")
        self.sessions = page.get_by_role("navigation", name="Conversations")

    # --- Going places -------------------------------------------------------------------------

    def open(self, session_id: str = "") -> None:
        """Go to a session, or to the start, and wait until it is connected."""
        self.page.goto(f"/chat/{session_id}/" if session_id else "/")
        self.wait_until_online()

    def wait_until_online(self) -> None:
        state = self.page.locator("#connection")
        expect(state).to_have_attribute("data-state", re.compile("online|busy"))  # busy: answering

    def reconnect(self) -> None:
        """The network says that it is back: the page tries at once, not after its pause."""
        self.page.evaluate("dispatchEvent(new Event('online'))")

    @property
    def session_id(self) -> str:
        return self.page.url.rstrip("/").rpartition("/")[2]

    def choose(self, session_id: str) -> None:
        """Open a session from the list."""
        self.sessions.locator(f'a[href="/chat/{session_id}/"]').click()

    def do_with(self, title: str, deed: str) -> None:
        """Choose something from the menu of a session in the list."""
        self.sessions.get_by_role("listitem").filter(has_text=title).hover()
        self.sessions.get_by_role("button", name=f"Options of {title}").click()
        self.sessions.get_by_role("menuitem", name=deed, exact=True).click()

    def show_details(self, tab: str) -> Locator:
        """Open the details at a tab; the tab's panel."""
        if not self.details.is_visible():
            self.page.get_by_role("button", name="What was sent, and memory").click()
        self.page.get_by_role("tab", name=tab).click()
        return self.page.get_by_role("tabpanel", name=tab)

    # --- Writing ------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        self.box.fill(text)

    def send(self, text: str) -> None:
        self.write(text)
        self.box.press("Enter")

    def ask(self, text: str) -> str:
        """Send a message and wait for its whole answer, whatever comes of it."""
        self.wait_until_online()  # before that, answers may still be on their way to the page
        before = self.finished_answers.count()
        self.send(text)
        expect(self.finished_answers).to_have_count(before + 1)
        return self.answer_text(before)

    # --- Reading ------------------------------------------------------------------------------

    @property
    def questions(self) -> Locator:
        return self._said_by("You")

    @property
    def answers(self) -> Locator:
        return self._said_by("Assistant")

    @property
    def finished_answers(self) -> Locator:
        return self.answers.and_(self.page.locator(":not([aria-busy=true])"))

    @property
    def live_answer(self) -> Locator:
        return self.answers.and_(self.page.locator("[aria-busy=true]"))

    def answer_text(self, index: int) -> str:
        return shown_text(self.answers.nth(index))

    def question_texts(self) -> list[str]:
        return [shown_text(each) for each in self.questions.all()]

    def answer_texts(self) -> list[str]:
        return [shown_text(each) for each in self.answers.all()]

    def _said_by(self, speaker: str) -> Locator:
        heading = self.page.get_by_role("heading", name=speaker, exact=True)
        return self.messages.get_by_role("article").filter(has=heading)


def body(article: Locator) -> Locator:
    """The text of a message, without its times and buttons."""
    return article.locator(".body")


def shown_text(article: Locator) -> str:
    """What stands there to read; a message has no layout before it comes into sight."""
    article.scroll_into_view_if_needed()
    expect(body(article)).to_have_text(re.compile(r"\S"), use_inner_text=True)
    return body(article).inner_text()


def say(person: Person, session_id: str, text: str, **fields: Any) -> Frame:
    """Send a message from elsewhere, over REST, and wait for the end of its turn."""
    order = {"text": text, "client_id": str(uuid.uuid4()), **fields}
    status, turn = person.call("POST", f"sessions/{session_id}/turns/", order)
    assert status == 200, turn
    return dict(turn)


def contents(person: Person, session_id: str) -> list[str]:
    """The stored messages of a session, in order."""
    return [message["content"] for message in person.messages(session_id)]
