"""Building one model request: the messages in order, and the manifest of what they are.

A request is the assistant's prompt (system), the window of the history, the current input, once,
and what the running turn has done since. What is remembered about the user and what was found for
the input stand in blocks at the head of the current input, as data. The manifest says of every
message what it is and what it costs, and which ranges of the history were left out and why; it
never grows with the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memory.blocks import DigestText, PreferenceText, SummaryText
from memory.fitting import Fitted, fit
from memory.input_blocks import SHARE, within_share
from memory.left_out import (
    AWAITING_SUMMARY,
    BEFORE_FORGET_LINE,
    BUDGET,
    COVERED_BY_SUMMARY,
    IDLE,
    MEMORY_OFF,
    NO_ANSWER,
    OTHER_BRANCH,
    STRICT_ROLES,
    SYSTEM_MESSAGE,
    Group,
    LeftOut,
    before,
    beginning_with_user,
    merged,
    one,
    sendable,
    with_awaiting,
    with_branches,
    with_summary,
)
from memory.opening import opening_figures, opening_of
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
from memory.running_turn import answered_calls, running_parts
from memory.window import ORPHAN_TOOL

__all__ = [
    "AWAITING_SUMMARY",
    "BEFORE_FORGET_LINE",
    "BUDGET",
    "COVERED_BY_SUMMARY",
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

T = TypeVar("T")

MANIFEST_VERSION = 1
NONE_FOUND = References()


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
    last_seq: int = 0
    """The newest seq of the session, whatever its branch; 0: not told."""


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
    summary: SummaryText | None = None,
    digest: DigestText | None = None,
    awaiting: Sequence[HistoryMessage] = (),
    preferences: Sequence[PreferenceText] = (),
    preference_tokens: int | None = None,
    references: References = NONE_FOUND,
    budget: Budget,
    encoding: str,
    correction: float = 1.0,
    beside: int = 0,
    strict_roles: bool = False,
) -> Assembled:
    """The request for `current`: prompt, history, the input once, and behind it the running turn.

    `running` are the messages of the turn after its input: calls and their results. They are never
    given up; a result that is too large is shortened, and says so. `summary` stands for all
    history through `covers_through`, in the window or not; without one `digest` opens the request.
    `awaiting` are messages older than the window that wait for a summary, the newest of them.
    `preferences` and the passages of `references` come best first; the preferences get at most
    `preference_tokens`.
    Where tokens are short the passages are given up from the last one on, then the preferences,
    the digest or summary, the oldest exchanges.
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

    covered = min(summary.covers_through, current.seq - 1) if summary else 0
    past = [each for each in (*awaiting, *window.messages) if covered < each.seq < current.seq]
    groups, unsent = sendable(past)
    if strict_roles and not system:
        groups, unsent = beginning_with_user(groups, unsent)
    history = [joined([history_part(each, scale) for each in group], scale) for group in groups]
    opening = opening_of(summary, digest)
    shared, beyond = within_share(preferences, preference_tokens, encoding)
    fitted = fit(history, plain, opening, shared, references, fixed, scale)

    parts = headed(system, [*_flat(fitted.history), fitted.input, *ahead], scale)
    sent = _flat(groups[fitted.given_up :])
    unsent += _given_up(groups[: fitted.given_up], window)
    unsent += [one(each, ORPHAN_TOOL) for each in undone]
    known = before(with_awaiting(with_summary(window.left_out, covered), awaiting), current.seq)
    manifest = {
        **_figures(parts, scale),
        "left_out": _ranges([*known, *unsent], [*sent, current, *done], window.last_seq),
        "window": _window_figures(sent),
        **opening_figures(opening, fitted.is_opened, scale),
        **_preference_figures(fitted, shared, beyond),
        **fitted.evidence.figures(references, scale),
        "source": window.source,
        "policy": dict(window.policy),
    }
    return Assembled(tuple(part.sent for part in parts), manifest, scale.total(parts))


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


def _given_up(groups: Sequence[Group], window: Window) -> list[LeftOut]:
    """The exchanges for which there was no room: of the window, and older ones."""
    start = window.messages[0].seq if window.messages else None
    older = [group for group in groups if start is None or group[0].seq < start]
    of_window = groups[len(older) :]
    return [
        LeftOut(found[0][0].seq, found[-1][-1].seq, reason)
        for found, reason in ((older, AWAITING_SUMMARY), (of_window, BUDGET))
        if found
    ]


def _flat(groups: Sequence[Sequence[T]]) -> list[T]:
    return [each for group in groups for each in group]


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


def _ranges(
    left_out: Sequence[LeftOut], sent: Sequence[HistoryMessage], last_seq: int
) -> list[dict[str, Any]]:
    """What was left out, through the newest seq of the session where that was told."""
    if last_seq:
        seqs = [each.seq for each in sent]
        left_out = with_branches(left_out, seqs, max(last_seq, *seqs))
    return [
        {"from": each.from_seq, "through": each.through_seq, "reason": each.reason}
        for each in merged(left_out)
    ]


def _preference_figures(
    fitted: Fitted, shared: Sequence[PreferenceText], beyond: Sequence[PreferenceText]
) -> dict[str, Any]:
    chosen = fitted.preferences
    left_out = [(each, BUDGET) for each in shared[len(chosen) :]]
    left_out += [(each, SHARE) for each in beyond]
    return {
        "preferences": [{"id": each.id, "key": each.key} for each in chosen],
        "preferences_left_out": [
            {"id": each.id, "key": each.key, "reason": reason} for each, reason in left_out
        ],
    }


def _window_figures(sent: Sequence[HistoryMessage]) -> dict[str, int]:
    return {
        "from_seq": sent[0].seq if sent else 0,
        "through_seq": sent[-1].seq if sent else 0,
        "messages": len(sent),
    }
