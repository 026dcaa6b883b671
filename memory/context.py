"""Building one model request: the messages in order, and the manifest of what they are.

A request is the assistant's prompt (system), the window of the history, the current input, once,
and what the running turn has done since. What is remembered about the user and what was found for
the input stand in blocks at the head of the current input, as data. The manifest says of every
message what it is and what it costs, and which ranges of the history were left out and why; it
never grows with the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory.blocks import PreferenceText
from memory.input_blocks import BUDGET, with_preferences, with_references
from memory.parts import (
    ContextMessage,
    HistoryMessage,
    Part,
    Scale,
    headed,
    history_part,
    input_part,
    joined,
    prompt_part,
    sent_text,
    sent_tokens,
)
from memory.references import References
from memory.running_turn import answered_calls, as_repaired, running_parts
from memory.window import ORPHAN_TOOL, exchanges, repair_tools

__all__ = [
    "BEFORE_FORGET_LINE",
    "BUDGET",
    "IDLE",
    "MEMORY_OFF",
    "NO_ANSWER",
    "OTHER_BRANCH",
    "STRICT_ROLES",
    "SYSTEM_MESSAGE",
    "Assembled",
    "Budget",
    "ContextMessage",
    "HistoryMessage",
    "InputTooLong",
    "LeftOut",
    "PromptTooLong",
    "Window",
    "assemble",
    "merged",
    "sendable",
    "sent_text",
    "sent_tokens",
]

MANIFEST_VERSION = 1
NONE_FOUND = References()

BEFORE_FORGET_LINE = "before_forget_line"
IDLE = "idle"
MEMORY_OFF = "memory_off"
NO_ANSWER = "no_answer"
OTHER_BRANCH = "other_branch"
STRICT_ROLES = "strict_roles"
SYSTEM_MESSAGE = "system_message"


@dataclass(frozen=True)
class LeftOut:
    """The messages from one seq through another that are not sent, and why."""

    from_seq: int
    through_seq: int
    reason: str


@dataclass(frozen=True)
class Window:
    """The part of the history that may be sent, oldest first, and what was left out of it."""

    messages: tuple[HistoryMessage, ...]
    left_out: tuple[LeftOut, ...]
    source: str
    before_seq: int = 0
    """Where the exchange just before the window begins; 0: the window holds them all."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    """The rules that the window was chosen by, for the manifest."""


@dataclass(frozen=True)
class Budget:
    """Tokens: what the model can take, what is kept free for its answer, and for our error."""

    context_window: int
    max_output_tokens: int
    margin: int

    @property
    def limit(self) -> int:
        """What a request may hold."""
        return self.context_window - self.max_output_tokens - self.margin


@dataclass(frozen=True)
class Assembled:
    """A request that fits its budget. `tokens` is our count, without any correction."""

    messages: tuple[ContextMessage, ...]
    manifest: dict[str, Any]
    tokens: int


class InputTooLong(Exception):
    """The current input, and what its turn has done since, do not fit, even alone with the prompt.

    `tokens` are those of both, `running` those of what came after the input.
    """

    code = "input_too_long"

    def __init__(self, tokens: int, limit: int, running: int = 0) -> None:
        self.tokens, self.limit, self.running = tokens, limit, running
        found, advice = f"The message has {tokens:,} tokens", "Shorten it."
        if running:
            found = f"The message and what was done for it so far have {tokens:,} tokens"
            advice = "Ask for less at once."
        super().__init__(f"{found}; at most {limit:,} fit. {advice}")


class PromptTooLong(Exception):
    """The operator's own parts do not fit, even without any input."""

    code = "prompt_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        self.tokens, self.limit = tokens, limit
        super().__init__(
            f"The assistant's prompt takes {tokens:,} tokens and a request may hold {limit:,};"
            " shorten the prompt or raise the endpoint's context window."
        )


def assemble(
    *,
    prompt: str,
    window: Window,
    current: HistoryMessage,
    running: Sequence[HistoryMessage] = (),
    preferences: Sequence[PreferenceText] = (),
    references: References = NONE_FOUND,
    budget: Budget,
    encoding: str,
    correction: float = 1.0,
    beside: int = 0,
    strict_roles: bool = False,
) -> Assembled:
    """The request for `current`: prompt, window, the input once, and behind it the running turn.

    `running` are the messages of the turn after its input: calls and their results. They are never
    given up; a result that is too large is shortened, and says so. `preferences` and the passages
    of `references` come best first. Where tokens are short the passages are given up from the last
    one on, then the preferences, then the oldest exchanges.
    `correction` is reported / counted tokens of the endpoint, `beside` the tokens of what travels
    beside the messages, `strict_roles` as in `memory.parts.Scale`.
    Raises PromptTooLong or InputTooLong when what may not be given up does not fit.
    """
    scale = Scale(encoding, budget.limit, correction, beside, strict_roles)
    system = prompt_part(prompt, scale)
    plain = input_part(current, scale)
    alone = scale.total(system)
    _require_prompt(alone, scale)
    done, undone = answered_calls(running)
    ahead = running_parts(done, alone + plain.tokens, scale)
    fixed = alone + sum(part.tokens for part in ahead)
    _require_input(plain.tokens, alone, fixed, scale)
    groups, unsent = sendable(_before(window.messages, current))
    if strict_roles and not system:
        groups, unsent = _beginning_with_user(groups, unsent)
    history = [[history_part(each, scale) for each in group] for group in groups]
    spoken = sum(part.tokens for group in history for part in group)
    chosen, final = with_preferences(plain, preferences, fixed + spoken, scale)
    evidence = with_references(final, references, fixed + spoken, scale)
    final = evidence.part
    given_up = _give_up_oldest(history, fixed + final.tokens, scale)
    parts = _ordered(system, history[given_up:], [final, *ahead], scale)
    while given_up < len(history) and not scale.fits(scale.total(parts)):
        given_up += 1  # joining two texts may cost a token or two
        parts = _ordered(system, history[given_up:], [final, *ahead], scale)
    left_out = [*window.left_out, *unsent, *_given_up_range(groups[:given_up])]
    left_out += [_one(each, ORPHAN_TOOL) for each in undone]
    manifest = {
        **_figures(parts, scale),
        "left_out": [
            {"from": each.from_seq, "through": each.through_seq, "reason": each.reason}
            for each in merged(left_out)
        ],
        "window": _window_figures([each for group in groups[given_up:] for each in group]),
        "preferences": [{"id": each.id, "key": each.key} for each in chosen],
        "preferences_left_out": [
            {"id": each.id, "key": each.key, "reason": BUDGET}
            for each in preferences[len(chosen) :]
        ],
        **evidence.figures(references, scale),
        "source": window.source,
        "policy": dict(window.policy),
    }
    return Assembled(tuple(part.sent for part in parts), manifest, scale.total(parts))


