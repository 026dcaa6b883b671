"""Memory through the page: preferences, clearing, switching off, and what was sent."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.chat import Chat, contents, say
from tests.browser.conftest import OpenChat
from tests.browser.console import ConsoleWatch
from tests.clients import Frame, Person
from tests.databases import run_with_models

FACT = "Please remember: our project is called Heron."
QUESTION = "What is our project called?"
PROPOSE = """
from chat.models import ChatSession
from memory import preferences
session = ChatSession.objects.get(pk={session!r})
preferences.remember(
    session.tenant_id, session.user_id, "all", "project", "The project is called Heron.",
    origin="chat", source_session=session.pk, source_seq=1, status="proposed",
    quote="our project is called Heron",
)
"""

LAPSE = """
from datetime import UTC, datetime
from chat.models import ChatSession
from memory.models import UserPreference
person = ChatSession.objects.get(pk={session!r}).user
UserPreference.objects.filter(user=person).update(expires_at=datetime(2020, 5, 5, tzinfo=UTC))
"""


@pytest.fixture
def session(new_person: Person) -> str:
    return new_person.new_session()


@pytest.fixture
def chat(open_chat: OpenChat, new_person: Person, session: str) -> Chat:
    return open_chat(new_person, session)


def preference(panel: Locator, key: str) -> Locator:
    return panel.get_by_role("listitem").filter(has_text=key)


def test_what_is_remembered_by_command_is_used_in_the_next_turn_and_shown_as_used(
    chat: Chat, new_person: Person
) -> None:
    chat.send("/remember favourite tea: 茉莉花茶")
    expect(chat.notice).to_contain_text("Remembered: favourite tea.")
    expect(chat.box).to_have_value("")
    expect(chat.questions).to_have_count(0)
    assert "茉莉花茶" in chat.ask("What is my favourite tea?")
    panel = chat.show_details("What was sent")
    expect(panel).to_contain_text(re.compile(r"0 of 0 messages, \d+ of [\d,]+ tokens"))
    expect(panel.get_by_role("heading", name="Preferences used")).to_be_visible()
    expect(preference(panel, "favourite tea")).to_be_visible()
    panel = chat.show_details("Memory")
    expect(preference(panel, "favourite tea")).to_contain_text("茉莉花茶")
    # A new conversation has it too: it belongs to the person.
    chat.open(new_person.new_session())
    assert "茉莉花茶" in chat.ask("What is my favourite tea?")


def test_a_preference_is_added_edited_disabled_enabled_and_deleted(
    chat: Chat, new_person: Person
) -> None:
    panel = chat.show_details("Memory")
    panel.get_by_label("What it is about").fill("city")
    panel.get_by_label("What to remember").fill("Lisbon")
    panel.get_by_role("button", name="Remember").click()
    row = preference(panel, "city")
    expect(row).to_contain_text("Lisbon")
    row.get_by_role("button", name="Edit").click()
    row.get_by_role("textbox", name="city").fill("Porto")
    row.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Porto")
    assert "Porto" in chat.ask("What is my city?")
    row.get_by_role("button", name="Disable").click()
    expect(row.get_by_role("button", name="Enable")).to_be_visible()
    chat.ask("demo: context")
    assert "Porto" not in sent_text(new_person, chat.session_id)
    row.get_by_role("button", name="Enable").click()
    expect(row.get_by_role("button", name="Disable")).to_be_visible()
    row.get_by_role("button", name="Delete").click()
    dialog = chat.page.get_by_role("dialog", name="Forget this?")
    expect(dialog).to_contain_text("city: Porto")
    dialog.get_by_role("button", name="Forget").click()
    expect(row).to_have_count(0)
    assert new_person.call("GET", "preferences/")[1]["results"] == []


def test_a_preference_holds_until_the_end_of_a_day_of_the_reader(
    open_chat: OpenChat, new_person: Person, session: str, site_database: str
) -> None:
    chat = open_chat(new_person, session, timezone_id="Asia/Shanghai", locale="en-GB")
    panel = chat.show_details("Memory")
    panel.get_by_label("What it is about").fill("city")
    panel.get_by_label("What to remember").fill("Lisbon")
    panel.get_by_label("Until").fill("2999-12-05")
    panel.get_by_role("button", name="Remember").click()
    row = preference(panel, "city")
    expect(row).to_contain_text("until 5 Dec 2999")
    expect(panel.get_by_label("Until")).to_have_value("")
    assert ends(new_person) == ["2999-12-05T15:59:59.999000+00:00"]

    row.get_by_role("button", name="Edit").click()
    until = row.get_by_label("Until")
    expect(until).to_have_value("2999-12-05")
    until.fill("2020-01-01")  # past: the browser says so, and nothing is sent
    row.get_by_role("button", name="Save").click()
    assert until.evaluate("(each) => each.validity.rangeUnderflow")
    until.fill("2998-01-01")
    row.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("until 1 Jan 2998")

    run_with_models(site_database, LAPSE.format(session=session))
    chat.page.reload()
    chat.show_details("Memory")
    expect(row).to_contain_text("lapsed")
    row.get_by_role("button", name="Edit").click()
    row.get_by_role("textbox", name="city").fill("Porto")  # its past day may stay
    row.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Porto")
    expect(row).to_contain_text("lapsed")
    row.get_by_role("button", name="Edit").click()
    until.fill("")
    until.press("Escape")
    expect(row).to_contain_text("lapsed")
    row.get_by_role("button", name="Edit").click()
    until.fill("")
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("button", name="Edit")).to_be_visible()
    expect(row).not_to_contain_text("lapsed")
    assert ends(new_person) == [None]


def ends(person: Person) -> list[str | None]:
    return [each["expires_at"] for each in person.call("GET", "preferences/")[1]["results"]]


def sent_text(person: Person, session_id: str) -> str:
    """Everything of the newest turn's request that is not an earlier message."""
    turn = person.messages(session_id)[-1]["turn"]["id"]
    _, context = person.call("GET", f"sessions/{session_id}/turns/{turn}/context/")
    return "\n".join(part.get("text", "") for part in context["parts"] if part["kind"] != "history")


