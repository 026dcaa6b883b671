"""Messages as other systems store them: LangChain4j, Spring AI, OpenAI.

`loads` never fails on what a message holds. A message that has something a Message has no place
for (attributes, an unknown field or type, another order) keeps its JSON beside what could be read,
in a part of type "kept"; `dumps` in the same dialect writes it back as it was, as long as nobody
has changed the message. Such parts are never sent and cost no tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from memory.formats import langchain4j, openai, spring
from memory.formats.json_text import FormatError, parse, write
from memory.formats.values import text_of
from memory.messages import KEPT, Message, require_messages

__all__ = ["DIALECTS", "FormatError", "dumps", "loads", "without_kept"]


class _Dialect(Protocol):
    def read(self, data: Mapping[str, Any]) -> list[Message]:
        """The messages that one JSON object describes, at least one."""

    def write(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The JSON objects for messages without anything kept."""


_DIALECTS: dict[str, _Dialect] = {"langchain4j": langchain4j, "spring": spring, "openai": openai}
DIALECTS = tuple(_DIALECTS)


def loads(text: str, dialect: str = "langchain4j") -> list[Message]:
    """The messages in JSON text: a list, one object, or an object with a list named "messages".

    Raises FormatError when the text is no JSON.
    """
    rules = _dialect(dialect)
    found: list[Message] = []
    for item in _items(parse(text)):
        messages = _read(item, rules)
        if write(rules.write(messages)) != write([item]):
            # As text: a database that stores JSON by value forgets the order of its keys.
            kept = {"type": KEPT, "dialect": dialect, "json": write(item)}
            messages[0] = replace(messages[0], parts=(*messages[0].parts, kept))
        found += messages
    return found


def dumps(messages: Message | Iterable[Message], dialect: str = "langchain4j") -> str:
    """JSON text of `messages`: a list, or for a single Message one object."""
    rules = _dialect(dialect)
    if isinstance(messages, Message):
        return write(_write([messages], dialect, rules)[0])
    return write(_write(require_messages(messages), dialect, rules))


def without_kept(message: Message) -> Message:
    """`message` without what is kept for a dialect."""
    parts = tuple(part for part in message.parts if part.get("type") != KEPT)
    return replace(message, parts=parts) if len(parts) != len(message.parts) else message


def _dialect(name: str) -> _Dialect:
    if name not in _DIALECTS:
        raise ValueError(f"unknown dialect {name!r}; use one of {', '.join(DIALECTS)}")
    return _DIALECTS[name]


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _read(item: Any, rules: _Dialect) -> list[Message]:
    if isinstance(item, dict):
        return rules.read(item)
    return [Message.user(text_of(item))]


def _write(messages: Sequence[Message], dialect: str, rules: _Dialect) -> list[Any]:
    written: list[Any] = []
    plain: list[Message] = []
    position = 0
    while position < len(messages):
        item, covers = _kept(messages, position, dialect, rules)
        if covers:
            written += [*rules.write(plain), item]
            plain.clear()
            position += covers
        else:
            plain.append(without_kept(messages[position]))
            position += 1
    return [*written, *rules.write(plain)]


def _kept(
    messages: Sequence[Message], position: int, dialect: str, rules: _Dialect
) -> tuple[Any, int]:
    """What is kept of the message at `position`, and how many from there on it stands for; 0 when
    there is nothing, or they were changed since."""
    for part in messages[position].parts:
        if part.get("type") != KEPT or part.get("dialect") != dialect:
            continue
        try:
            item = parse(text_of(part.get("json")))
        except FormatError:
            continue  # not of our making
        meant = _read(item, rules)
        if [without_kept(each) for each in messages[position : position + len(meant)]] == meant:
            return item, len(meant)
    return None, 0
