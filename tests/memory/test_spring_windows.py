"""Windows of whole exchanges against Spring AI's MessageWindowChatMemory, row by row.

S, U and A are messages of system, user and assistant; Ac asks for a tool call, T is its result.
Each row: the limit, what is added (one list an add), what is then there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from memory.chat_memory import ChatMemory
from memory.messages import Message, ToolCall
from memory.stores import InMemoryStore, Snapshot
from memory.window import WindowPolicy, WindowTooSmall


@dataclass(frozen=True)
class Row:
    limit: int
    adds: list[str]
    expected: str
    spring: str = ""
    """What Spring AI has there, where it is something else."""
    refused: tuple[int, ...] = ()
    """Which of the adds the window cannot hold: WindowTooSmall, and nothing changes."""


ROWS = {
    "W04": Row(20, ["A U"], "A U"),
    "W05": Row(20, ["U1"], "U1"),
    "W12": Row(2, ["U1 A1 U2 A2 U3"], "U3"),
    "W13": Row(3, ["U1 A1", "U2"], "U1 A1 U2"),
    "W14": Row(2, ["U1 A1", "U2 A2"], "U2 A2"),
    "W16": Row(3, ["S1 S2 U1 A1", "U2 A2"], "S2 U2 A2", spring="S1 S2"),
    "W17": Row(3, ["U1 A1 U2 A2 U3 A3"], "U3 A3"),
    "W18": Row(4, ["U1 Aa Ab Ax U2 A2"], "U2 A2"),
    "W20": Row(2, ["S1 S2", "U1 A1 U2"], "S2 U2", spring="S1 S2"),
    "W21": Row(2, ["S1 S2", "S3"], "S3"),
    "W22": Row(2, ["S1 S2", "U1 A1"], "S2", spring="S1 S2", refused=(1,)),
    "W24": Row(4, ["S1 U1", "S1 U2", "S1 U3"], "S1 U1 U2 U3", spring="S1 S1 S1 U3"),
    "W25": Row(3, ["U1", "Ac", "T", "A1", "U2"], "U2", refused=(3,)),
    "W26": Row(
        4, ["U1", "Ac", "T", "Ac", "T", "A1", "U2"], "U2", spring="A1 U2", refused=(4,)
    ),
    "W28": Row(2, ["A1 A2 A3"], "", spring="", refused=(0,)),
    "W29": Row(2, ["U1 U2 U3"], "U2 U3"),
    "W30": Row(3, ["A0 U1 A1", "U2"], "U1 A1 U2"),
    "W32": Row(4, ["U1 S1 A1 U2 A2 U3"], "S1 U2 A2 U3"),
    "W32 below the limit": Row(9, ["U1 S1 A1 U2 A2 U3"], "U1 S1 A1 U2 A2 U3"),
    "W33": Row(20, ["U1", "", ""], "U1"),
}  # fmt: skip


def message(name: str) -> Message:
    if name == "Ac":
        return Message.assistant(None, [ToolCall("c", "f")])
    if name == "T":
        return Message.tool("c", "x")
    role: Any = {"S": "system", "U": "user", "A": "assistant"}[name[0]]
    return Message(role, name)


def messages(names: str) -> list[Message]:
    return [message(name) for name in names.split()]


def policy(limit: int) -> WindowPolicy:
    return WindowPolicy(limit, system_first=False)


@pytest.mark.parametrize("row", ROWS)
def test_a_window_of_whole_exchanges_does_what_spring_ai_does_or_better(row: str) -> None:
    case = ROWS[row]
    memory = ChatMemory("m", policy(case.limit), InMemoryStore())
    for position, names in enumerate(case.adds):
        if position in case.refused:
            before = memory.messages()
            with pytest.raises(WindowTooSmall):
                memory.add(*messages(names))
            assert memory.messages() == before
        else:
            memory.add(*messages(names))
    assert memory.messages() == messages(case.expected)
    assert case.expected != case.spring or not case.spring
    memory.clear()
    assert memory.messages() == []


@pytest.mark.parametrize("row", ["U1 Ac T A1 U2", "U1 Ac T Ac T A1 U2 A2", "Ac T A1 U2 A2", "T U1"])
@pytest.mark.parametrize("limit", [2, 3, 4, 5, 6])
def test_no_window_begins_with_a_result_or_in_the_middle_of_a_turn(row: str, limit: int) -> None:
    """W25 and W26, for every limit."""
    memory = ChatMemory("m", policy(limit), InMemoryStore())
    beginnings = []
    for name in row.split():
        try:
            memory.add(message(name))
        except WindowTooSmall:
            continue
        beginnings += [each.role for each in memory.messages()[:1]]
    assert "tool" not in beginnings
    if row.startswith("U"):
        assert set(beginnings) == {"user"}


@pytest.mark.parametrize("limit", [0, -1], ids=["W01", "W02"])
def test_a_limit_that_is_not_positive_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_messages is {limit}"):
        WindowPolicy(limit)


class Untouched(InMemoryStore):
    """A store that must not be asked for anything."""

    def load(self, memory_id: str) -> Snapshot | None:
        raise AssertionError("the store was touched")


def test_without_an_id_there_is_no_memory() -> None:
    """W06."""
    with pytest.raises(TypeError, match="memory id must be a str, not NoneType"):
        ChatMemory(None, policy(3), Untouched())  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [[None], ["U1", None], [[]]], ids=["W09", "W10", "W08"])
def test_what_is_no_message_is_refused_with_the_whole_batch(given: Any) -> None:
    memory = ChatMemory("m", policy(3), Untouched())
    with pytest.raises(TypeError, match="must be a Message"):
        memory.add(*(message(each) if each and isinstance(each, str) else each for each in given))
    with pytest.raises(TypeError, match="must be an iterable of Message"):
        memory.set(None)  # type: ignore[arg-type]
