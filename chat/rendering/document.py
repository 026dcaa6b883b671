"""The markdown dialect and how a whole document is rendered."""

import html
import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from mdit_py_plugins.dollarmath import dollarmath_plugin

from chat.rendering.code import render_code
from chat.rendering.direction import set_directions
from chat.rendering.mathml import render_math
from chat.rendering.plain import printable, render_plain
from chat.rendering.sanitise import is_allowed_url, sanitise

# Raised when the same text would give other HTML.
RENDERER_VERSION = 1
# Longer texts are shown as they are: rendering takes up to 15 microseconds a character.
MAX_MARKDOWN_CHARS = 200_000

# An opening $$ is looked for its end line by line; this many may be looked for in vain.
_MAX_UNCLOSED_MATH = 50
# "$6; R$": a number and what follows a price, with nothing that calculates.
_PRICE = re.compile(r"\d[\d.,]*[\s;,:)][^\\^_=+*/<>{}|-]*")
# The page's own headings come first: h1 is the conversation, h2 a message.
_HEADING_SHIFT = 2

Env = MutableMapping[str, Any]


def render(text: str) -> str:
    """Sanitised HTML of a whole message in markdown (CommonMark, tables, strikethrough, math)."""
    if len(text) > MAX_MARKDOWN_CHARS:
        return render_plain(text)
    env: Env = {}
    return render_tokens(parser().parse(printable(text), env), env)


def render_tokens(tokens: Sequence[Token], env: Env) -> str:
    """Sanitised HTML of parsed blocks."""
    markdown = parser()
    return sanitise(markdown.renderer.render(tokens, markdown.options, env))


@cache
def parser() -> MarkdownIt:
    """The one parser; it keeps no state between documents."""
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": False, "xhtmlOut": False})
    markdown.enable(["table", "strikethrough"])
    markdown.use(
        dollarmath_plugin,
        allow_labels=False,
        allow_space=False,
        allow_digits=False,
        allow_blank_lines=False,
        double_inline=True,
    )
    _bound_unclosed_math(markdown)
    _leave_prices(markdown)
    markdown.validateLink = is_allowed_url  # type: ignore[method-assign]
    markdown.core.ruler.push("images_to_links", _images_to_links)
    markdown.core.ruler.push("own_attributes", _own_attributes)
    markdown.core.ruler.push("directions", set_directions)
    for name, rule in _RENDER_RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


def _bound_unclosed_math(markdown: MarkdownIt) -> None:
    """Give up on math blocks after so many that never close; each miss reads the lines ahead."""
    rules = markdown.block.ruler
    original = next(rule.fn for rule in rules.__rules__ if rule.name == "math_block")

    def math_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        begin = state.bMarks[start_line] + state.tShift[start_line]
        if not state.src.startswith("$$", begin):
            return False
        if state.env.get("unclosed_math", 0) >= _MAX_UNCLOSED_MATH:
            return False
        found: bool = original(state, start_line, end_line, silent)
        if not found:
            state.env["unclosed_math"] = state.env.get("unclosed_math", 0) + 1
        return found

    rules.at("math_block", math_block)


def _leave_prices(markdown: MarkdownIt) -> None:
    """Between two sums of money stands no formula."""
    rules = markdown.inline.ruler
    original = next(rule.fn for rule in rules.__rules__ if rule.name == "math_inline")

    def math_inline(state: StateInline, silent: bool) -> bool:
        begin = state.pos
        if state.src[begin] != "$" or not original(state, True):
            return False
        is_price = _PRICE.fullmatch(state.src, begin + 1, state.pos - 1) is not None
        if is_price or not silent:
            state.pos = begin
        return not is_price and (silent or bool(original(state, False)))

    rules.at("math_inline", math_inline)


def _images_to_links(state: StateCore) -> None:
    """Nothing is loaded from elsewhere: an image becomes a link to it, in a link just its text."""
    for token in state.tokens:
        if token.children and any(child.type == "image" for child in token.children):
            token.children = _without_images(token.children, state.md)


def _without_images(children: Sequence[Token], markdown: MarkdownIt) -> list[Token]:
    result: list[Token] = []
    links = 0
    for child in children:
        if child.type != "image":
            links += (child.type == "link_open") - (child.type == "link_close")
            result.append(child)
            continue
        text = Token("text", "", 0)
        address = str(child.attrs.get("src", ""))
        # Only plugins that subclass the renderer lack this method; ours is the HTML one.
        assert isinstance(markdown.renderer, RendererHTML)
        text.content = (
            markdown.renderer.renderInlineAsText(child.children or (), markdown.options, {})
            or address
        )
        if links:
            result.append(text)
            continue
        opening = Token("link_open", "a", 1, {"href": address, "class": "image-link"})
        result += [opening, text, Token("link_close", "a", -1)]
    return result


def _own_attributes(state: StateCore) -> None:
    """Headings below the page's own, alignment as a class (the policy forbids `style`)."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + _HEADING_SHIFT, 6)}"
        elif token.type in ("td_open", "th_open") and "style" in token.attrs:
            alignment = str(token.attrs.pop("style")).removeprefix("text-align:")
            token.attrSet("class", f"align-{alignment}")


def _code(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, env: Env
) -> str:
    token = tokens[index]
    info = html.unescape(token.info)
    body, env["highlighted"] = render_code(token.content, info, env.get("highlighted", 0))
    return body


def _inline_math(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Env
) -> str:
    display = tokens[index].markup == "$$"
    math = render_math(tokens[index].content, display=display)
    return f'<span class="math-inline">{math}</span>'


def _math_block(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: Env
) -> str:
    math = render_math(tokens[index].content, display=True)
    return f'<div class="math-block" dir="ltr">{math}</div>\n'


def _table_open(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    opening = renderer.renderToken(tokens, index, options, env)
    return f'<div class="table-scroll">{opening}'


def _table_close(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    return f"{renderer.renderToken(tokens, index, options, env).strip()}</div>\n"


_RENDER_RULES = {
    "fence": _code,
    "code_block": _code,
    "math_inline": _inline_math,
    "math_inline_double": _inline_math,
    "math_block": _math_block,
    "table_open": _table_open,
    "table_close": _table_close,
}
