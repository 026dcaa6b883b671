"""Two requests side by side, message by message: what is the same, what came, what went.

Messages are told apart by where they stand in the conversation, not by comparing every text with
every other, so long requests of long texts cost one pass.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chat import records
from chat.models import ContextRecord
from memory.context import Assembled

SAME, CHANGED, ADDED, GONE = "same", "changed", "added", "gone"


@dataclass(frozen=True)
class Line:
    """One message of a request, as far as it can be compared."""

    role: str
    kind: str
    seq: int | None
    tokens: int
    text: str | None
    """None: it is gone, or not to be seen."""
    digest: str
    """Equal for messages that were sent alike."""

    @property
    def place(self) -> tuple[str, int | str]:
        """What makes it the same message in two requests, whatever stands in it."""
        return (self.role, self.seq) if self.seq is not None else (self.role, self.kind)


@dataclass(frozen=True)
class Sent:
    """A request to compare: its messages, and what else the endpoint reads before them."""

    lines: tuple[Line, ...]
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """A message of either request, or of both."""

    state: str
    before: Line | None
    after: Line | None

    @property
    def line(self) -> Line:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def tokens_before(self) -> int | None:
        return self.before.tokens if self.state == CHANGED and self.before else None


@dataclass(frozen=True)
class Difference:
    pairs: tuple[Pair, ...]
    prefix_messages: int
    prefix_tokens: int
    """Of the later request, up to the first message that is not the same."""
    tokens_before: int
    tokens_after: int
    parameters: tuple[str, ...]
    """Names of parameters that are not the same."""

    def count(self, state: str) -> int:
        return sum(pair.state == state for pair in self.pairs)

    @property
    def counts(self) -> dict[str, int]:
        return {state: self.count(state) for state in (SAME, CHANGED, ADDED, GONE)}

    @property
    def prefix_percent(self) -> int:
        return 100 * self.prefix_tokens // self.tokens_after if self.tokens_after else 0


# --- The two sides --------------------------------------------------------------------------------


def of_record(record: ContextRecord, rebuilt: records.Rebuilt, *, with_text: bool = True) -> Sent:
    """What a record's request held."""
    manifest = record.manifest if isinstance(record.manifest, dict) else {}
    wires = rebuilt.request["messages"]
    gone = [f"{kind} {identifier}" for _, kind, identifier in record.layout]
    lines = _lines(wires, manifest.get("parts") or (), gone, with_text)
    parameters = {name: value for name, value in rebuilt.request.items() if name != "messages"}
    return Sent(tuple(lines), parameters)


def of_assembled(
    assembled: Assembled, parameters: Mapping[str, Any], *, with_text: bool = True
) -> Sent:
    """What would be sent."""
    wires = [records.wire_message(each) for each in assembled.messages]
    lines = _lines(wires, assembled.manifest["parts"], (), with_text)
    return Sent(tuple(lines), parameters)


def _lines(
    wires: Sequence[Mapping[str, Any]],
    parts: Sequence[Any],
    gone: Sequence[str],
    with_text: bool,
) -> Iterable[Line]:
    """`gone` names each message where its text is missing, so that two of them are not alike."""
    for index, wire in enumerate(wires):
        part = parts[index] if index < len(parts) and isinstance(parts[index], Mapping) else {}
        text = records.text_of(wire)
        is_gone = wire["content"] is None and not wire.get("tool_calls") and index < len(gone)
        yield Line(
            role=wire["role"],
            kind=part.get("kind", ""),
            seq=part.get("seq"),
            tokens=part.get("tokens") or 0,
            text=text if with_text else None,
            digest=gone[index] if is_gone else _digest(wire, text),
        )


def _digest(wire: Mapping[str, Any], text: str | None) -> str:
    """Of everything that is sent, images by their number: a stored image never changes."""
    content = wire["content"]
    images = len(content) if isinstance(content, list) else 0
    plain = {**wire, "content": [text or "", images]}
    return hashlib.sha256(records.canonical(plain)).hexdigest()


# --- Their difference -----------------------------------------------------------------------------


def between(before: Sent, after: Sent) -> Difference:
    """What `after` holds that `before` did not, and the other way round, in the order sent."""
    prefix = list(
        itertools.takewhile(
            lambda both: both[0].digest == both[1].digest,
            zip(before.lines, after.lines, strict=False),
        )
    )
    names = sorted({*before.parameters, *after.parameters})
    return Difference(
        pairs=tuple(_pairs(before.lines, after.lines)),
        prefix_messages=len(prefix),
        prefix_tokens=sum(line.tokens for _, line in prefix),
        tokens_before=sum(line.tokens for line in before.lines),
        tokens_after=sum(line.tokens for line in after.lines),
        parameters=tuple(
            name for name in names if before.parameters.get(name) != after.parameters.get(name)
        ),
    )


def _pairs(before: Sequence[Line], after: Sequence[Line]) -> list[Pair]:
    earlier = {line.place: line for line in before}
    later = {line.place for line in after}
    pairs = [Pair(GONE, line, None) for line in before if line.place not in later]
    for line in after:
        known = earlier.get(line.place)
        if known is None:
            pairs.append(Pair(ADDED, None, line))
        else:
            state = SAME if known.digest == line.digest else CHANGED
            pairs.append(Pair(state, known, line))
    return sorted(pairs, key=lambda pair: pair.line.seq or 0)
