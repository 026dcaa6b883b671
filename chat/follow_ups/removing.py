"""What a deletion could not yet remove from the cache, the disk or an index, tried again."""

from __future__ import annotations

from chat.dues import Claim
from chat.follow_ups.answers import Rejected
from chat.hops import hop
from chat.retention import removals


async def make(claim: Claim) -> None:
    _, left = await hop(removals.retry)
    if left:
        raise Rejected("removals_left", f"{left} things could not be removed yet.")
