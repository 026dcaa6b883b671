"""The list of conversations: pinned ones first, archived ones apart, by mouse and keyboard."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.axe import complaints_in_light_and_dark
from tests.browser.chat import Chat, say
from tests.browser.conftest import OpenChat
from tests.browser.console import ConsoleWatch
from tests.clients import Person

PHONE = {"width": 390, "height": 844}
LOOK = "document.dispatchEvent(new Event('visibilitychange'))"  # the window comes to the front
PAGE_OF_SESSIONS = 30


def group(chat: Chat, name: str) -> Locator:
    """The links under one heading of the list."""
    return chat.sessions.get_by_role("list", name=name, exact=True).get_by_role("link")


def changed(person: Person, session: str, **changes: bool) -> None:
    assert person.call("PATCH", f"sessions/{session}/", changes)[0] == 200


def test_a_pinned_conversation_stands_first_in_every_window_until_it_is_unpinned(
    open_chat: OpenChat, new_person: Person
) -> None:
    old = new_person.new_session(title="Old")
    new_person.new_session(title="New")
    one, two = (open_chat(new_person, old) for _ in range(2))
    expect(group(one, "Today")).to_have_text(["New", "Old"])
    one.do_with("Old", "Pin")
    for chat in (one, two):
        expect(group(chat, "Pinned")).to_have_text(["Old"])
        expect(group(chat, "Today")).to_have_text(["New"])
    expect(one.sessions.get_by_role("button", name="Options of Old")).to_be_focused()
    one.page.reload()
    expect(group(one, "Pinned")).to_have_text(["Old"])
    one.do_with("Old", "Unpin")
    for chat in (one, two):
        expect(group(chat, "Today")).to_have_text(["New", "Old"])
        expect(chat.sessions.get_by_role("heading", name="Pinned")).to_have_count(0)


def test_one_that_was_pinned_long_ago_is_there_before_its_page_is_read(
    open_chat: OpenChat, new_person: Person
) -> None:
    oldest = new_person.new_session(title="The oldest")
    later = [new_person.new_session(title=f"Later {n}") for n in range(PAGE_OF_SESSIONS + 1)]
    changed(new_person, oldest, is_pinned=True)
    # A low list shows no end, so no further page is read.
    chat = open_chat(new_person, later[-1], viewport={"width": 1280, "height": 420})
    expect(group(chat, "Pinned")).to_have_text(["The oldest"])
    expect(group(chat, "Today")).to_have_count(PAGE_OF_SESSIONS)
    changed(new_person, oldest, is_pinned=False)
    chat.page.evaluate(LOOK)
    expect(chat.sessions.get_by_role("heading", name="Pinned")).to_have_count(0)
    expect(group(chat, "Today").last).to_have_text("The oldest")


def test_an_archived_conversation_leaves_the_list_and_is_found_in_the_archive_and_by_a_search(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session(title="Herons")
    other = new_person.new_session(title="Other")
    say(new_person, session, "A heron stood in the reeds")
    chat = open_chat(new_person, session)
    elsewhere = open_chat(new_person, other)
    expect(group(elsewhere, "Today")).to_have_text(["Herons", "Other"])
    chat.do_with("Herons", "Archive")
    expect(group(chat, "Today")).to_have_text(["Other"])
    expect(group(chat, "Today")).to_be_focused()
    expect(chat.announcements.last).to_have_text("“Herons” was archived.")
    expect(chat.page.locator("#archived-pill")).to_be_visible()
    elsewhere.page.evaluate(LOOK)
    expect(group(elsewhere, "Today")).to_have_text(["Other"])

    elsewhere.sessions.get_by_role("searchbox").fill("heron")
    expect(elsewhere.page.get_by_role("list", name="Search results")).to_contain_text("reeds")
    elsewhere.sessions.get_by_role("searchbox").fill("")

    elsewhere.sessions.get_by_role("button", name="Archived").click()
    expect(group(elsewhere, "Today")).to_have_text(["Herons"])
    group(elsewhere, "Today").click()
    expect(elsewhere.page.locator("#archived-pill")).to_be_visible()
    elsewhere.do_with("Herons", "Unarchive")
    expect(elsewhere.sessions).to_contain_text("Nothing is archived.")
    expect(elsewhere.page.locator("#archived-pill")).to_be_hidden()
    elsewhere.sessions.get_by_role("button", name="All conversations").click()
    for window in (chat, elsewhere):
        expect(group(window, "Today")).to_have_text(["Herons", "Other"])
    expect(chat.page.locator("#archived-pill")).to_be_hidden()


def test_what_is_refused_stays_as_it_was_and_says_so(
    open_chat: OpenChat, new_person: Person, console: ConsoleWatch
) -> None:
    new_person.new_session(title="Other")
    chat = open_chat(new_person, new_person.new_session(title="Kept"))
    console.allow("Failed to load resource")
    chat.page.route("**/api/v1/sessions/*/", lambda route: route.abort())
    chat.do_with("Kept", "Archive")
    expect(chat.notice).to_contain_text("It was not archived")
    expect(group(chat, "Today")).to_have_text(["Kept", "Other"])


def test_the_menu_is_gone_through_with_the_keyboard_and_escape_leaves_the_answer_alone(
    open_chat: OpenChat, new_person: Person
) -> None:
    chat = open_chat(new_person, new_person.new_session(title="Mine"))
    keys = chat.page.keyboard
    chat.send("demo: long 400; slow 20")
    expect(chat.stop_button).to_be_visible()
    chat.sessions.get_by_role("link", name="Mine").focus()
    keys.press("Tab")
    options = chat.sessions.get_by_role("button", name="Options of Mine")
    expect(options).to_be_focused()
    keys.press("Enter")
    menu = chat.sessions.get_by_role("menu", name="Mine")
    items = menu.get_by_role("menuitem")
    expect(items).to_have_text(["Pin", "Rename", "Archive", "Delete"])
    for key, item in (("", 0), ("ArrowUp", 3), ("ArrowDown", 0), ("ArrowDown", 1), ("End", 3)):
        if key:
            keys.press(key)
        expect(items.nth(item)).to_be_focused()
    keys.press("Escape")
    expect(menu).to_have_count(0)
    expect(options).to_be_focused()
    expect(options).to_have_attribute("aria-expanded", "false")
    expect(chat.stop_button).to_be_visible()  # the answer goes on
    keys.press("Enter")
    keys.press("Enter")
    expect(group(chat, "Pinned")).to_have_text(["Mine"])
    expect(options).to_be_focused()
    keys.press("Enter")
    expect(items.first).to_have_text("Unpin")
    chat.messages.click()
    expect(menu).to_have_count(0)
    chat.box.press("Escape")


def test_the_menu_and_the_archive_at_390_px(open_chat: OpenChat, new_person: Person) -> None:
    session = new_person.new_session(title="Kept")
    changed(new_person, new_person.new_session(title="Put away"), is_archived=True)
    chat = open_chat(new_person, session, viewport=PHONE, has_touch=True, is_mobile=True)
    chat.page.get_by_role("button", name="Show conversations").click()
    chat.sessions.get_by_role("button", name="Options of Kept").tap()
    menu = chat.sessions.get_by_role("menu", name="Kept")
    expect(menu.get_by_role("menuitem")).to_have_count(4)
    box = menu.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= PHONE["width"] - box["width"]
    assert complaints_in_light_and_dark(chat.page) == []
    menu.get_by_role("menuitem", name="Pin").tap()
    expect(group(chat, "Pinned")).to_have_text(["Kept"])
    chat.sessions.get_by_role("button", name="Archived").tap()
    expect(group(chat, "Today")).to_have_text(["Put away"])
    assert complaints_in_light_and_dark(chat.page) == []
