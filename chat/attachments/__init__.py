"""Images that people send along: checked, stored, bound to a message, read again for a request."""

from chat.attachments.checking import BadImage, Image, check
from chat.attachments.files import (
    MOST_PER_MESSAGE,
    UNSENT_HOURS,
    Unreadable,
    bind,
    data_url,
    data_urls,
    forgotten,
    pending_removals,
    read,
    store,
    waiting,
)
from chat.attachments.parts import (
    attachment_of,
    attachments_in,
    described,
    file_url,
    memory_parts,
    message_part,
)
from chat.attachments.serving import file_response

__all__ = [
    "MOST_PER_MESSAGE",
    "UNSENT_HOURS",
    "BadImage",
    "Image",
    "Unreadable",
    "attachment_of",
    "attachments_in",
    "bind",
    "check",
    "data_url",
    "data_urls",
    "described",
    "file_response",
    "file_url",
    "forgotten",
    "memory_parts",
    "message_part",
    "pending_removals",
    "read",
    "store",
    "waiting",
]
