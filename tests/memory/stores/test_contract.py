"""What every store keeps to, and ChatMemory over each of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from memory.chat_memory import ChatMemory
from memory.messages import Message, ToolCall
from memory.stores import RebuildNeeded, RevisionConflict
from memory.window import WindowPolicy
from tests.memory.stores.kinds import (
    DATABASE_IN_THREADS,
    EVERY_KIND,
    EVERY_KIND_IN_THREADS,
    KINDS_THAT_CAN_SPOIL,
    Kind,
)

U = Message.user
A = Message.assistant

on_every_store = pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)
from_many_threads = pytest.mark.parametrize("kind", EVERY_KIND_IN_THREADS, indirect=True)
on_stores_that_can_be_spoilt = pytest.mark.parametrize("kind", KINDS_THAT_CAN_SPOIL, indirect=True)

LONG = 70_000
TEXTS = [
    "",
    'it\'s "quoted" \\ back\nnew\ttab\r\n',
    "{} {,} {q} %s %(x)s </x> ${y} #{z}",
    "规则 青云-4173",
    "שלום עולם \u202e",
    "👋👨‍👩‍👧 e\u0301",
    "x" * LONG,
    "的" * LONG,
]


def contents(messages: Any) -> list[str]:
    return [each.content for each in messages]


def in_threads(*calls: Callable[[], None]) -> None:
    """Run the calls at once; the first error of any of them is raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], None]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]


# --- What comes back


@on_every_store
def test_what_was_never_stored_is_none(kind: Kind) -> None:
    assert kind.store.load(kind.new_id()) is None


@on_every_store
def test_messages_come_back_as_they_were(kind: Kind) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = (
        Message.system("规则"),
        U("x", name="Ana", parts=[image, {"type": "kept", "message": {"a": [1, 2.5, None]}}]),
        A(None, [ToolCall("c1", "f", '{"b":1,"a":2}'), ToolCall("c2", "g", "not JSON")]),
        Message.tool("c1", "5", "f"),
        Message.tool("c2", "שלום", "g", is_error=True),
        *(U(text) for text in TEXTS),
        *(A(text) for text in TEXTS),
    )
    memory_id = kind.new_id()
    stored = kind.store.replace(memory_id, messages)
    assert (stored.memory_id, stored.messages) == (memory_id, messages)
    assert kind.store.load(memory_id) == stored
    assert kind.again().load(memory_id) == stored


@on_every_store
def test_what_a_store_cannot_hold_is_replaced_and_shown(kind: Kind) -> None:
    memory_id = kind.new_id()
    stored = kind.store.replace(memory_id, [U("a\x00b\ud83d")])
    assert stored.messages in {(U("a\x00b\ud83d"),), (U("ab\ufffd"),)}
    assert kind.store.load(memory_id) == stored


@on_every_store
def test_fifty_at_once_keep_their_order(kind: Kind) -> None:
    memory_id = kind.new_id()
    kind.store.replace(memory_id, [U(str(n)) for n in range(50)])
    found = kind.store.load(memory_id)
    assert found is not None
    assert contents(found.messages) == [str(n) for n in range(50)]


@on_every_store
def test_a_replacement_is_whole_and_an_empty_one_counts(kind: Kind) -> None:
    memory_id = kind.new_id()
    first = kind.store.replace(memory_id, [U("a"), A("b")])
    second = kind.store.replace(memory_id, [])
    assert (second.messages, second.revision) == ((), first.revision + 1)
    assert kind.store.load(memory_id) == second
    third = kind.store.replace(memory_id, [U("c")])
    assert kind.store.load(memory_id) == third
    assert third.messages == (U("c"),)


@on_every_store
def test_nothing_that_the_caller_holds_is_shared(kind: Kind) -> None:
    memory_id = kind.new_id()
    part: dict[str, Any] = {"type": "text", "text": "a"}
    given = [U("x", parts=[part])]
    kind.store.replace(memory_id, given)
    given.clear()
    part["text"] = "changed"
    for _ in range(2):
        found = kind.store.load(memory_id)
        assert found is not None
        assert found.messages[0].parts == ({"type": "text", "text": "a"},)
        found.messages[0].parts[0]["text"] = "changed too"  # a caller may


@on_every_store
def test_ids_do_not_mix_and_deleting_is_repeatable(kind: Kind) -> None:
    mine, other = kind.new_id(), kind.new_id()
    kind.store.replace(mine, [U(str(n)) for n in range(12)])
    kind.store.replace(other, [U("other")])
    kind.store.delete(mine)
    kind.store.delete(mine)
    assert kind.store.load(mine) is None
    assert contents(kind.store.load(other).messages) == ["other"]  # type: ignore[union-attr]


