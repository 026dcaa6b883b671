"""Stores against Spring AI's ChatMemoryRepository, row by row and on every kind of store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memory.chat_memory import ChatMemory
from memory.messages import Message, ToolCall
from memory.window import WindowPolicy
from tests.memory.stores.kinds import EVERY_KIND, Kind

S = Message.system
U = Message.user
A = Message.assistant
T = Message.tool

IMAGE = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "A" * 200_000, "format": "wav"}}
CALLS = A(None, [ToolCall("c1", "f", '{"b":1,"a":2}'), ToolCall("c2", "g", "{}")])

# What is saved one after the other; the last save is what is found.
SAVES: dict[str, list[list[Message]]] = {
    "R01 an answer": [[A("a")]],
    "R01 a question": [[U("a")]],
    "R01 a system message": [[S("a")]],
    "R02": [[A("a"), U("b"), S("c")], [U("d")]],
    "R03": [[A("a"), A("b"), U("c"), S("d")]],
    "R05": [[U("d"), A("c"), U("b"), A("a")]],
    "R06": [[U(str(n)) for n in range(50)]],
    "R07": [[U("a"), T("c1", "x")]],
    "R11": [[U("x")], [U("y")]],
    "R17": [[A("")]],
    "R23": [[U("x", [IMAGE]), U("", [SOUND, IMAGE]), U("y", [])]],
    "R25": [[CALLS, T("c1", "5", "f"), T("c2", "6", "g")]],
    "R33": [[U("x" * 70_000), A("的" * 70_000)]],
    "R34": [[U("' \" \\ \n \t 😄 规则 {} % </x> \u200f"), A("\u0001\u001f\x7f\u2028")]],
}


@pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)
@pytest.mark.parametrize("row", SAVES)
def test_what_is_saved_is_found(kind: Kind, row: str) -> None:
    memory_id, other = kind.new_id(), kind.new_id()
    assert kind.store.load(memory_id) is None  # R10
    kind.store.replace(other, [U("other")])
    for saved in SAVES[row]:
        kind.store.replace(memory_id, saved)
        assert found(kind, memory_id) == saved
    kind.store.delete(memory_id)  # R14
    assert kind.again().load(memory_id) is None
    assert found(kind, other) == [U("other")]


def found(kind: Kind, memory_id: str) -> Sequence[Message]:
    snapshot = kind.again().load(memory_id)
    assert snapshot is not None
    return list(snapshot.messages)


@pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)
@pytest.mark.parametrize("bad", [None, [U("x"), None]])
def test_r13_and_r26_a_list_that_cannot_be_stored_leaves_the_old_one(kind: Kind, bad: Any) -> None:
    memory_id = kind.new_id()
    kind.store.replace(memory_id, [U("a"), A("b")])
    with pytest.raises(TypeError):
        kind.store.replace(memory_id, bad)
    assert found(kind, memory_id) == [U("a"), A("b")]


@pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)
def test_r15_the_list_that_was_saved_is_the_callers(kind: Kind) -> None:
    memory_id, saved = kind.new_id(), [U("a")]
    kind.store.replace(memory_id, saved)
    saved.clear()
    assert found(kind, memory_id) == [U("a")]


@pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)
def test_r18_deleting_leaves_none_of_many(kind: Kind) -> None:
    memory_id = kind.new_id()
    for n in range(25):
        kind.store.replace(memory_id, [U(str(each)) for each in range(n + 1)])
    kind.store.delete(memory_id)
    assert kind.store.load(memory_id) is None


@pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)
def test_r19_two_batches_of_three_are_six(kind: Kind) -> None:
    memory = ChatMemory(kind.new_id(), WindowPolicy(20), kind.store)
    memory.add(U("1"), U("2"), U("3"))
    memory.add(U("4"), U("5"), U("6"))
    assert [each.content for each in memory.messages()] == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize(
    "kind", [each for each in EVERY_KIND if "database" not in str(each)], indirect=True
)
def test_r21_and_r35_ids_are_literal(kind: Kind) -> None:
    """On the database an id is the id of a session."""
    ids = ["a:b", "a@b#", "x" * 50, "Chat-1", "chat-1", "x' OR '1'='1", "a}|{b", "会话", "*", "a%b"]
    for memory_id in ids:
        kind.store.replace(memory_id, [U(memory_id)])
    for memory_id in ids:
        assert found(kind, memory_id) == [U(memory_id)]
    for bad in ("chat-1 ", " chat-1", ""):
        with pytest.raises(ValueError, match="memory id"):
            kind.store.load(bad)
