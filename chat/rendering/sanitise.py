"""The allow list: what rendered text may contain, whoever wrote it."""

import re

import nh3
from pygments.token import STANDARD_TYPES

_URL_SCHEMES = {"http", "https", "mailto"}
_ALLOWED_URL = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)

_TEXT_TAGS = """
a blockquote br code em h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr ul div
"""
_MATH_TAGS = """
math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow mspace
msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover
"""
_MATH_ATTRIBUTES = """
accent accentunder columnalign columnlines columnspacing displaystyle fence form largeop
linethickness lspace mathvariant maxsize minsize movablelimits notation rowlines rowspacing rspace
scriptlevel separator stretchy symmetric
"""
# Blocks that have a direction of their own.
_BLOCK_TAGS = "blockquote div h3 h4 h5 h6 ol p table td th ul"
_ALIGNMENTS = {"align-left", "align-center", "align-right"}

_cleaner = nh3.Cleaner(
    tags={*_TEXT_TAGS.split(), *_MATH_TAGS.split()},
    clean_content_tags={"script", "style"},
    attributes={
        **{tag: {*_MATH_ATTRIBUTES.split()} for tag in _MATH_TAGS.split()},
        "a": {"href", "title"},
        "math": {"display"},
        "mspace": {"width"},
        "ol": {"start"},
    },
    tag_attribute_values={
        **{tag: {"dir": {"auto", "ltr", "rtl"}} for tag in _BLOCK_TAGS.split()},
        "pre": {"tabindex": {"0"}},
    },
    allowed_classes={
        "a": {"image-link"},
        "code": {"math-source"},
        "div": {"code", "code-head", "math-block", "table-scroll", "plain"},
        "span": {"code-lang", "math-inline", *filter(None, STANDARD_TYPES.values())},
        "td": _ALIGNMENTS,
        "th": _ALIGNMENTS,
    },
    set_tag_attribute_values={"a": {"target": "_blank"}},
    link_rel="noopener noreferrer nofollow",
    url_schemes=_URL_SCHEMES,
    url_relative="deny",
)


def is_allowed_url(url: str) -> bool:
    """Whether a link may lead there; relative addresses would be actions on this very site."""
    return _ALLOWED_URL.match(url) is not None


def sanitise(html: str) -> str:
    """The HTML without anything that is not on the allow list."""
    return _cleaner.clean(html)
