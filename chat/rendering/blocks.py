"""Finished blocks of a text that is still being written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it.token import Token

from chat.rendering.document import MAX_MARKDOWN_CHARS, Env, parser, render_tokens
from chat.rendering.plain import printable

_NEWLINE = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class Block:
    """HTML for the text from `from_` to `through` (exclusive), in Unicode code points."""

    from_: int
    through: int
    html: str


class BlockStream:
    """Renders each top-level markdown block of a growing text once nothing can change it.

    The ranges of the blocks follow each other without a gap, from 0 on. Only complete lines are
    parsed, and again only when the unfinished part has grown by a tenth, so the cost stays linear.
    What a later link definition changes is left to the rendering of the whole.
    """

    def __init__(self) -> None:
        self._done = 0
        self._env: Env = {}
        self._seen = 0  # length of the text at the last call
        self._line_end = 0  # end of the last complete line
        self._parsed = 0  # length of the unfinished lines when they were last parsed

    def feed(self, text_so_far: str) -> list[Block]:
        """The blocks that are finished now and were not before; the whole text so far is given."""
        if len(text_so_far) < self._seen:
            raise ValueError(f"the text shrank from {self._seen} to {len(text_so_far)} characters")
        newline = text_so_far.rfind("\n", self._seen)
        self._seen = len(text_so_far)
        if newline >= 0:
            self._line_end = newline + 1
        unfinished = self._line_end - self._done
        if unfinished <= self._parsed * 1.1 or self._seen > MAX_MARKDOWN_CHARS:
            return []
        blocks = self._finish(text_so_far[self._done : self._line_end])
        self._parsed = self._line_end - self._done
        return blocks

    def _finish(self, lines: str) -> list[Block]:
        count = _settled_lines(printable(lines), self._env)
        if count == 0:
            return []
        starts = [0, *(match.end() for match in _NEWLINE.finditer(lines))]
        tokens = parser().parse(printable(lines[: starts[count]]), self._env)
        blocks = []
        begin = self._done
        for group in _top_level(tokens):
            end = self._done + starts[_lines_of(group[0])[1]]
            blocks.append(Block(begin, end, render_tokens(group, self._env)))
            begin = end
        self._done = begin
        return blocks


def _settled_lines(lines: str, env: Env) -> int:
    """How many of the lines belong to blocks that no further text can change."""
    tokens: list[Token] = []
    markdown = parser()
    source = _NEWLINE.sub("\n", lines)
    markdown.block.parse(source, markdown, _copy(env), tokens)
    blocks = [group[0] for group in _top_level(tokens)]
    settled = 0
    rows = source.split("\n")[:-1]
    may_open = _first_line_of_open_math(rows)
    for block, _following in pairwise(blocks):
        _first, end = _lines_of(block)
        if end > may_open and block.type != "math_block":
            break
        settled = end
    return settled


def _first_line_of_open_math(rows: Sequence[str]) -> int:
    """The first line from which a $$ may still be waiting for its end.

    Only a blank line ends the search for it, and it is not held back by the end of a list item.
    """
    first = len(rows)
    for number in range(len(rows) - 1, -1, -1):
        if not rows[number].strip():
            break
        if "$$" in rows[number]:
            first = number
    return first


def _top_level(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The tokens of each top-level block."""
    groups = []
    begin = 0
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            groups.append(tokens[begin : index + 1])
            begin = index + 1
    return groups


def _lines_of(token: Token) -> tuple[int, int]:
    if token.map is None:
        raise ValueError(f"a top-level block without its lines: {token.type}")
    return token.map[0], token.map[1]


def _copy(env: Env) -> Env:
    """An environment that a trial parse may add its unfinished link definitions to."""
    return {
        **env,
        "references": dict(env.get("references", {})),
        "duplicate_refs": list(env.get("duplicate_refs", [])),
    }
