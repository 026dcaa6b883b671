"""What happens elsewhere: another window, another device, another server process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat, contents, say
from tests.browser.conftest import OpenChat, OpenPage
from tests.browser.console import ConsoleWatch
from tests.browser.people import sign_in
from tests.browser.wire import mend_and_try_now, wire_to
from tests.clients import Person
from tests.databases import Databases
from tests.embedded import free_port
from tests.servers import Server, server


def test_a_stale_window_is_told_to_look_and_overwrites_nothing(
    open_page: OpenPage, alice: Person, site: Server, console: ConsoleWatch
) -> None:
    console.allow("ERR_CONNECTION")
    session = alice.new_session()
    say(alice, session, "Before")
    with wire_to(site.port) as wire:
        stale = Chat(open_page(alice, base_url=wire.url))
        stale.open(session)
        wire.cut()
        expect(stale.banner).to_be_visible()
        stale.send("From a window that has not seen the rest")
        for number in range(5):
            say(alice, session, f"Elsewhere {number}")
        elsewhere = contents(alice, session)
        mend_and_try_now(stale, wire)
        expect(stale.finished_answers).to_have_count(6)
        expect(stale.notice).to_contain_text("went on elsewhere")
        expect(stale.box).to_have_value("From a window that has not seen the rest")
        assert contents(alice, session) == elsewhere
        stale.box.press("Enter")
        expect(stale.finished_answers).to_have_count(7)
        assert contents(alice, session)[:12] == elsewhere
        assert stale.question_texts() == contents(alice, session)[::2]


def test_a_session_that_is_deleted_elsewhere_says_so_and_does_not_come_back(
    open_chat: OpenChat, new_person: Person
) -> None:
    kept, gone = new_person.new_session(title="Kept"), new_person.new_session(title="Gone")
    chat = open_chat(new_person, gone)
    chat.write("half a thought")
    assert new_person.call("DELETE", f"sessions/{gone}/")[0] == 200
    expect(chat.page.get_by_role("heading", name="This conversation was deleted")).to_be_visible()
    expect(chat.box).to_have_value("half a thought")
    expect(chat.box).not_to_be_editable()
    expect(chat.sessions.get_by_role("link", name="Gone")).to_be_hidden()
    expect(chat.sessions.get_by_role("link", name="Kept")).to_be_visible()
    chat.box.press("Enter")
    chat.choose(kept)
    chat.wait_until_online()
    assert [each["id"] for each in new_person.call("GET", "sessions/")[1]["results"]] == [kept]


def test_signing_out_in_another_window_is_said_and_nothing_typed_is_lost(
    open_page: OpenPage, alice: Person, console: ConsoleWatch
) -> None:
    console.allow("401")
    page = open_page()
    sign_in(page, "alice")
    session = alice.new_session()
    chat = Chat(page)
    chat.open(session)
    chat.write("not sent yet")
    other = page.context.new_page()
    other.goto("/")
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(chat.banner).to_contain_text("You are signed out")
    expect(chat.box).to_have_value("not sent yet")
    expect(chat.box).not_to_be_editable()
    expect(chat.send_button).to_be_disabled()
    assert contents(alice, session) == []


def test_a_cookie_that_ended_elsewhere_is_noticed_at_the_next_request(
    open_page: OpenPage, site: Server, console: ConsoleWatch
) -> None:
    console.allow("401")
    device = Person(site.url, "alice")
    session, other = device.new_session(title="One"), device.new_session(title="Two")
    chat = Chat(open_page(device))
    chat.open(session)
    chat.write("not sent yet")
    page = open_page(device)
    page.goto("/")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    chat.choose(other)
    expect(chat.banner).to_contain_text("You are signed out")
    with chat.page.expect_navigation(url="**/accounts/login/?next=*"):
        chat.banner.get_by_role("button", name="Sign in again").click()


# --- Restarts -------------------------------------------------------------------------------------


class Restartable:
    """A server that ends and starts again, at the same port and on the same database."""

    def __init__(self, start: Callable[[], Server]) -> None:
        self._start = start
        self.server = start()

    def start_again(self) -> None:
        self.server = self._start()


@pytest.fixture(scope="module")
def restartable(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restartable]:
    url, port = databases.seeded("sqlite"), free_port()
    folder = tmp_path_factory.mktemp("restarts")
    with ExitStack() as stack:
        yield Restartable(lambda: stack.enter_context(server(folder, port=port, database_url=url)))


@pytest.fixture(scope="module")
def alice_there(restartable: Restartable) -> Person:
    return Person(restartable.server.url, "alice")


def test_a_restart_between_two_turns_goes_on_in_the_same_session_without_a_reload(
    open_page: OpenPage, restartable: Restartable, alice_there: Person, console: ConsoleWatch
) -> None:
    console.allow("ERR_CONNECTION")
    session = alice_there.new_session()
    chat = Chat(open_page(alice_there, base_url=alice_there.base_url))
    chat.open(session)
    chat.ask("My name is Fei")
    restartable.server.terminate()
    restartable.start_again()
    chat.reconnect()
    chat.send("Who am I?")
    expect(chat.finished_answers).to_have_count(2)
    assert "Fei" in chat.answer_text(1)
    assert chat.session_id == session
    assert len(alice_there.call("GET", "sessions/")[1]["results"]) == 1
    assert contents(alice_there, session)[::2] == ["My name is Fei", "Who am I?"]


def test_a_killed_server_leaves_what_was_written_and_the_offer_to_try_again(
    open_page: OpenPage, restartable: Restartable, alice_there: Person, console: ConsoleWatch
) -> None:
    console.allow("ERR_CONNECTION")
    session = alice_there.new_session()
    chat = Chat(open_page(alice_there, base_url=alice_there.base_url))
    chat.open(session)
    chat.send("demo: echo; slow 80\n" + " ".join(f"n{n}" for n in range(1, 61)))
    while len(contents(alice_there, session)) < 2:  # a partial text is stored once a second
        chat.page.wait_for_timeout(20)
    expect(chat.live_answer).to_contain_text("n2")
    restartable.server.kill()
    expect(chat.banner).to_contain_text("The server cannot be reached.")
    restartable.start_again()
    chat.reconnect()
    expect(chat.messages).to_contain_text("The server stopped while it was answering.")
    partial = chat.answer_text(0)
    assert partial.startswith("n1 n2")
    assert contents(alice_there, session)[1] == partial
    chat.try_again.click()
    expect(chat.messages).to_contain_text("Version 2 of 2")
    assert chat.answer_text(0).endswith("n60")
    assert len(contents(alice_there, session)) == 2
