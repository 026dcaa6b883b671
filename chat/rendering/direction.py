"""Writing directions: each block of text has its own."""

import unicodedata

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_CONTAINERS = frozenset(("blockquote_open", "bullet_list_open", "ordered_list_open", "table_open"))
_LEAVES = frozenset(("paragraph_open", "heading_open", "td_open", "th_open"))
_LOOK_AT = 1_000


def set_directions(state: StateCore) -> None:
    """Core rule: `dir` on every block.

    `auto` looks at text that has no `dir` of its own, so a container of such blocks would always
    come out left to right: its direction is taken from its first strong character here. A list item
    has the direction of its list, since its marker stands on that side.
    """
    waiting: list[tuple[int, Token]] = []  # containers that have met no strong character yet
    for token in state.tokens:
        if token.type in _LEAVES:
            token.attrSet("dir", "auto")
        elif token.type in _CONTAINERS:
            token.attrSet("dir", "auto")
            waiting.append((token.level, token))
        elif token.nesting == -1:
            while waiting and waiting[-1][0] >= token.level:
                waiting.pop()
        elif token.type == "inline" and waiting:
            _settle(waiting, first_strong_direction(token.content[:_LOOK_AT]))


def _settle(waiting: list[tuple[int, Token]], direction: str | None) -> None:
    """Give the waiting containers the direction that was found, if one was."""
    if direction == "rtl":
        for _level, container in waiting:
            container.attrSet("dir", "rtl")
    if direction is not None:
        waiting.clear()


def first_strong_direction(text: str) -> str | None:
    """`ltr`, `rtl`, or None for text without a letter."""
    for character in text:
        bidirectional = unicodedata.bidirectional(character)
        if bidirectional == "L":
            return "ltr"
        if bidirectional in ("R", "AL"):
            return "rtl"
    return None
