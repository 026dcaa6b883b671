"""Building one model request: the messages in order, and the manifest of what they are.

A request is the assistant's prompt (system), the window of the history, and the current input,
once and last. What is remembered about the user stands in a block at the head of the current
input, as data. The manifest says of every message what it is and what it costs, and which ranges
of the history were left out and why; it never grows with the history.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory.blocks import CUT_OFF_MARK, PreferenceText, preference_block, preference_line
from memory.messages import Message, ToolCall
from memory.tokens import REQUEST_OVERHEAD, count_text, counter_for
from memory.window import ORPHAN_TOOL, exchanges, repair_tools

MANIFEST_VERSION = 1

BEFORE_FORGET_LINE = "before_forget_line"
BUDGET = "budget"
IDLE = "idle"
MEMORY_OFF = "memory_off"
NO_ANSWER = "no_answer"
OTHER_BRANCH = "other_branch"
SYSTEM_MESSAGE = "system_message"


@dataclass(frozen=True)
class HistoryMessage:
    """One stored message of the chosen branch."""

    message: Message
    seq: int
    id: str
    turn: str | None
    is_partial: bool = False
    tokens: int | None = None
    """What `counter_for(encoding)` gives for `message`, its overhead included; None: count now."""
    encoding: str = ""
    mark: str = ""
    """What was changed in `message` for this request, for the manifest; "": it is as stored."""


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
class ContextMessage:
    """One message of the request."""

    role: str
    content: str
    source: str | None
    """Id of the stored message when it is sent exactly as {role, content} of its row, and `parts`
    are the row's."""
    kind: str
    """ "prompt", "history" or "input", as in the manifest."""
    owner: str
    """ "operator": the installation's own text; "session": text that derives from a user."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    parts: tuple[Mapping[str, Any], ...] = ()
    """Images and the like, sent behind the text."""


@dataclass(frozen=True)
class Assembled:
    """A request that fits its budget. `tokens` is our count, without any correction."""

    messages: tuple[ContextMessage, ...]
    manifest: dict[str, Any]
    tokens: int


class InputTooLong(Exception):
    """The current input does not fit, even alone with the prompt."""

    code = "input_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        self.tokens, self.limit = tokens, limit
        super().__init__(f"The message has {tokens:,} tokens; at most {limit:,} fit. Shorten it.")


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
    preferences: Sequence[PreferenceText] = (),
    budget: Budget,
    encoding: str,
    correction: float = 1.0,
) -> Assembled:
    """The request for `current`: prompt, window, and the input once and last.

    `preferences` come best first. Where tokens are short they are given up from the last one on,
    then the oldest exchanges. `correction` is reported / counted tokens of the endpoint.
    Raises PromptTooLong or InputTooLong when what may not be given up does not fit.
    """
    scale = Scale(encoding, budget.limit, correction)
    system = _prompt_part(prompt, scale)
    plain = _input_part(current, scale)
    fixed = REQUEST_OVERHEAD + sum(part.tokens for part in system)
    _require_room(fixed, plain.tokens, scale)
    groups, unsent = sendable(_before(window.messages, current))
    history = [[_history_part(each, scale) for each in group] for group in groups]
    spoken = sum(part.tokens for group in history for part in group)
    chosen, final = _with_preferences(plain, preferences, fixed + spoken, scale)
    given_up = _give_up_oldest(history, fixed + final.tokens, scale)
    sent = _joined([part for group in history[given_up:] for part in group], scale)
    parts = [*system, *sent, final]
    left_out = [*window.left_out, *unsent, *_given_up_range(groups[:given_up])]
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
        "source": window.source,
        "policy": dict(window.policy),
    }
    return Assembled(tuple(part.sent for part in parts), manifest, _total(parts))


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
    kept = [replace(spoken[index], message=message) for index, message in repaired.kept]
    groups = []
    for group in exchanges(kept, lambda each: each.message.role):
        if any(each.message.role == "assistant" and each.message.has_text for each in group):
            groups.append(group)
        else:
            unsent += [_one(each, NO_ANSWER) for each in group]
    return groups, unsent


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


def sent_text(message: HistoryMessage) -> str:
    """The text that the model is given: an answer that was cut off says so."""
    text = message.message.content or ""
    return text + CUT_OFF_MARK if message.is_partial else text


def sent_tokens(message: HistoryMessage, encoding: str) -> int:
    """The cost of `message` as it is sent; the stored count where it is one of `encoding`."""
    if message.is_partial:
        return counter_for(encoding)(replace(message.message, content=sent_text(message)))
    if message.tokens is not None and message.encoding == encoding:
        return message.tokens
    return counter_for(encoding)(message.message)


def _one(message: HistoryMessage, reason: str) -> LeftOut:
    return LeftOut(message.seq, message.seq, reason)


def _before(messages: Sequence[HistoryMessage], current: HistoryMessage) -> list[HistoryMessage]:
    """History alone: never the current input, nor anything after it."""
    return [each for each in messages if each.id != current.id and each.seq < current.seq]


# --- Parts and their tokens -----------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """What tokens cost here: counted in an encoding, corrected, held against a limit."""

    encoding: str
    limit: int
    correction: float

    @property
    def count(self) -> Callable[[Message], int]:
        return counter_for(self.encoding)

    def charged(self, tokens: int) -> int:
        """Counted tokens as they are charged: a correction below 1 never makes room."""
        return math.ceil(tokens * max(1.0, self.correction))

    def fits(self, tokens: int) -> bool:
        return self.charged(tokens) <= self.limit


@dataclass(frozen=True)
class Part:
    """A message of the request beside its line in the manifest."""

    sent: ContextMessage
    tokens: int
    line: Mapping[str, Any]


def _prompt_part(prompt: str, scale: Scale) -> list[Part]:
    if not prompt:
        return []
    tokens = scale.count(Message.system(prompt))
    sent = ContextMessage("system", prompt, None, "prompt", "operator")
    return [Part(sent, tokens, {"ids": []})]


def _history_part(message: HistoryMessage, scale: Scale) -> Part:
    inner = message.message
    exact = not (message.is_partial or message.mark or inner.tool_calls or inner.role == "tool")
    sent = ContextMessage(
        inner.role,
        sent_text(message),
        message.id if exact else None,
        "history",
        "session",
        inner.tool_calls,
        inner.tool_call_id,
        inner.parts,
    )
    line: dict[str, Any] = {"seq": message.seq, "ids": [message.id], **_images(inner)}
    if message.is_partial or message.mark:
        line["mark"] = "cut_off" if message.is_partial else message.mark
    return Part(sent, sent_tokens(message, scale.encoding), line)


def _input_part(current: HistoryMessage, scale: Scale) -> Part:
    text = current.message.content or ""
    sent = ContextMessage("user", text, current.id, "input", "session", parts=current.message.parts)
    line = {"seq": current.seq, "ids": [current.id], **_images(current.message)}
    return Part(sent, sent_tokens(current, scale.encoding), line)


def _images(message: Message) -> dict[str, int]:
    count = sum(part.get("type") == "image_url" for part in message.parts)
    return {"images": count} if count else {}


def _require_room(fixed: int, input_tokens: int, scale: Scale) -> None:
    if not scale.fits(fixed):
        raise PromptTooLong(scale.charged(fixed), scale.limit)
    if not scale.fits(fixed + input_tokens):
        raise InputTooLong(scale.charged(input_tokens), scale.limit - scale.charged(fixed))


def _with_preferences(
    plain: Part, preferences: Sequence[PreferenceText], others: int, scale: Scale
) -> tuple[list[PreferenceText], Part]:
    """The best preferences for which there is room, and the input with them at its head."""
    chosen = _best_that_fit(preferences, others + plain.tokens, scale)
    while chosen:
        part = _augmented(plain, chosen, scale)
        if scale.fits(others + part.tokens):
            return chosen, part
        chosen = chosen[:-1]
    return [], plain


def _best_that_fit(
    preferences: Sequence[PreferenceText], others: int, scale: Scale
) -> list[PreferenceText]:
    total = others + count_text(preference_block(()), scale.encoding)
    for position, each in enumerate(preferences):
        total += count_text(preference_line(each), scale.encoding)
        if not scale.fits(total):
            return list(preferences[:position])
    return list(preferences)


def _augmented(plain: Part, chosen: Sequence[PreferenceText], scale: Scale) -> Part:
    content = preference_block(chosen) + plain.sent.content
    tokens = scale.count(Message.user(content, plain.sent.parts))
    line = {**plain.line, "preferences": [each.id for each in chosen]}
    return Part(replace(plain.sent, content=content, source=None), tokens, line)


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


def _joined(parts: Sequence[Part], scale: Scale) -> list[Part]:
    """`parts` with roles that alternate: answers that follow each other are sent as one."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if last and _same_speaker(last.sent, part.sent):
            result[-1] = _one_of_two(last, part, scale)
        else:
            result.append(part)
    return result


def _same_speaker(first: ContextMessage, second: ContextMessage) -> bool:
    return first.role == second.role == "assistant" and not first.tool_calls


def _one_of_two(first: Part, second: Part, scale: Scale) -> Part:
    content = f"{first.sent.content}\n\n{second.sent.content}".strip()
    calls = second.sent.tool_calls
    tokens = scale.count(Message.assistant(content, calls))
    line = {**second.line, **first.line, "ids": [*first.line["ids"], *second.line["ids"]]}
    return Part(replace(first.sent, content=content, source=None, tool_calls=calls), tokens, line)


# --- Manifest -------------------------------------------------------------------------------------


def _total(parts: Sequence[Part]) -> int:
    return REQUEST_OVERHEAD + sum(part.tokens for part in parts)


def _figures(parts: Sequence[Part], scale: Scale) -> dict[str, Any]:
    counted = _total(parts)
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