def test_a_proposal_stands_under_its_answer_and_is_answered_in_every_window_at_once(
    open_chat: OpenChat, new_person: Person, session: str, site_database: str
) -> None:
    say(new_person, session, FACT)
    run_with_models(site_database, PROPOSE.format(session=session))
    one, two = open_chat(new_person, session), open_chat(new_person, session)
    for chat in (one, two):
        expect(chat.finished_answers.first).to_contain_text("Remember this?")
        expect(chat.finished_answers.first).to_contain_text("our project is called Heron")
    one.finished_answers.first.get_by_role("button", name="Keep project", exact=True).click()
    for chat in (one, two):
        note = chat.finished_answers.first.get_by_text("Remembered: The project is called Heron.")
        expect(note).to_be_visible()
        expect(chat.page.get_by_text("Remember this?")).to_have_count(0)
    row = preference(two.show_details("Memory"), "project")
    expect(row).to_contain_text("The project is called Heron.")
    expect(row.get_by_role("link", name="Said in a conversation")).to_have_attribute(
        "href", f"/chat/{session}/#1"
    )
    one.page.reload()
    one.ask("demo: context")
    used = one.answers.last.get_by_text("Used in this answer: 1 thing that is remembered")
    used.click()
    one.answers.last.get_by_role("button", name="Disable project").click()
    expect(one.answers.last.get_by_role("button", name="Enable project")).to_be_visible()
    assert [each["status"] for each in preferences_of(new_person)] == ["disabled"]


def preferences_of(person: Person) -> list[Frame]:
    return list(person.call("GET", "preferences/")[1]["results"])


def test_a_command_forgets_what_its_words_fit(chat: Chat, new_person: Person) -> None:
    for text in ("/remember Answer me in French", "/remember tea: green", "/remember city: Łódź"):
        chat.send(text)
        expect(chat.notice).to_contain_text("Remembered:")
        expect(chat.box).to_have_value("")
    chat.send("/forget FRENCH answer")
    dialog = chat.page.get_by_role("dialog", name="Forget which of these?")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Forget").click()
    expect(chat.notice).to_contain_text("Forgotten: 1 of 1.")
    assert sorted(each["key"] for each in preferences_of(new_person)) == ["city", "tea"]
    chat.send("/forget nothing like that")
    expect(chat.notice).to_contain_text("Nothing that is remembered has the words")


def test_everything_that_is_remembered_goes_after_the_name_was_typed_and_a_receipt_says_so(
    chat: Chat, new_person: Person
) -> None:
    chat.send("/remember tea: green")
    expect(chat.notice).to_contain_text("Remembered: tea.")
    panel = chat.show_details("Memory")
    panel.get_by_role("button", name="Delete everything about me").click()
    dialog = chat.page.get_by_role("dialog", name="Delete everything about you?")
    action = dialog.get_by_role("button", name="Delete everything")
    dialog.get_by_role("textbox").fill("somebody else")
    expect(action).to_be_disabled()
    name = chat.page.locator(".person").inner_text()
    dialog.get_by_role("textbox").fill(name)
    action.click()
    receipt = chat.page.get_by_role("dialog", name="What was removed")
    expect(receipt).to_contain_text("Everything is gone.")
    expect(receipt).to_contain_text(re.compile(r"things that were remembered\s*1"))
    receipt.get_by_role("button", name="Close").click()
    assert preferences_of(new_person) == []
    panel.get_by_text("What was removed before").click()
    panel.get_by_role("button", name="What was remembered of you").first.click()
    expect(receipt).to_contain_text("Everything is gone.")


