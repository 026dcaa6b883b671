"""Hostile and odd text, from people, models, titles and preferences: inert, and shown as it is."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Dialog, Page, Request, expect

from tests.browser import growth
from tests.browser.chat import Chat, body, contents, say
from tests.browser.conftest import OpenChat, OpenPage
from tests.browser.wire import wire_to
from tests.clients import Person
from tests.servers import Server

# What would run, load or leave, if any of it were taken for HTML (rows 60 to 66 of the bug reports
# in docs/cases.md).
PAYLOADS = {
    "a fenced page with an inline handler": (
        "```html\n<body onload=\"alert('60')\"><script>alert('60')</script></body>\n```"
    ),
    "an image with onerror": '<img src=x onerror="alert(61)"><img src=//evil.test/61.png>',
    "an svg with onload": '<svg onload="alert(61)"><image href="//evil.test/61.svg"/></svg>',
    "a foreignObject": (
        "<svg><foreignObject><iframe srcdoc='<script>alert(61)</script>'></iframe>"
        "</foreignObject></svg>"
    ),
    "a mermaid label": '```mermaid\ngraph TD; A["<img src=x onerror=alert(62)>"] --> B\n```',
    "a markdown image and links": (
        "![62](https://evil.test/62.png) [one](javascript:alert(62)) [two](data:text/html,62)"
        " <https://evil.test/62>"
    ),
    "a style and a form": (
        "<style>@import '//evil.test/63.css'</style><form action=//evil.test><input name=a></form>"
        '<a href="//evil.test" ping="//evil.test/ping">x</a><meta http-equiv=refresh content=0>'
    ),
    "summary tags": "/// <summary>\n/// Adds <c>a</c> & &amp; b\n/// </summary>",
    "details and xml": "<details><summary>more</summary><x:y z='1'/></details><![CDATA[ & ]]>",
    "a closing script": "</script><script>alert(64)</script>{{ 7 }}${7}<%= 7 %>",
}
FORBIDDEN = "script, style, img, image, iframe, object, embed, form, input, meta, link, base, audio"


class Outside:
    """Dialogs that opened and requests that left for another host."""

    def __init__(self, page: Page) -> None:
        self.events: list[str] = []
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)

    def _on_dialog(self, dialog: Dialog) -> None:
        self.events.append(dialog.message)
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if urlsplit(request.url).hostname not in {"127.0.0.1", None}:
            self.events.append(request.url)


def shown_elements(chat: Chat) -> list[str]:
    """Elements in messages that no text may bring, and attributes that run or load something."""
    return list(
        chat.messages.evaluate(
            """(region, forbidden) => [...region.querySelectorAll(".body *")]
              .filter((each) => each.matches(forbidden) ||
                [...each.attributes].some(({ name, value }) =>
                  name.startsWith("on") || name === "style" || name === "src" ||
                  /^\\s*(javascript|data|vbscript):/i.test(value)))
              .map((each) => each.outerHTML)""",
            FORBIDDEN,
        )
    )


@pytest.fixture
def hostile(alice: Person) -> str:
    """A session in which every payload was said by a person and echoed by the model."""
    session = alice.new_session()
    for payload in PAYLOADS.values():
        say(alice, session, f"demo: echo\n{payload}")
    return session


def test_hostile_text_of_a_person_and_a_model_is_inert_and_shown_as_it_is(
    open_chat: OpenChat, alice: Person, hostile: str
) -> None:
    chat = open_chat(alice, alice.new_session())
    outside = Outside(chat.page)
    chat.open(hostile)
    expect(chat.finished_answers).to_have_count(len(PAYLOADS))
    for index, payload in enumerate(PAYLOADS.values()):
        said = body(chat.questions.nth(index)).locator(".plain").text_content()
        assert said == f"demo: echo\n{payload}"
    answers = dict(zip(PAYLOADS, chat.answer_texts(), strict=True))
    for name in (
        "an image with onerror",
        "an svg with onload",
        "a style and a form",
        "a closing script",
    ):
        assert answers[name] == PAYLOADS[name]
    # In markdown a line break is a blank, and an entity the character that it names.
    assert answers["summary tags"] == "/// <summary> /// Adds <c>a</c> & & b /// </summary>"
    for name in ("a fenced page with an inline handler", "a mermaid label"):
        source = PAYLOADS[name].split("\n")[1]
        assert source in answers[name]
    assert shown_elements(chat) == []
    assert outside.events == []


def test_hostile_text_is_inert_while_it_streams_in(open_chat: OpenChat, alice: Person) -> None:
    text = "\n\n".join(PAYLOADS.values())
    session = alice.new_session()
    chat = open_chat(alice, session)
    outside = Outside(chat.page)
    chat.send(growth.slowly(text, ms=8))
    expect(chat.live_answer.locator("p").first).to_be_visible()  # a finished block, half-way
    assert shown_elements(chat) == []
    expect(chat.finished_answers).to_have_count(1)
    assert shown_elements(chat) == []
    assert outside.events == []
    assert contents(alice, session) == [growth.slowly(text, ms=8), text]


def test_a_hostile_title_and_preference_are_shown_as_text(
    open_page: OpenPage, new_person: Person
) -> None:
    title, text = "<img src=x onerror=alert(1)>", "</script><svg onload=alert(2)>"
    session = new_person.new_session(title=title)
    new_person.call("POST", "preferences/", {"key": title, "text": text})
    page = open_page(new_person)
    outside = Outside(page)
    chat = Chat(page)
    chat.open(session)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(chat.sessions.get_by_role("link", name=title)).to_be_visible()
    expect(page).to_have_title(f"{title} · Chat")
    panel = chat.show_details("Memory")
    expect(panel.get_by_role("listitem")).to_contain_text(text)
    chat.ask("Hello")
    expect(chat.show_details("What was sent").locator("bdi", has_text=title)).to_be_visible()
    chat.show_details("Memory").get_by_role("button", name=f"Delete {title}").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"{title}: {text}")
    assert outside.events == []


def test_prices_are_text_and_two_dollars_are_math(open_chat: OpenChat, alice: Person) -> None:
    prices = "costs **$1.50** to $6; R$ 12,29 and $5 … $6"
    session = alice.new_session()
    say(alice, session, f"demo: echo\n{prices}")
    say(alice, session, "demo: echo\nSo $$x^2$$ and\n\n$$\n\\frac{a}{b}\n$$")
    chat = open_chat(alice, session)
    first, second = body(chat.answers.nth(0)), body(chat.answers.nth(1))
    expect(first).to_have_text(prices.replace("**", ""))
    expect(first.locator("math")).to_have_count(0)
    expect(first.locator("strong")).to_have_text("$1.50")
    expect(second.locator("math")).to_have_count(2)


def test_nul_and_half_a_surrogate_are_cleaned_with_a_notice(
    open_chat: OpenChat, alice: Person
) -> None:
    session = alice.new_session()
    chat = open_chat(alice, session)
    chat.box.evaluate(
        """(box) => {
          box.value = "demo: echo\\na\\u0000b \\ud800 c😄";
          box.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    chat.box.press("Enter")
    expect(chat.finished_answers).to_have_count(1)
    expect(chat.notice).not_to_be_empty()
    assert contents(alice, session) == ["demo: echo\nab \ufffd c😄", "ab \ufffd c😄"]
    assert chat.question_texts() == ["demo: echo\nab \ufffd c😄"]
    assert chat.answer_texts() == ["ab \ufffd c😄"]


def test_frames_over_64_kb_in_odd_pieces_arrive_whole(
    open_page: OpenPage, alice: Person, site: Server
) -> None:
    rows = "".join(f"{n:04d}{' ' * 70}😄\n" for n in range(600))
    text = f"```\n{rows}```"
    session = alice.new_session()
    with wire_to(site.port, piece=1_021) as wire:
        page = open_page(alice, base_url=wire.url)
        sizes = received_sizes(page)
        chat = Chat(page)
        chat.open(session)
        chat.send(f"demo: echo\n{text}")
        expect(chat.finished_answers).to_have_count(1)
        assert max(sizes) > 65_536
        assert body(chat.answers.first).locator("code").text_content() == rows
        said = body(chat.questions.first).locator(".plain").text_content()
        assert said == f"demo: echo\n{text}"
    assert contents(alice, session)[1] == text


def received_sizes(page: Page) -> list[int]:
    """The bytes of each frame that this window's websockets receive, as they come in."""
    sizes: list[int] = []

    def note(frame: str | bytes) -> None:
        sizes.append(len(frame.encode() if isinstance(frame, str) else frame))

    page.on("websocket", lambda socket: socket.on("framereceived", note))
    return sizes


def test_a_long_message_is_folded_and_unfolds(open_chat: OpenChat, alice: Person) -> None:
    session = alice.new_session()
    say(alice, session, "line\n" * 200 + "the end")
    chat = open_chat(alice, session)
    expect(body(chat.questions.first)).to_have_attribute("data-folded", "")
    chat.questions.first.get_by_role("button", name="Show all of it").click()
    expect(body(chat.questions.first)).not_to_have_attribute("data-folded", "")
    expect(chat.questions.first.get_by_role("button", name="Show all of it")).to_have_count(0)
