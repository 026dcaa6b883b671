"""Markdown to safe HTML: one renderer for the page, the admin and every export.

The text is a stranger's. Whatever it holds, the result contains only the tags and attributes of
`sanitise`, loads nothing from elsewhere and takes time that grows with the text, not with its
square.
"""

from chat.rendering.blocks import Block, BlockStream
from chat.rendering.document import MAX_MARKDOWN_CHARS, RENDERER_VERSION, render
from chat.rendering.plain import render_plain

__all__ = [
    "MAX_MARKDOWN_CHARS",
    "RENDERER_VERSION",
    "Block",
    "BlockStream",
    "render",
    "render_plain",
]