def _ordered(
    system: Sequence[Part], history: Sequence[Sequence[Part]], turn: Sequence[Part], scale: Scale
) -> list[Part]:
    spoken = joined([part for group in history for part in group], scale)
    return headed(system, [*spoken, *turn], scale)


# --- What may be sent -----------------------------------------------------------------------------


def sendable(
    messages: Sequence[HistoryMessage],
) -> tuple[list[list[HistoryMessage]], list[LeftOut]]:
    """Whole exchanges that have an answer, and what cannot be sent, message by message.

    An exchange without any answer text is left out whole; so are tool results without a call,
    calls without all their results, and system messages, which only the operator may write.
    """
    spoken = [each for each in messages if each.message.role != "system"]
    unsent = [_one(each, SYSTEM_MESSAGE) for each in messages if each.message.role == "system"]
    repaired = repair_tools(
        [each.message for each in spoken], drop_unanswered=True, still_running=False
    )
    unsent += [_one(spoken[index], ORPHAN_TOOL) for index in repaired.dropped]
    kept = [as_repaired(spoken[index], message) for index, message in repaired.kept]
    groups = []
    for group in exchanges(kept, lambda each: each.message.role):
        if any(each.message.role == "assistant" and each.message.has_text for each in group):
            groups.append(group)
        else:
            unsent += [_one(each, NO_ANSWER) for each in group]
    return groups, unsent


def _beginning_with_user(
    groups: list[list[HistoryMessage]], unsent: list[LeftOut]
) -> tuple[list[list[HistoryMessage]], list[LeftOut]]:
    """Without what an assistant said first, where nothing can stand before it."""
    if not groups or groups[0][0].message.role == "user":
        return groups, unsent
    return groups[1:], [*unsent, *(_one(each, STRICT_ROLES) for each in groups[0])]


def merged(ranges: Sequence[LeftOut]) -> list[LeftOut]:
    """`ranges` in order; one inside or right behind another of the same reason joins it."""
    result: list[LeftOut] = []
    for each in sorted(ranges, key=lambda one: (one.from_seq, -one.through_seq)):
        last = result[-1] if result else None
        if last and each.through_seq <= last.through_seq:
            continue
        if last and each.reason == last.reason and each.from_seq <= last.through_seq + 1:
            result[-1] = replace(last, through_seq=each.through_seq)
        else:
            result.append(each)
    return result


def _one(message: HistoryMessage, reason: str) -> LeftOut:
    return LeftOut(message.seq, message.seq, reason)


def _before(messages: Sequence[HistoryMessage], current: HistoryMessage) -> list[HistoryMessage]:
    """History alone: never the current input, nor anything after it."""
    return [each for each in messages if each.id != current.id and each.seq < current.seq]


def _require_prompt(alone: int, scale: Scale) -> None:
    if not scale.fits(alone):
        raise PromptTooLong(scale.charged(alone), scale.limit)


def _require_input(tokens: int, alone: int, fixed: int, scale: Scale) -> None:
    """`alone` is what the prompt costs, `fixed` that and the running turn."""
    if not scale.fits(fixed + tokens):
        running = fixed - alone
        raise InputTooLong(
            scale.charged(tokens + running),
            scale.limit - scale.charged(alone),
            scale.charged(running),
        )


def _give_up_oldest(history: Sequence[Sequence[Part]], others: int, scale: Scale) -> int:
    """How many of the oldest exchanges do not fit beside `others`."""
    costs = [sum(part.tokens for part in group) for group in history]
    total = others + sum(costs)
    for given_up, cost in enumerate(costs):
        if scale.fits(total):
            return given_up
        total -= cost
    return len(costs)


def _given_up_range(groups: Sequence[Sequence[HistoryMessage]]) -> list[LeftOut]:
    return [LeftOut(groups[0][0].seq, groups[-1][-1].seq, BUDGET)] if groups else []


# --- Manifest -------------------------------------------------------------------------------------


def _figures(parts: Sequence[Part], scale: Scale) -> dict[str, Any]:
    counted = scale.total(parts)
    return {
        "version": MANIFEST_VERSION,
        "parts": [
            {"kind": part.sent.kind, "role": part.sent.role, "tokens": part.tokens, **part.line}
            for part in parts
        ],
        "tokens": round(counted * scale.correction),  # as the provider is expected to report it
        "counted": counted,
        "correction": scale.correction,
        "budget": scale.limit,
        "encoding": scale.encoding,
    }


def _window_figures(sent: Sequence[HistoryMessage]) -> dict[str, int]:
    return {
        "from_seq": sent[0].seq if sent else 0,
        "through_seq": sent[-1].seq if sent else 0,
        "messages": len(sent),
    }
