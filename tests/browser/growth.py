"""Watches an answer grow: every state that was on the screen is the beginning of the whole."""

from __future__ import annotations

from itertools import pairwise

from playwright.sync_api import Page

# Blocks and the unfinished text as words; what is said while waiting is not of the answer.
RECORDER = """
window.grown = [];
new MutationObserver(() => {
  const body = [...document.querySelectorAll("#messages .message-assistant .body")].at(-1);
  if (!body) return;
  const parts = [...body.childNodes].filter((part) => !part.matches?.(".waiting"));
  const words = parts.map((part) => part.textContent).join(" ").split(/\\s+/).filter(Boolean);
  const text = words.join(" ");
  if (text !== window.grown.at(-1)) window.grown.push(text);
}).observe(document, { childList: true, characterData: true, subtree: true });
"""
WORDS_IN_PARAGRAPH = 12


def record(page: Page) -> None:
    """Record in this window from the next page load on."""
    page.add_init_script(RECORDER)


def states(page: Page) -> list[str]:
    return list(page.evaluate("window.grown"))


def numbered(count: int) -> str:
    """A text in which a missing or doubled piece is seen: paragraphs of numbered words."""
    words = [f"😄{n}" if n % 10 == 0 else f"n{n}" for n in range(1, count + 1)]
    starts = range(0, count, WORDS_IN_PARAGRAPH)
    return "\n\n".join(" ".join(words[at : at + WORDS_IN_PARAGRAPH]) for at in starts)


def slowly(text: str, ms: int = 10) -> str:
    """A message that the demo model answers with `text`, `ms` milliseconds a word."""
    return f"demo: echo; slow {ms}\n{text}"


def assert_grew_to(page: Page, text: str) -> None:
    """What this window showed was always the beginning of `text`, and in the end all of it."""
    whole = " ".join(text.split())
    seen = states(page)
    assert seen[-1] == whole
    for earlier, later in pairwise(seen):
        assert whole.startswith(later), f"the window showed {later[-80:]!r}"
        assert len(earlier) <= len(later), f"{later[-80:]!r} came after {earlier[-80:]!r}"
