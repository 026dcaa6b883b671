"""The admin in a browser: nothing serious from axe, room at 390 px, and no complaint of the content
security policy, which would fail every one of these tests (`console`)."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser import axe
from tests.browser.conftest import OpenPage, SignIn
from tests.clients import Person
from tests.servers import Server

LISTS = [
    "/admin/",
    "/admin/chat/chatsession/",
    "/admin/chat/chatsession/queue/",
    "/admin/chat/reviewtag/",
    "/admin/chat/chatturn/",
    "/admin/chat/chatmessage/",
    "/admin/chat/contextrecord/",
    "/admin/chat/contextpart/",
    "/admin/memory/memorysnapshot/",
    "/admin/memory/userpreference/",
    "/admin/chat/assistant/",
    "/admin/chat/assistant/tools/",
    "/admin/chat/feedback/",
    "/admin/chat/chatsession/delete-matching/?person=nobody",
    "/admin/chat/chatsession/delete-matching/?state=archived",
    "/admin/chat/modelendpoint/",
    "/admin/chat/tenant/",
    "/admin/chat/membership/",
    "/admin/chat/auditevent/",
    "/admin/chat/sessiontombstone/",
    "/admin/chat/pendingremoval/",
    "/admin/auth/user/",
    "/admin/auth/group/",
]
FORMS = [
    "/admin/memory/userpreference/add/",
    "/admin/chat/reviewtag/add/",
    "/admin/chat/assistant/add/",
    "/admin/chat/modelendpoint/add/",
    "/admin/chat/tenant/add/",
    "/admin/chat/membership/add/",
    "/admin/auth/user/add/",
    "/admin/auth/group/add/",
    "/admin/password_change/",
]
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "390px": {"color_scheme": "light", "viewport": NARROW},
}


@pytest.fixture(scope="session")
def admin(person: SignIn, site: Server) -> Person:
    """admin with an HTTP client."""
    return person(site, "admin")


def talk(somebody: Person, text: str) -> str:
    """A session in which `text` was said and answered; its id."""
    session = somebody.new_session()
    turn = {"text": text, "client_id": str(uuid.uuid4())}
    status, answer = somebody.call("POST", f"sessions/{session}/turns/", turn)
    assert status in {200, 201}, answer
    return session


def complaints(page: Page) -> list[str]:
    """What axe finds serious or critical, and whether the page is wider than the window."""
    found = axe.complaints(page)
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        found.append("wider than the window")
    return found


def visit(page: Page, address: str) -> list[str]:
    response = page.goto(address)
    assert response is not None
    assert response.status == 200, address
    return [f"{address} {each}" for each in complaints(page)]


def test_lists_and_forms_are_clean(open_page: OpenPage, admin: Person) -> None:
    page = open_page(admin, **LOOKS["light"])
    found = [each for address in [*LISTS, *FORMS] for each in visit(page, address)]
    assert found == []


@pytest.mark.parametrize("look", ["dark", "390px"])
def test_lists_and_forms_are_clean_in_another_look(
    open_page: OpenPage, admin: Person, look: str
) -> None:
    page = open_page(admin, **LOOKS[look])
    found = [each for address in [*LISTS[:4], *FORMS[:2]] for each in visit(page, address)]
    assert found == []


def test_staff_read_the_conversation_and_exactly_what_was_sent(
    open_page: OpenPage, admin: Person, alice: Person
) -> None:
    session = talk(alice, "第一轮：项目代号是青云-4173。")
    page = open_page(admin)
    page.goto(f"/admin/chat/chatsession/{session}/change/")
    page.get_by_role("link", name="Transcript").click()
    assert page.locator(".message-user .message-text").inner_text() == (
        "第一轮：项目代号是青云-4173。"
    )
    assert page.locator(".message-assistant .message-text").count() == 1
    page.get_by_text("What was sent:").click()
    page.get_by_text("Proof ok").wait_for()
    sent = page.locator(".sent-messages pre").all_inner_texts()
    assert sent[-1] == "第一轮：项目代号是青云-4173。"
    page.get_by_role("link", name="Open as a page").click()
    page.wait_for_url(re.compile(r"/admin/chat/contextrecord/.+/change/"))
    assert page.locator(".sent-messages pre").all_inner_texts() == sent


@pytest.mark.parametrize("look", LOOKS)
def test_the_pages_of_one_conversation_are_clean(
    open_page: OpenPage, admin: Person, alice: Person, look: str
) -> None:
    session = talk(alice, "Hello")
    page = open_page(admin, **LOOKS[look])
    found = visit(page, f"/admin/chat/chatsession/{session}/change/")
    found += visit(page, f"/admin/chat/chatsession/{session}/transcript/")
    page.get_by_text("What was sent:").click()
    page.get_by_text("Proof ok").wait_for()
    found += complaints(page)
    for link in ("#1", "Open as a page", "Turn 1"):
        page.goto(f"/admin/chat/chatsession/{session}/transcript/")
        if link == "Open as a page":
            page.get_by_text("What was sent:").click()
        with page.expect_navigation():
            page.get_by_role("link", name=link, exact=True).click()
        found += complaints(page)
    assert found == []


def test_a_session_is_deleted_after_the_number_was_typed(
    open_page: OpenPage, admin: Person, alice: Person
) -> None:
    session = talk(alice, "Hello")
    page = open_page(admin)
    page.goto(f"/admin/chat/chatsession/{session}/change/")
    page.get_by_role("button", name="Delete").click()
    assert page.locator("dl.counts").inner_text().split("\n")[:2] == ["sessions", "1"]
    page.get_by_label("Type the number of sessions").fill("1")
    page.get_by_label("Reason").fill("asked by alice")
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("Deleted 1 session.").wait_for()
    page.goto(f"/admin/chat/auditevent/?q={session}")
    page.get_by_text("session.delete").wait_for()


def test_on_a_phone_a_session_of_the_list_is_a_card_that_fits(
    admin: Person, open_page: OpenPage
) -> None:
    session = talk(admin, "A question for a narrow window")
    page = open_page(admin, viewport=NARROW)
    page.goto(f"/admin/chat/chatsession/?q={session}")
    row = page.locator("#result_list tbody tr")
    for column in ("title_column", "user", "assistant", "message_count", "last_active_column"):
        box = row.locator(f".field-{column}").bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= NARROW["width"], column
    assert complaints(page) == []


def test_a_printed_list_has_every_column_and_nothing_to_press(
    admin: Person, open_page: OpenPage
) -> None:
    session = talk(admin, "A question on paper")
    page = open_page(admin, viewport={"width": 900, "height": 900})
    page.goto(f"/admin/chat/chatsession/?q={session}")
    page.emulate_media(media="print")
    for gone in ("#header", "#nav-sidebar", "#changelist-filter", "#toolbar", ".actions"):
        assert not page.locator(gone).first.is_visible(), gone
    last = page.locator("#result_list .field-last_active_column").bounding_box()
    assert last is not None
    assert last["x"] + last["width"] <= 900


def test_a_long_tag_leaves_room_for_the_other_columns(admin: Person, open_page: OpenPage) -> None:
    session = talk(admin, "A question that is filed")
    page = open_page(admin, viewport=WIDE)
    page.goto(f"/admin/chat/chatsession/{session}/change/")
    page.get_by_role("button", name="Tag…").click()
    page.get_by_label("Tag", exact=True).fill("标签" * 20)
    page.get_by_role("button", name="Tag").click()
    page.get_by_text("Tagged 1 session").wait_for()
    page.goto(f"/admin/chat/chatsession/?q={session}")
    table = page.locator("#changelist-form .results")
    assert page.locator(".badge-tag").is_visible()
    last = page.locator("#result_list .field-last_active_column").bounding_box()
    within = table.bounding_box()
    assert last is not None
    assert within is not None
    assert last["x"] + last["width"] <= within["x"] + within["width"] + 1
