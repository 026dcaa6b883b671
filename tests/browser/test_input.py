"""The message box: what Enter means, what is pasted, and no text that is ever lost."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat, body, contents, say
from tests.browser.conftest import OpenChat, OpenPage
from tests.clients import Person

ENTER = {"key": "Enter", "bubbles": True, "cancelable": True}
IME_KEY = 229
A_MOUSE_IS_THERE = """
const match = window.matchMedia;
window.matchMedia = (query) =>
  query.includes("any-pointer: fine") ? { matches: true } : match(query);
"""
INDENTED = '{\n    "deep": {\n\t"tab": [1,\n\n  2]\n    }\n}'


@pytest.fixture
def session(alice: Person) -> str:
    return alice.new_session()


@pytest.fixture
def chat(open_chat: OpenChat, alice: Person, session: str) -> Chat:
    return open_chat(alice, session)


def compose(chat: Chat, *events: tuple[str, dict[str, object]]) -> None:
    """Dispatch composition and key events in the message box, as input methods do."""
    chat.box.evaluate(
        """(box, events) => {
          for (const [type, init] of events) {
            const isKey = type.startsWith("key");
            const Kind = isKey ? KeyboardEvent : CompositionEvent;
            box.dispatchEvent(new Kind(type, { bubbles: true, cancelable: true, ...init }));
          }
        }""",
        [list(event) for event in events],
    )


def test_enter_that_confirms_a_candidate_does_not_send_and_the_next_one_sends_once(
    chat: Chat, alice: Person, session: str
) -> None:
    chat.write("你好")
    compose(
        chat,
        ("compositionstart", {}),
        ("keydown", {**ENTER, "isComposing": True, "keyCode": IME_KEY}),
        ("compositionend", {"data": "你好"}),
        ("keydown", {"key": "Alt"}),
        ("keyup", {"key": "Alt"}),
    )
    expect(chat.box).to_have_value("你好")
    expect(chat.questions).to_have_count(0)
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    assert contents(alice, session)[::2] == ["你好"]


def test_enter_in_safaris_order_does_not_send(chat: Chat, alice: Person, session: str) -> None:
    chat.write("こんにちは")
    compose(
        chat,
        ("compositionstart", {}),
        ("compositionend", {"data": "こんにちは"}),
        ("keydown", {**ENTER, "keyCode": IME_KEY}),
    )
    expect(chat.box).to_have_value("こんにちは")
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    assert contents(alice, session)[::2] == ["こんにちは"]


def test_a_composition_that_never_ends_does_not_freeze_the_box(
    chat: Chat, alice: Person, session: str
) -> None:
    compose(chat, ("compositionstart", {}))
    chat.box.blur()
    chat.box.press_sequentially("Latin")
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    assert contents(alice, session)[::2] == ["Latin"]


def test_enter_that_confirms_a_candidate_does_not_end_a_renaming(
    chat: Chat, alice: Person, session: str
) -> None:
    row = chat.sessions.locator(f'li[data-id="{session}"]')
    row.hover()
    row.get_by_role("button", name="Options of").click()
    row.get_by_role("menuitem", name="Rename").click()
    field = chat.page.get_by_role("textbox", name="Name of the conversation")
    field.fill("新名字")
    field.dispatch_event("keydown", {**ENTER, "isComposing": True})
    expect(field).to_be_focused()
    field.press("Enter")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("新名字")
    assert alice.call("GET", f"sessions/{session}/")[1]["title"] == "新名字"


def test_enter_on_a_soft_keyboard_begins_a_new_line(
    open_chat: OpenChat, alice: Person, session: str
) -> None:
    chat = open_chat(alice, session, has_touch=True, is_mobile=True)
    chat.write("one")
    chat.box.press("Enter")
    chat.box.press_sequentially("two")
    expect(chat.box).to_have_value("one\ntwo")
    chat.send_button.tap()
    expect(chat.finished_answers).to_have_count(1)
    assert contents(alice, session)[0] == "one\ntwo"


def test_enter_on_a_touch_laptop_with_a_keyboard_sends(
    open_page: OpenPage, alice: Person, session: str
) -> None:
    page = open_page(alice, has_touch=True)
    page.add_init_script(A_MOUSE_IS_THERE)
    chat = Chat(page)
    chat.open(session)
    chat.send("one")
    expect(chat.finished_answers).to_have_count(1)


def paste(page: Page, **types: str) -> None:
    """Put a text on the clipboard in these forms, and press the keys that paste."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(
        """(forms) => navigator.clipboard.write([new ClipboardItem(Object.fromEntries(
          Object.entries(forms).map(([form, text]) =>
            [`text/${form}`, new Blob([text], { type: `text/${form}` })])))])""",
        types,
    )
    page.keyboard.press("Control+V")


