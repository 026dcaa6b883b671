"""LaTeX to MathML, which browsers draw without a script."""

import html
import logging
import re
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import Converter

MAX_LATEX_CHARS = 4_000

_MACROS = re.compile(r"\\(?:re|provide)?newcommand|\\[gex]?def(?![a-zA-Z])")
_logger = logging.getLogger(__name__)


def render_math(latex: str, *, display: bool) -> str:
    """MathML of a formula, or its source as code when it is no formula that can be drawn."""
    element = _convert(latex.strip(), "block" if display else "inline")
    if element is None:
        mark = "$$" if display else "$"
        return f'<code class="math-source">{html.escape(mark + latex + mark)}</code>'
    return tostring(element, encoding="unicode")


def _convert(latex: str, display: str) -> Element | None:
    # Macros that call macros double their output at each step, so none are taken.
    if len(latex) > MAX_LATEX_CHARS or _MACROS.search(latex):
        return None
    try:
        element = Converter(display=display).convert_to_element(latex)
    # The converter has a dozen error types without a common base and meets wrong LaTeX with
    # IndexError or RecursionError as well; the caller shows the source instead.
    except Exception as error:
        _logger.debug("no MathML for %d characters of LaTeX: %r", len(latex), error)
        return None
    for node in element.iter():
        if node.text:
            # The converter writes character references into the text; tostring would escape them.
            node.text = html.unescape(node.text)
    return element
