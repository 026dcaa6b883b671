"""The messages of a request: what each holds, what it costs, and its line in the manifest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from memory.blocks import CUT_OFF_MARK, operator_block, without_operator_tag
from memory.messages import Message, Role, ToolCall
from memory.tokens import REQUEST_OVERHEAD, counter_for

PLAIN_TEXT = "plain_text"
"""The mark of a stored message that could not be read as it is: its plain text is sent."""


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
class ContextMessage:
    """One message of the request."""

    role: str
    content: str
    source: str | None
    """Id of the stored message when it is sent exactly as {role, content} of its row, and `parts`
    are the row's."""
    kind: str
    """ "prompt", "history", "input" or "running", as in the manifest."""
    owner: str
    """ "operator": the installation's own text; "session": text that derives from a user."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    parts: tuple[Mapping[str, Any], ...] = ()
    """Images and the like, sent behind the text."""


@dataclass(frozen=True)
class Scale:
    """What tokens cost here: counted in an encoding, corrected, held against a limit."""

    encoding: str
    limit: int
    correction: float
    beside: int = 0
    """Tokens of what travels beside the messages: an output schema, definitions of tools."""
    strict_roles: bool = False
    """No system message, and a user first: the prompt stands at the head of the first user's."""

    @property
    def count(self) -> Callable[[Message], int]:
        return counter_for(self.encoding)

    def charged(self, tokens: int) -> int:
        """Counted tokens as they are charged: a correction below 1 never makes room."""
        return math.ceil(tokens * max(1.0, self.correction))

    def fits(self, tokens: int) -> bool:
        return self.charged(tokens) <= self.limit

    def room_beside(self, tokens: int) -> int:
        """How many tokens more fit beside `tokens`; below 0 when those alone are too many."""
        room = math.floor(self.limit / max(1.0, self.correction))
        return room - tokens if self.fits(room) else room - tokens - 1

    def total(self, parts: Sequence[Part]) -> int:
        """What a request of `parts` costs, as it is counted."""
        return REQUEST_OVERHEAD + self.beside + sum(part.tokens for part in parts)


@dataclass(frozen=True)
class Part:
    """A message of the request beside its line in the manifest."""

    sent: ContextMessage
    tokens: int
    line: Mapping[str, Any]


def prompt_part(prompt: str, scale: Scale) -> list[Part]:
    """The operator's text, if there is any: a system message, or a block for `headed` to place."""
    if not prompt:
        return []
    role, text = ("user", operator_block(prompt)) if scale.strict_roles else ("system", prompt)
    sent = ContextMessage(role, text, None, "prompt", "operator")
    return [_counted(sent, {"ids": []}, scale)]


def history_part(message: HistoryMessage, scale: Scale, kind: str = "history") -> Part:
    inner = message.message
    exact = not (message.is_partial or message.mark or inner.tool_calls or inner.role == "tool")
    sent = ContextMessage(
        inner.role,
        sent_text(message),
        message.id if exact else None,
        kind,
        "session",
        inner.tool_calls,
        inner.tool_call_id,
        inner.parts,
    )
    line: dict[str, Any] = {"seq": message.seq, "ids": [message.id], **_images(inner)}
    if message.is_partial or message.mark:
        line["mark"] = "cut_off" if message.is_partial else message.mark
    return _guarded(Part(sent, sent_tokens(message, scale.encoding), line), scale)


def input_part(current: HistoryMessage, scale: Scale) -> Part:
    text = current.message.content or ""
    sent = ContextMessage("user", text, current.id, "input", "session", parts=current.message.parts)
    line = {"seq": current.seq, "ids": [current.id], **_images(current.message)}
    return _guarded(Part(sent, sent_tokens(current, scale.encoding), line), scale)


def _guarded(part: Part, scale: Scale) -> Part:
    """With strict roles nothing that others wrote may read as the operator's block."""
    content = without_operator_tag(part.sent.content) if scale.strict_roles else part.sent.content
    return part if content == part.sent.content else with_content(part, content, scale)


def with_content(part: Part, content: str, scale: Scale, **line: Any) -> Part:
    """`part` with another text than its row's, and with more in its line."""
    sent = replace(part.sent, content=content, source=None)
    return _counted(sent, {**part.line, **line}, scale)


def _counted(sent: ContextMessage, line: Mapping[str, Any], scale: Scale) -> Part:
    message = Message(
        role=cast(Role, sent.role),
        content=sent.content,
        parts=sent.parts,
        tool_calls=sent.tool_calls,
        tool_call_id=sent.tool_call_id,
    )
    return Part(sent, scale.count(message), line)


def _images(message: Message) -> dict[str, int]:
    count = sum(part.get("type") == "image_url" for part in message.parts)
    return {"images": count} if count else {}


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


# --- Roles ----------------------------------------------------------------------------------------


def joined(parts: Sequence[Part], scale: Scale) -> list[Part]:
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


def headed(system: Sequence[Part], parts: Sequence[Part], scale: Scale) -> list[Part]:
    """`parts` behind the operator's text; with strict roles it is put into the first of them.

    An assistant that spoke first stays behind a user message that holds nothing else.
    """
    if not (scale.strict_roles and system) or parts[0].sent.role != "user":
        return [*system, *parts]
    (block,), (first, *others) = system, parts
    content = block.sent.content + first.sent.content
    return [
        with_content(first, content, scale, operator_characters=len(block.sent.content)),
        *others,
    ]
