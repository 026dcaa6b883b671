"""One follow-up from its claim to its end: bounded in time, and given back whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from django.conf import settings
from django.db import Error

from chat import dues
from chat.dues import Claim, Kind
from chat.follow_ups import digesting, extracting, removing, summarising, titles, usage
from chat.follow_ups.answers import Rejected
from chat.hops import Overloaded, urgent_hop
from chat.llm import LLMError

logger = logging.getLogger(__name__)

End = Literal["done", "failed", "given back"]

MAKERS: dict[str, Callable[[Claim], Awaitable[None]]] = {
    Kind.TITLE: titles.make,
    Kind.SUMMARY: summarising.make,
    Kind.PREFERENCES: extracting.make,
    Kind.DIGEST: digesting.make,
    Kind.REMOVALS: removing.make,
    Kind.USAGE: usage.make,
}


async def claim(limit: int) -> list[Claim]:
    """Claim what is due, of the kinds that can be done here."""
    return await urgent_hop(dues.claim, limit, tuple(MAKERS))


async def do(claim: Claim) -> End:
    """Do what is claimed; when it cannot be done, say why in its row and try again later."""
    try:
        async with asyncio.timeout(settings.CHAT_FOLLOW_UP_SECONDS):
            await MAKERS[claim.kind](claim)
    except asyncio.CancelledError:
        await asyncio.shield(_give_back(claim))
        raise
    except Overloaded:
        await _give_back(claim)
        return "given back"
    except Exception as error:
        await _fail(claim, _described(error, claim))
        return "failed"
    await urgent_hop(dues.done, claim)
    return "done"


async def _give_back(claim: Claim) -> None:
    """Let somebody else do it at once; without a database it expires by itself."""
    try:
        await urgent_hop(dues.give_back, claim)
    except Error as error:
        logger.warning("Follow-up %d was not given back; its claim expires: %s", claim.id, error)


async def _fail(claim: Claim, why: str) -> None:
    try:
        wait = await urgent_hop(dues.failed, claim, why)
    except Error as error:
        logger.warning("Follow-up %d failed, its claim expires: %s; %s", claim.id, why, error)
        return
    logger.info("Follow-up %d (%s) again in %.0f s: %s", claim.id, claim.kind, wait, why)


def _described(error: Exception, claim: Claim) -> str:
    """A code and a short text, without words of the conversation and without secrets."""
    if isinstance(error, LLMError | Rejected):
        return f"{error.code}: {error.detail}"
    if isinstance(error, TimeoutError):
        return f"timeout: It was not done within {settings.CHAT_FOLLOW_UP_SECONDS} s."
    logger.error("Follow-up %d (%s) failed.", claim.id, claim.kind, exc_info=error)
    return f"internal_error: {type(error).__name__}; the server's log says more."