# --- What is refused


@on_every_store
@pytest.mark.parametrize("bad", [None, 1, "", " x", "x ", "x" * 192, b"x"])
def test_a_bad_id_is_refused_everywhere(kind: Kind, bad: Any) -> None:
    for act in (kind.store.load, kind.store.delete, lambda each: kind.store.replace(each, [])):
        with pytest.raises((TypeError, ValueError), match="memory id"):
            act(bad)


@on_every_store
@pytest.mark.parametrize("bad", [None, [None], [U("b"), None], U("x"), 7])
def test_what_is_no_list_of_messages_is_refused_and_nothing_is_replaced(
    kind: Kind, bad: Any
) -> None:
    memory_id = kind.new_id()
    stored = kind.store.replace(memory_id, [U("a")])
    with pytest.raises(TypeError):
        kind.store.replace(memory_id, bad)
    assert kind.store.load(memory_id) == stored


# --- Revisions


@on_every_store
def test_an_expected_revision_guards_the_write(kind: Kind) -> None:
    memory_id = kind.new_id()
    with pytest.raises(RevisionConflict, match="has revision 0, expected 7"):
        kind.store.replace(memory_id, [U("x")], expected_revision=7)
    assert kind.store.load(memory_id) is None
    first = kind.store.replace(memory_id, [U("a")], expected_revision=0)
    for stale in (0, first.revision - 1, first.revision + 1):
        with pytest.raises(RevisionConflict) as refused:
            kind.store.replace(memory_id, [U("b")], expected_revision=stale)
        assert (refused.value.found, refused.value.expected) == (first.revision, stale)
    assert kind.store.load(memory_id) == first
    second = kind.store.replace(memory_id, [U("c")], expected_revision=first.revision)
    assert kind.store.load(memory_id) == second


@on_every_store
def test_a_window_that_was_deleted_and_written_again_is_not_taken_for_the_old_one(
    kind: Kind,
) -> None:
    memory_id = kind.new_id()
    old = kind.store.replace(memory_id, [U("secret")])
    kind.store.delete(memory_id)
    with pytest.raises(RevisionConflict):
        kind.store.replace(memory_id, [U("secret"), A("late")], expected_revision=old.revision)
    assert kind.store.load(memory_id) is None
    new = kind.store.replace(memory_id, [U("fresh")], expected_revision=0)
    with pytest.raises(RevisionConflict):
        kind.store.replace(memory_id, [U("secret"), A("late")], expected_revision=old.revision)
    assert kind.store.load(memory_id) == new


@from_many_threads
def test_of_writers_that_expect_the_same_revision_one_gets_through(kind: Kind) -> None:
    memory_id = kind.new_id()
    expected = 0
    for _ in range(5):
        through: list[str] = []
        calls = [lambda name=name: write(name) for name in "abcd"]

        def write(name: str, expected: int = expected, through: list[str] = through) -> None:
            try:
                kind.again().replace(memory_id, [U(name)], expected_revision=expected)
            except RevisionConflict:
                return
            through.append(name)

        in_threads(*calls)
        assert len(through) == 1
        found = kind.store.load(memory_id)
        assert found is not None
        assert contents(found.messages) == through
        expected = found.revision


# --- What was spoilt


