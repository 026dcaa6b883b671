"""The memory doctor: every check of one session, in groups, in the order in which to look."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chat.inspection import checks, memory_checks, session_checks
from chat.inspection.checks import FINDING, NOTE, OK, Check, Facts

Look = Callable[[Facts], Iterator[Check]]

GROUPS: tuple[tuple[str, tuple[Look, ...]], ...] = (
    ("Session", (session_checks.ids, session_checks.turns, session_checks.rows)),
    ("What was sent", (session_checks.sent, memory_checks.window)),
    ("Switches and lines", (memory_checks.switches, memory_checks.lines)),
    ("Snapshot and summary", (memory_checks.snapshot, memory_checks.summary)),
    ("Preferences", (memory_checks.remembered,)),
    (
        "Beside the session",
        (session_checks.search, session_checks.cache, session_checks.endpoint),
    ),
    ("Errors", (session_checks.follow_ups, session_checks.errors)),
)


@dataclass(frozen=True)
class Group:
    title: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Report:
    facts: Facts
    groups: tuple[Group, ...]

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(check for group in self.groups for check in group.checks)

    def count(self, state: str) -> int:
        return sum(check.state == state for check in self.checks)

    @property
    def findings(self) -> int:
        return self.count(FINDING)

    @property
    def notes(self) -> int:
        return self.count(NOTE)

    @property
    def fine(self) -> int:
        return self.count(OK)


def examine(session_id: uuid.UUID) -> Report:
    """Everything that is found; `ChatSession.DoesNotExist` without such a session."""
    facts = checks.facts_of(session_id)
    groups = tuple(
        Group(title, tuple(check for look in looks for check in look(facts)))
        for title, looks in GROUPS
    )
    return Report(facts, groups)
