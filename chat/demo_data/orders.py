"""What a run of sample data is to make, and how it is spread over the sessions."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

LEAST = 2  # messages of a session: a question and an answer
LONG_SESSION = 5_000  # messages of the first session at most, and a tenth of all
SPREAD = 1.1  # of the logarithm of a session's length: many short ones, a few very long ones


@dataclass(frozen=True)
class Order:
    """`seed` decides everything: the same order gives the same ids, texts and times."""

    sessions: int
    messages: int
    seed: int
    tenants: int
    users: int
    until: datetime
    """The end of the months that the sessions lie in."""

    def problem(self) -> str:
        """Why it cannot be done; nothing when it can."""
        small = [name for name in ("sessions", "tenants", "users") if getattr(self, name) < 1]
        if small:
            return f"--{small[0]} is {getattr(self, small[0])}: give 1 or more."
        if self.users < self.tenants:
            return f"{self.users} users do not fill {self.tenants} tenants: give more --users."
        if self.messages < LEAST * self.sessions:
            return (
                f"{self.messages} messages are too few for {self.sessions} sessions: give at least"
                f" {LEAST * self.sessions}."
            )
        return ""

    def chance(self, *about: object) -> random.Random:
        """A source of chance of its own for one thing, whatever else is made."""
        return random.Random(":".join(str(each) for each in (self.seed, *about)))

    def sizes(self) -> list[int]:
        """How many messages each session gets; together exactly `messages`."""
        first = max(LEAST, min(LONG_SESSION, self.messages // 10)) if self.sessions > 1 else 0
        others = self.sessions - (1 if first else 0)
        spare = self.messages - first - LEAST * others
        if spare < 0:
            first, spare = LEAST, self.messages - LEAST * self.sessions
        chance = self.chance("sizes")
        weights = [chance.lognormvariate(0, SPREAD) for _ in range(others)]
        return [*([first] if first else []), *_shares(spare, weights)]


def _shares(spare: int, weights: list[float]) -> list[int]:
    """LEAST each, and `spare` more by weight; rounding never loses one."""
    total, given, passed, sizes = sum(weights), 0, 0.0, []
    for weight in weights:
        passed += weight
        through = round(spare * passed / total)
        sizes.append(LEAST + through - given)
        given = through
    return sizes


def new_id(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128), version=4)


def session_id(order: Order, number: int) -> uuid.UUID:
    """The id of the session with this number, without making it."""
    return new_id(order.chance("session", number))


def numbered(order: Order) -> Iterator[tuple[int, int]]:
    """Each session's number and size."""
    return enumerate(order.sizes())