def test_what_is_pasted_comes_once_and_as_it_is(chat: Chat, alice: Person, session: str) -> None:
    chat.box.focus()
    for forms in (
        {"plain": INDENTED},
        {"plain": INDENTED, "html": f"<pre><b>{INDENTED}</b></pre>"},
    ):
        chat.write("")
        paste(chat.page, **forms)
        expect(chat.box).to_have_value(INDENTED)
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    assert contents(alice, session)[0] == INDENTED
    assert body(chat.questions.first).inner_text() == INDENTED


def test_what_was_copied_as_html_alone_is_pasted_as_text(chat: Chat) -> None:
    chat.box.focus()
    paste(chat.page, html="<p>From a <i>document</i></p><p>second<br>third</p><script>x</script>")
    expect(chat.box).to_have_value("From a document\nsecond\nthird")


def test_copying_an_answer_gives_its_source(open_chat: OpenChat, alice: Person) -> None:
    session = alice.new_session()
    source = "## Head\n\n- **bold**\n\n```python\nif x:\n    y()\n```"
    say(alice, session, f"demo: echo\n{source}")
    chat = open_chat(alice, session)
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.answers.first.hover()
    chat.answers.first.get_by_role("button", name="Copy", exact=True).click()
    expect(chat.answers.first.get_by_role("button", name="Copied")).to_be_visible()
    assert chat.page.evaluate("navigator.clipboard.readText()") == source
    chat.answers.first.get_by_role("button", name="Copy the code (python)").click()
    chat.page.wait_for_function(
        "async () => (await navigator.clipboard.readText()).trim() === 'if x:\\n    y()'"
    )


# --- Too long -------------------------------------------------------------------------------------


def test_a_text_over_the_limit_is_refused_with_numbers_and_stays(
    chat: Chat, alice: Person, session: str
) -> None:
    """200,000 characters at the default, counted as a person counts: an emoji is one."""
    for piece, count in (("中", 200_001), ("😄", 200_001), ("a", 1_048_576)):
        chat.box.evaluate(
            """(box, [piece, count]) => {
              box.value = piece.repeat(count);
              box.dispatchEvent(new Event("input", { bubbles: true }));
            }""",
            [piece, count],
        )
        said = f"Too long to send: {count:,} characters, 200,000 are allowed."
        expect(chat.notice).to_have_text(said)
        expect(chat.send_button).to_be_disabled()
        chat.box.press("Enter")
        assert chat.box.evaluate("(box) => [...box.value].length") == count
    assert contents(alice, session) == []


def test_a_text_of_too_many_tokens_is_refused_by_the_server_with_numbers_and_comes_back(
    chat: Chat, alice: Person, session: str
) -> None:
    text = "青云直上九重天" * 10_000
    chat.send(text)
    expect(chat.notice).to_contain_text("tokens")
    expect(chat.box).to_have_value(text)
    expect(chat.questions).to_have_count(0)
    assert contents(alice, session) == []
    chat.write("short again")
    expect(chat.notice).to_have_text("")
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)


# --- Drafts and commands --------------------------------------------------------------------------


def test_a_draft_survives_a_reload_and_goes_when_it_is_sent(chat: Chat) -> None:
    chat.write("half a sentence")
    chat.page.reload()
    expect(chat.box).to_have_value("half a sentence")
    chat.wait_until_online()
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    chat.page.reload()
    expect(chat.finished_answers).to_have_count(1)
    expect(chat.box).to_have_value("")


def test_signing_out_leaves_no_draft_behind(open_page: OpenPage, new_person: Person) -> None:
    page = open_page(new_person)
    chat = Chat(page)
    chat.open(new_person.new_session())
    chat.write("for nobody else")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "for nobody else" not in page.evaluate("JSON.stringify(localStorage)")


def test_a_slash_offers_the_commands_and_the_keyboard_chooses_one(chat: Chat) -> None:
    chat.box.press_sequentially("/")
    options = chat.page.get_by_role("listbox", name="Commands").get_by_role("option")
    expect(options.first).to_contain_text("/remember text")
    chat.box.press("Enter")
    expect(chat.box).to_have_value("/remember ")
    expect(options).to_have_count(0)
    expect(chat.questions).to_have_count(0)


def test_a_whole_command_is_run_by_enter(chat: Chat) -> None:
    chat.box.press_sequentially("/new")
    chat.box.press("Enter")
    expect(chat.page.get_by_role("heading", name="Whom would you like to talk to?")).to_be_visible()
    expect(chat.questions).to_have_count(0)


def test_a_command_in_a_bad_form_is_explained_and_stays_in_the_box(
    chat: Chat, alice: Person, session: str
) -> None:
    how = "Write it like this: /remember answer me in French"
    for text, why in (
        ("/remember ", how),
        ("/remember : tea", how),
        ("/remember tea: ", how),
        ("/new chat", "/new stands alone"),
        ("/temporary chat", "/temporary stands alone"),
        ("/forget ", "Say what: /forget"),
    ):
        chat.send(text)
        expect(chat.notice).to_contain_text(why)
        expect(chat.box).to_have_value(text)
    assert contents(alice, session) == []