@on_stores_that_can_be_spoilt
def test_a_message_that_cannot_be_read_becomes_its_plain_text(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    memory_id = kind.new_id()
    kind.store.replace(memory_id, [U("first"), A("second")])
    spoilt = [
        {"role": "user", "content": "first"},
        {"role": "sorcerer", "content": "second"},
        {"role": "assistant", "content": "third", "tool_calls": ["broken"]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "fourth", "name": 7},
        {"role": "user", "content": "fifth", "parts": "broken"},
        "sixth",
        None,
    ]
    kind.spoil(memory_id, spoilt)
    with caplog.at_level(logging.WARNING, "memory"):
        found = kind.store.load(memory_id)
    assert found is not None
    assert list(found.messages) == [
        U("first"),
        U("second"),
        A("third"),
        A(""),
        U("fourth"),
        U("fifth"),
        U("sixth"),
        U(""),
    ]
    assert caplog.text.count("cannot be read") == 7
    assert "second" not in caplog.text


@on_stores_that_can_be_spoilt
@pytest.mark.parametrize(
    ("messages", "version", "why"),
    [
        ([{"role": "user", "content": "x"}], 99, "version"),
        ({"role": "user"}, 1, "unreadable"),
        ("text", 1, "unreadable"),
        (7, 1, "unreadable"),
    ],
)
def test_a_window_that_cannot_be_read_asks_for_a_rebuild_and_can_be_replaced(
    kind: Kind, messages: Any, version: int, why: str
) -> None:
    memory_id = kind.new_id()
    memory = ChatMemory(memory_id, WindowPolicy(3), kind.store)
    memory.set([U("a")])
    kind.spoil(memory_id, messages, version)
    for act in (lambda: kind.store.load(memory_id), memory.messages, lambda: memory.add(U("b"))):
        with pytest.raises(RebuildNeeded, match="build it again from the history") as asked:
            act()
        assert asked.value.why == why
    memory.set([U("rebuilt")])
    assert memory.messages() == [U("rebuilt")]
    kind.spoil(memory_id, messages, version)
    memory.clear()
    assert memory.messages() == []


# --- ChatMemory over it


@on_every_store
def test_the_minimal_window_demo(kind: Kind) -> None:
    """Window size 3, oldest 已记住, restored 3, another session 0, after clear 0."""
    first, second = kind.new_id(), kind.new_id()
    policy = WindowPolicy(3, align_to_turns=False)
    memory = ChatMemory(first, policy, kind.store)
    for message in (U("项目代号是青云-4173"), A("已记住"), U("请用 Java 举例"), A("好的")):
        memory.add(message)
    assert len(memory.messages()) == 3
    assert memory.messages()[0] == A("已记住")
    restored = ChatMemory(first, policy, kind.again())
    assert len(restored.messages()) == 3
    assert len(ChatMemory(second, policy, kind.again()).messages()) == 0
    memory.clear()
    assert len(restored.messages()) == 0


@from_many_threads
def test_adds_at_once_are_all_kept_in_order_and_what_came_together_stays_together(
    kind: Kind,
) -> None:
    memory_id = kind.new_id()
    policy = WindowPolicy(1_000)

    def write(name: str) -> None:
        memory = ChatMemory(memory_id, policy, kind.again())
        for n in range(6):
            memory.add(U(f"{name}-{n}"), A(f"{name}-{n}!"))

    in_threads(*(lambda name=name: write(name) for name in "abcd"))
    found = contents(ChatMemory(memory_id, policy, kind.store).messages())
    assert len(found) == 48
    assert found[1::2] == [f"{text}!" for text in found[::2]]
    for name in "abcd":
        mine = [text for text in found[::2] if text.startswith(name)]
        assert mine == [f"{name}-{n}" for n in range(6)]


@from_many_threads
def test_clearing_while_others_add_brings_nothing_back(kind: Kind) -> None:
    memory_id = kind.new_id()
    policy = WindowPolicy(1_000, align_to_turns=False)

    def write() -> None:
        memory = ChatMemory(memory_id, policy, kind.again())
        for n in range(15):
            memory.add(U(str(n)))

    def clear() -> None:
        memory = ChatMemory(memory_id, policy, kind.again())
        for _ in range(5):
            memory.clear()

    in_threads(write, clear)
    found = [int(text) for text in contents(ChatMemory(memory_id, policy, kind.store).messages())]
    assert found == list(range(15))[len(range(15)) - len(found) :]


@from_many_threads
async def test_the_async_methods_do_what_the_others_do(kind: Kind) -> None:
    memory_id = await asyncio.to_thread(new_id_in_thread, kind)
    memory = ChatMemory(memory_id, WindowPolicy(40), kind.store)
    assert await memory.amessages() == []
    await memory.aset(iter([U("q"), A("a")]))
    await asyncio.gather(*(memory.aadd(U(f"q{n}"), A(f"a{n}")) for n in range(15)))
    found = contents(await memory.amessages())
    assert found[:2] == ["q", "a"]
    assert sorted(found[2::2]) == sorted(f"q{n}" for n in range(15))
    assert found[3::2] == [text.replace("q", "a") for text in found[2::2]]
    with pytest.raises(TypeError, match=r"messages\[0\] must be a Message"):
        await memory.aadd(None)  # type: ignore[arg-type]
    await memory.aclear()
    assert await memory.amessages() == []


def new_id_in_thread(kind: Kind) -> str:
    try:
        return kind.new_id()
    finally:
        connection.close()


@pytest.mark.parametrize("kind", [DATABASE_IN_THREADS], indirect=True)
async def test_a_task_that_is_cancelled_leaves_the_store_usable(kind: Kind) -> None:
    memory_id = await asyncio.to_thread(new_id_in_thread, kind)
    memory = ChatMemory(memory_id, WindowPolicy(40), kind.store)
    task = asyncio.create_task(memory.aadd(U("q")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await memory.aadd(U("r"))
    assert contents(await memory.amessages()) in (["q", "r"], ["r"])
