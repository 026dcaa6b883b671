from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.stores import InMemoryStore, RevisionConflict, Snapshot
from memory.window import WindowPolicy, WindowTooSmall

U = Message.user
A = Message.assistant
S = Message.system
EXACT = WindowPolicy(3, align_to_turns=False)


@pytest.mark.parametrize("bad", [None, 1, b"x", "", " ", "x ", "\tx", "x" * 192])
def test_an_id_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="memory id"):
        ChatMemory(bad, EXACT, InMemoryStore())


@pytest.mark.parametrize("good", ["1", "x" * 191, "tenant-1:user-42:session-1001", "会话", "a b"])
def test_any_other_id_has_a_memory_of_its_own(good: str) -> None:
    store = InMemoryStore()
    ChatMemory(good, EXACT, store).add(U("x"))
    assert ChatMemory(good, EXACT, store).messages() == [U("x")]
    assert ChatMemory(good[:-1] + "~", EXACT, store).messages() == []


def test_one_add_of_an_exchange_is_one_write() -> None:
    store = InMemoryStore()
    memory = ChatMemory("m", WindowPolicy(4), store)
    memory.add(U("q"), A("a"))
    first = store.load("m")
    memory.add()
    assert store.load("m") == first
    memory.add(U("r"), A("b"))
    second = store.load("m")
    assert first is not None
    assert second is not None
    assert second.revision == first.revision + 1
    assert second.messages == (U("q"), A("a"), U("r"), A("b"))


def test_whole_exchanges_leave_together() -> None:
    memory = ChatMemory("m", WindowPolicy(4), InMemoryStore())
    for n in range(3):
        memory.add(U(f"q{n}"), A(f"a{n}"))
    assert memory.messages() == [U("q1"), A("a1"), U("q2"), A("a2")]


def test_an_exchange_that_no_window_can_hold_is_refused_and_nothing_is_stored() -> None:
    memory = ChatMemory("m", WindowPolicy(2), InMemoryStore())
    memory.add(U("q"), A("a"))
    with pytest.raises(WindowTooSmall):
        memory.add(A("b"))
    assert memory.messages() == [U("q"), A("a")]


def test_another_system_message_replaces_the_first() -> None:
    memory = ChatMemory("m", WindowPolicy(4), InMemoryStore())
    memory.add(S("old"), U("q"), A("a"))
    memory.add(S("new"))
    assert memory.messages() == [S("new"), U("q"), A("a")]


def test_the_policy_is_asked_at_every_call() -> None:
    limits = {"m": 2}
    store = InMemoryStore()
    memory = ChatMemory("m", lambda key: WindowPolicy(limits[key]), store)
    memory.add(U("q1"), A("a1"))
    limits["m"] = 4
    memory.add(U("q2"), A("a2"))
    assert memory.messages() == [U("q1"), A("a1"), U("q2"), A("a2")]
    limits["m"] = 2
    assert memory.messages() == [U("q2"), A("a2")]
    limits["m"] = 0
    with pytest.raises(ValueError, match="max_messages is 0"):
        memory.add(U("q3"))
    assert len(store.load("m").messages) == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", [None, 20, "20"])
def test_what_is_no_policy_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="WindowPolicy"):
        ChatMemory("m", bad, InMemoryStore())
    with pytest.raises(TypeError, match="answered"):
        ChatMemory("m", lambda _: bad, InMemoryStore()).messages()


def test_tokens_are_counted_exactly_unless_another_counter_is_given() -> None:
    policy = WindowPolicy(None, max_tokens=12)
    memory = ChatMemory("m", policy, InMemoryStore())
    memory.add(U("hello world"), A("hello world"))  # 2 x (2 + 4)
    assert len(memory.messages()) == 2
    with pytest.raises(WindowTooSmall):
        memory.add(A("hello world"))


def test_a_store_that_always_conflicts_is_an_error_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory.stores.base.ATTEMPTS", 5)
    writes = []

    class Contended(InMemoryStore):
        def replace(
            self,
            memory_id: str,
            messages: Iterable[Message],
            *,
            expected_revision: int | None = None,
        ) -> Snapshot:
            writes.append(memory_id)
            raise RevisionConflict(memory_id, expected_revision or 0, 7)

    with pytest.raises(RevisionConflict, match="has revision 7, expected 0"):
        ChatMemory("m", EXACT, Contended()).add(U("x"))
    assert len(writes) == 5
