"""The same turn under another memory policy, or with another assistant: what would be sent.

Nothing is written and no model is called. Prompt, endpoint, preferences, summaries and passages are
today's; the history is what stood before the turn's input on the chosen branch, and the forget line
is where it lay then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chat import records
from chat.inspection import differences, why_not
from chat.inspection.differences import Difference
from chat.models import Assistant, ChatTurn, ContextRecord
from chat.turns import Refused, policies, requests, tools
from memory.context import Assembled

SWITCHES = ("enabled", "summarize", "use_preferences", "use_digest")
NUMBERS = ("max_messages", "max_tokens", "stride")


class NothingSent(Exception):
    """Under this policy no request would be sent; the text says why."""


@dataclass(frozen=True)
class Changes:
    """`policy` are fields of MemoryPolicy; `assistant` takes the place of the session's own."""

    policy: Mapping[str, Any] = field(default_factory=dict)
    assistant: Assistant | None = None


@dataclass(frozen=True)
class Outcome:
    assembled: Assembled
    sent: ContextRecord | None
    """The first request of the turn, which this stands beside."""
    difference: Difference | None

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.assembled.manifest


def run(turn: ChatTurn, changes: Changes, *, with_text: bool = True) -> Outcome:
    """`NothingSent` when the request cannot be made."""
    chat_session = turn.chat_session
    if chat_session.is_temporary:
        raise NothingSent("The text of a temporary session is in no table, and staff see none.")
    sent = why_not.requests_of(turn)
    try:
        assembled = requests.what_if(
            turn,
            assistant=changes.assistant,
            lines=why_not.lines_when(turn, sent),
            **changes.policy,
        )
    except (Refused, ValueError) as refused:
        raise NothingSent(str(refused)) from None
    first = sent[0] if sent else None
    compared = _compared(turn, assembled, first, with_text) if first else None
    return Outcome(assembled, first, compared)


def _compared(
    turn: ChatTurn, assembled: Assembled, first: ContextRecord, with_text: bool
) -> Difference:
    was = differences.of_record(first, records.rebuild(first), with_text=with_text)
    would = differences.of_assembled(assembled, _parameters(turn, assembled), with_text=with_text)
    return differences.between(was, would)


def _parameters(turn: ChatTurn, assembled: Assembled) -> Mapping[str, Any]:
    """What would travel beside the messages; `requests.what_if` has put the assistant in place."""
    chat_session = turn.chat_session
    is_enabled = assembled.manifest["policy"]["enabled"]
    offered = tools.offered(chat_session, memory_enabled=is_enabled)
    parameters = policies.request_parameters(chat_session.assistant)
    return {**parameters, **policies.tool_parameters(offered, may_call=True)}
