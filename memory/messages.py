"""The values that memory works on: messages of a chat and the tool calls inside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[str, ...] = get_args(Role)

KEPT = "kept"
"""The type of a part that holds what another system stored and a Message has no place for
(memory.formats). It is stored and written back, never sent and never counted."""


@dataclass(frozen=True)
class ToolCall:
    """One call that an assistant asks for; `arguments` is JSON text, kept as it came."""

    id: str
    name: str
    arguments: str = "{}"

    def __post_init__(self) -> None:
        for field in ("id", "name", "arguments"):
            _require_text(f"a tool call's {field}", getattr(self, field))


@dataclass(frozen=True)
class Message:
    """One message, compared by value. `content` is None only beside tool calls; "" is not None."""

    role: Role
    content: str | None
    parts: tuple[Mapping[str, Any], ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    is_error: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        if self.role not in ROLES:
            raise ValueError(f"role is {self.role!r}; use one of {', '.join(ROLES)}")
        if self.content is None and not self.tool_calls:
            raise ValueError(f"a {self.role} message without tool calls needs content, got None")
        if self.content is not None:
            _require_text("content", self.content)
        for field in ("tool_call_id", "name"):
            _require_text(field, getattr(self, field))
        _require_all("parts", self.parts, Mapping)
        _require_all("tool_calls", self.tool_calls, ToolCall)
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"a {self.role} message cannot ask for tool calls")

    @classmethod
    def system(cls, text: str) -> Message:
        return cls("system", text)

    @classmethod
    def user(cls, text: str, parts: Iterable[Mapping[str, Any]] = (), name: str = "") -> Message:
        return cls("user", text, parts=tuple(parts), name=name)

    @classmethod
    def assistant(cls, text: str | None, tool_calls: Iterable[ToolCall] = ()) -> Message:
        return cls("assistant", text, tool_calls=tuple(tool_calls))

    @classmethod
    def tool(cls, tool_call_id: str, text: str, name: str = "", is_error: bool = False) -> Message:
        return cls("tool", text, tool_call_id=tool_call_id, name=name, is_error=is_error)

    @property
    def has_text(self) -> bool:
        return bool(self.content and self.content.strip())


def _require_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a str, not {type(value).__name__}")


def _require_all(field: str, values: Iterable[object], kind: type) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{field} must hold {kind.__name__} only, not {value!r}")


def require_messages(messages: Iterable[Message]) -> list[Message]:
    """A new list of `messages`; anything that is not a message raises TypeError."""
    if isinstance(messages, Message) or not isinstance(messages, Iterable):
        raise TypeError(f"messages must be an iterable of Message, not {messages!r}")
    found = list(messages)
    for position, each in enumerate(found):
        if not isinstance(each, Message):
            raise TypeError(f"messages[{position}] must be a Message, not {each!r}")
    return found


def to_data(message: Message) -> dict[str, Any]:
    """`message` as JSON-able data; fields that are empty are left out."""
    data: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.parts:
        data["parts"] = [dict(part) for part in message.parts]
    if message.tool_calls:
        data["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    for field in ("tool_call_id", "name", "is_error"):
        if value := getattr(message, field):
            data[field] = value
    return data


def from_data(data: Mapping[str, Any]) -> Message:
    """The message that `to_data` described; KeyError, TypeError or ValueError when it is none."""
    return Message(
        role=data["role"],
        content=data["content"],
        parts=tuple(data.get("parts", ())),
        tool_calls=tuple(
            ToolCall(call["id"], call["name"], call["arguments"])
            for call in data.get("tool_calls", ())
        ),
        tool_call_id=data.get("tool_call_id", ""),
        name=data.get("name", ""),
        is_error=data.get("is_error", False),
    )
