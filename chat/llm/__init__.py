"""The model client: one request to an OpenAI-compatible endpoint, streamed or whole.

The openai package is imported here and nowhere else; the rest of the product sees the values of
`chat.llm.values` and `LLMError`. It takes about a second to import, so that is done at the first
call (a server does it when it starts, with `load`): most commands never call a model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from chat.llm.addresses import note_server_address, own_base_url
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
    "load",
    "note_server_address",
    "own_base_url",
    "stream",
]


def load() -> None:
    """Import the openai package now, not in the first call."""
    from chat.llm import calls  # noqa: F401


def stream(spec: EndpointSpec, request: Mapping[str, object]) -> AsyncGenerator[Chunk, None]:
    """The answer to `request` piece by piece: see `chat.llm.calls.stream`."""
    from chat.llm import calls

    return calls.stream(spec, request)


async def complete(spec: EndpointSpec, request: Mapping[str, object]) -> Completion:
    """The whole answer to `request`: see `chat.llm.calls.complete`."""
    from chat.llm import calls

    return await calls.complete(spec, request)


async def aclose() -> None:
    """Close the clients of this event loop; the next call opens new ones."""
    from chat.llm import clients

    await clients.aclose()