def test_a_temporary_chat_says_so_and_remembers_nothing(chat: Chat, new_person: Person) -> None:
    chat.send("/temporary")
    chat.page.get_by_role("button", name=re.compile("^Demo ?Scripted")).click()
    chat.wait_until_online()
    expect(chat.page.get_by_text(re.compile(r"Its text is gone \d+ hours after"))).to_be_visible()
    expect(chat.page.get_by_text("Temporary", exact=True).first).to_be_visible()
    session = chat.session_id
    chat.ask("Hello")
    expect(chat.page.get_by_text(re.compile(r"last message: .* as it stands"))).to_be_visible()
    assert new_person.call("GET", f"sessions/{session}/")[1]["is_temporary"] is True
    assert preferences_of(new_person) == []


def test_a_preference_without_a_text_is_refused_and_what_was_typed_stays(
    chat: Chat, console: ConsoleWatch
) -> None:
    console.allow("400")
    panel = chat.show_details("Memory")
    key = panel.get_by_label("What it is about")
    key.fill("city")
    panel.get_by_label("What to remember").fill("   ")
    panel.get_by_role("button", name="Remember").click()
    expect(panel.get_by_role("alert")).not_to_be_empty()
    expect(key).to_have_value("city")


def test_clearing_memory_draws_the_forget_line_and_nothing_above_is_sent(
    chat: Chat, new_person: Person, session: str
) -> None:
    chat.ask(FACT)
    assert "Heron" in chat.ask(QUESTION)
    chat.show_details("Memory").get_by_role("button", name="Clear memory").click()
    dialog = chat.page.get_by_role("dialog", name="Clear memory?")
    dialog.get_by_role("button", name="Clear memory").click()
    line = chat.messages.get_by_text("Memory was cleared here.")
    expect(line).to_be_visible()
    assert "Heron" not in chat.ask(QUESTION)
    panel = chat.show_details("What was sent")
    expect(panel).to_contain_text("Messages 1 to 4: before memory was cleared")
    chat.page.reload()
    expect(chat.finished_answers).to_have_count(3)
    assert (
        chat.messages.evaluate(
            """(region) => [...region.querySelectorAll("article, .divider-forget")]
          .findIndex((each) => each.matches(".divider-forget"))"""
        )
        == 4
    )  # between the fourth message and the fifth
    assert len(contents(new_person, session)) == 6


def test_clearing_memory_forgets_a_preference_from_here_when_it_is_ticked(
    chat: Chat, new_person: Person
) -> None:
    chat.send("/remember tea: green")
    expect(chat.notice).to_contain_text("Remembered: tea.")
    chat.ask("Hello")
    chat.show_details("Memory").get_by_role("button", name="Clear memory").click()
    dialog = chat.page.get_by_role("dialog", name="Clear memory?")
    dialog.get_by_label("tea: green").check()
    dialog.get_by_role("button", name="Clear memory").click()
    expect(chat.notice).to_contain_text("Memory was cleared.")
    assert new_person.call("GET", "preferences/")[1]["results"] == []


def test_memory_switched_off_sends_a_message_alone_and_switched_on_sends_all_again(
    chat: Chat, new_person: Person, session: str
) -> None:
    say(new_person, session, FACT)
    expect(chat.finished_answers).to_have_count(1)
    switch = chat.show_details("Memory").get_by_role("switch", name="Send earlier messages along")
    switch.uncheck()
    expect(chat.page.get_by_text("Memory off", exact=True)).to_be_visible()
    assert "Heron" not in chat.ask(QUESTION)
    chat.page.reload()
    chat.wait_until_online()
    expect(chat.page.get_by_text("Memory off", exact=True)).to_be_visible()
    switch = chat.show_details("Memory").get_by_role("switch", name="Send earlier messages along")
    expect(switch).not_to_be_checked()
    switch.check()
    expect(chat.page.get_by_text("Memory off", exact=True)).to_be_hidden()
    assert "Heron" in chat.ask(QUESTION)


def test_the_details_show_every_part_that_was_sent_and_what_was_left_out(
    open_chat: OpenChat, new_person: Person
) -> None:
    session = new_person.new_session(assistant="demo-brief")
    for number in range(3):
        say(new_person, session, f"Message {number}")
    chat = open_chat(new_person, session)
    chat.ask("The newest one")
    expect(chat.messages.get_by_text("The model was sent what follows.")).to_be_visible()
    chat.answers.last.get_by_role("button", name="What was sent").click()
    panel = chat.page.get_by_role("tabpanel", name="What was sent")
    expect(panel).to_contain_text(re.compile(r"2 of 6 messages, [\d,]+ of [\d,]+ tokens"))
    kinds = panel.locator(".part-name").all_inner_texts()
    assert [" ".join(kind.split()) for kind in kinds] == [
        "Instructions of the assistant",
        "Earlier message 5, you",
        "Earlier message 6, assistant",
        "Your message",
    ]
    panel.get_by_text("Your message", exact=True).click()
    expect(panel.get_by_text("The newest one")).to_be_visible()
    expect(panel).to_contain_text("Messages 1 to 4: beyond the number of messages")
    expect(panel).to_contain_text("proven to be exactly what was sent")
