"""Code blocks: the language named, the source highlighted with CSS classes."""

import html
import re
from functools import cache

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name

# Pygments' lexers are regular expressions, some quadratic in a long line or a long run of words
# or blank lines (a second for 20,000 characters, Java and C# seven). Only measured languages are
# highlighted, and only within these sizes; the rest is shown as it is.
MAX_CODE_CHARS = 20_000
MAX_LINE_CHARS = 1_000
MAX_SLOW_CODE_CHARS = 5_000
MAX_HIGHLIGHTED_CHARS = 60_000  # in one message

_SLOW_LEXERS = frozenset(("csharp", "groovy", "java", "pascal", "rst"))
_LEXERS = """
awk bash bat c clojure cmake console cpp csharp css dart diff django docker elixir erlang fortran
fsharp go graphql groovy haskell html http ini java javascript jinja json jsx julia kotlin less lua
make markdown matlab mysql nasm nginx nim objective-c ocaml pascal perl php postgresql powershell
protobuf pycon pytb python r rst ruby rust scala scss sql swift tex toml tsx typescript vim xml
yaml zig
"""
_BLANK_RUN = re.compile(r"(?:[ \t]*\n){100}")
_MAX_LANGUAGE_CHARS = 30

_formatter = HtmlFormatter(nowrap=True)


def render_code(source: str, info: str, highlighted_so_far: int) -> tuple[str, int]:
    """HTML of one block and how many characters of the message are highlighted by now."""
    word = info.split(maxsplit=1)[0][:_MAX_LANGUAGE_CHARS] if info.strip() else ""
    name, alias = _languages().get(word.lower(), (word or "text", ""))
    budget = MAX_HIGHLIGHTED_CHARS - highlighted_so_far
    if alias and len(source) <= budget and _is_affordable(source, alias):
        body = highlight(source, _lexer(alias), _formatter)
        highlighted_so_far += len(source)
    else:
        body = html.escape(source)
    return (
        '<div class="code" dir="ltr"><div class="code-head">'
        f'<span class="code-lang">{html.escape(name)}</span></div>'
        f'<pre tabindex="0"><code>{body}</code></pre></div>\n',
        highlighted_so_far,
    )


def _is_affordable(source: str, alias: str) -> bool:
    limit = MAX_SLOW_CODE_CHARS if alias in _SLOW_LEXERS else MAX_CODE_CHARS
    return (
        len(source) <= limit
        and max(map(len, source.split("\n"))) <= MAX_LINE_CHARS
        and _BLANK_RUN.search(source) is None
    )


@cache
def _languages() -> dict[str, tuple[str, str]]:
    """Every alias of a highlighted language -> (name to show, alias to load it by)."""
    wanted = frozenset(_LEXERS.split())
    found: dict[str, tuple[str, str]] = {}
    for name, aliases, _files, _types in get_all_lexers(plugins=False):
        chosen = next((alias for alias in aliases if alias in wanted), None)
        if chosen is not None:
            found.update((alias.lower(), (name, chosen)) for alias in aliases)
    return found


@cache
def _lexer(alias: str) -> Lexer:
    return get_lexer_by_name(alias, stripnl=False, ensurenl=False)
