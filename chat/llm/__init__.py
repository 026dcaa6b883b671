"""The model client: one request to an OpenAI-compatible endpoint, streamed or whole.

The openai package is imported here and nowhere else; the rest of the product sees the values of
`chat.llm.values` and `LLMError`.
"""

from chat.llm.addresses import note_server_address, own_base_url
from chat.llm.calls import complete, stream
from chat.llm.clients import aclose
from chat.llm.errors import LLMError
from chat.llm.values import (
    Chunk,
    Completion,
    EndpointSpec,
    Finished,
    TextDelta,
    ToolCallDelta,
    Usage,
)

__all__ = [
    "Chunk",
    "Completion",
    "EndpointSpec",
    "Finished",
    "LLMError",
    "TextDelta",
    "ToolCallDelta",
    "Usage",
    "aclose",
    "complete",
    "note_server_address",
    "own_base_url",
    "stream",
]
