"""The daily roll-up of one day."""

from __future__ import annotations

from datetime import date

from chat import usage
from chat.dues import Claim
from chat.hops import hop


async def make(claim: Claim) -> None:
    await hop(usage.roll_up, date.fromisoformat(claim.subject.partition("/")[0]))
