"""Images in the page: pasted, dropped, chosen, removed, sent, and there after a reload."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat, OpenPage
from tests.browser.console import ConsoleWatch
from tests.builders import png
from tests.clients import Person

NAME = "red square 猫.png"
GIVE = """(target, [kind, files, text]) => {
  const data = new DataTransfer();
  for (const [name, type, base64] of files) {
    const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
    data.items.add(new File([bytes], name, { type }));
  }
  if (text) data.setData("text/plain", text);
  const init = { bubbles: true, cancelable: true };
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { ...init, clipboardData: data })
    : new DragEvent("drop", { ...init, dataTransfer: data });
  target.dispatchEvent(event);
}"""


def give(chat: Chat, kind: str, *files: tuple[str, bytes, str], text: str = "") -> None:
    """Paste or drop files of a name, a content and a type."""
    listed = [[name, type_, base64.b64encode(data).decode()] for name, data, type_ in files]
    chat.box.evaluate(GIVE, [kind, listed, text])


def paste(chat: Chat, name: str = NAME, data: bytes = b"", type_: str = "image/png") -> None:
    give(chat, "paste", (name, data or png(64, 48), type_))


def tray(chat: Chat) -> Any:
    return chat.page.get_by_role("list", name="Images to send").get_by_role("listitem")


def expect_ready(chat: Chat, count: int) -> None:
    expect(tray(chat)).to_have_count(count)
    expect(chat.page.locator("#attachments [aria-busy]")).to_have_count(0)


def expect_shown(page: Page, image: Any) -> None:
    """The image is there and has really been loaded."""
    expect(image).to_be_visible()
    page.wait_for_function(
        "(each) => each.complete && each.naturalWidth > 0", arg=image.element_handle()
    )


@pytest.fixture
def session(alice: Person) -> str:
    return alice.new_session(assistant="demo")


@pytest.fixture
def chat(open_chat: OpenChat, alice: Person, session: str) -> Chat:
    return open_chat(alice, session)


def test_a_pasted_image_is_sent_and_shown_also_after_a_reload(chat: Chat) -> None:
    paste(chat)
    expect_ready(chat, 1)
    expect(chat.box).to_have_value("")
    answer = chat.ask("What is this?")
    assert "I received 1 image. I am a scripted demo model and cannot see" in answer
    expect(tray(chat)).to_have_count(0)
    for _ in range(2):
        image = chat.questions.first.get_by_role("img", name=NAME)
        expect_shown(chat.page, image)
        assert image.evaluate("each => [each.naturalWidth, each.naturalHeight]") == [64, 48]
        assert image.evaluate("each => new URL(each.src).origin === location.origin")
        chat.page.reload()
        chat.wait_until_online()
    panel = chat.show_details("What was sent")
    expect(panel.get_by_text("with 1 image")).to_be_visible()
    expect(panel.get_by_text("proven to be exactly what was sent")).to_be_visible()


def test_an_image_goes_without_a_word_and_with_the_keyboard_alone(chat: Chat) -> None:
    expect(chat.send_button).to_be_disabled()
    button = chat.page.get_by_role("button", name="Attach images")
    with chat.page.expect_file_chooser() as chosen:
        button.press("Enter")
    files: list[FilePayload] = [
        {"name": name, "mimeType": "image/png", "buffer": png(color=color)}
        for color, name in enumerate(("one.png", "two.png"))
    ]
    chosen.value.set_files(files)
    expect_ready(chat, 2)
    chat.page.get_by_role("button", name="Remove one.png").focus()
    chat.page.keyboard.press("Enter")
    expect_ready(chat, 1)
    expect(chat.box).to_be_focused()
    chat.page.keyboard.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    expect(chat.questions.first.get_by_role("img")).to_have_accessible_name("two.png")
    expect(chat.questions.first.locator(".body")).to_be_hidden()


def test_dropped_images_join_and_what_is_none_is_refused_in_words(
    chat: Chat, console: ConsoleWatch
) -> None:
    give(chat, "drop", ("a.png", png(), "image/png"), ("b.pdf", b"%PDF", "application/pdf"))
    expect_ready(chat, 1)
    expect(chat.notice).to_have_text(
        "b.pdf is not attached: only PNG, JPEG, GIF and WebP images can be."
    )
    paste(chat, "big.png", b"\x00" * 5_300_000)
    expect(chat.notice).to_have_text(
        "big.png is not attached: it has 5,300,000 bytes, 5,242,880 are allowed."
    )
    console.allow("415")
    paste(chat, "page.png", b"<!doctype html>")
    expect(chat.notice).to_contain_text("page.png is not attached: Only PNG, JPEG, GIF and WebP")
    for number in range(4):
        paste(chat, f"{number}.png")
    expect(chat.notice).to_have_text("A message takes 4 images at most.")
    expect_ready(chat, 4)


def test_a_text_that_is_copied_with_its_picture_is_pasted_as_text(chat: Chat) -> None:
    give(chat, "paste", ("cells.png", png(), "image/png"), text="1\t2")
    expect(tray(chat)).to_have_count(0)


def test_images_wait_for_their_own_conversation_and_survive_a_reload(
    chat: Chat, alice: Person
) -> None:
    other = alice.new_session(assistant="demo")
    paste(chat)
    expect_ready(chat, 1)
    chat.page.reload()
    chat.wait_until_online()
    expect_ready(chat, 1)
    expect_shown(chat.page, tray(chat).locator("img"))
    first = chat.session_id
    chat.open(other)
    expect(tray(chat)).to_have_count(0)
    chat.open(first)
    assert "I received 1 image" in chat.ask("And now?")


def test_a_refused_message_comes_back_with_its_images(chat: Chat, console: ConsoleWatch) -> None:
    console.allow("404")  # the preview of an image that is gone
    paste(chat)
    expect_ready(chat, 1)
    chat.page.evaluate(
        """async () => {
          const token = document.querySelector("input[name=csrfmiddlewaretoken]").value;
          const kept = Object.keys(localStorage).find((key) => key.includes("images:"));
          const [{ id }] = JSON.parse(localStorage.getItem(kept));
          await fetch(`/api/v1/attachments/${id}/`,
                      { method: "DELETE", headers: { "X-CSRFToken": token } });
        }"""
    )
    chat.send("Look")
    expect(chat.notice).to_contain_text("There is no unsent attachment")
    expect(chat.box).to_have_value("Look")
    expect(tray(chat)).to_have_count(1)
    expect(chat.questions).to_have_count(0)


def test_the_start_page_makes_a_conversation_for_an_image(
    open_page: OpenPage, new_person: Person
) -> None:
    chat = Chat(open_page(new_person))
    chat.page.goto("/")
    chat.write("half a thought")
    paste(chat)
    chat.page.wait_for_url(re.compile(r"/chat/[0-9a-f-]{36}/"))
    expect_ready(chat, 1)
    expect(chat.box).to_have_value("half a thought")


def test_images_fit_into_a_narrow_window(open_chat: OpenChat, alice: Person, session: str) -> None:
    chat = open_chat(alice, session, viewport={"width": 390, "height": 800})
    for color in range(3):
        paste(chat, f"{'long-name-' * 12}{color}.png", png(2000, 30, color))
    expect_ready(chat, 3)
    widths = "() => [document.documentElement.scrollWidth, innerWidth]"
    assert chat.page.evaluate(widths) == [390, 390]
    chat.ask("Three of them")
    expect_shown(chat.page, chat.questions.first.get_by_role("img").first)
    assert chat.page.evaluate(widths) == [390, 390]
