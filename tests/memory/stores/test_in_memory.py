from __future__ import annotations

from typing import Any

import pytest

from memory.messages import Message
from memory.stores import InMemoryStore, RevisionConflict

U = Message.user


def test_what_was_never_stored_is_none() -> None:
    assert InMemoryStore().load("m") is None


def test_a_replacement_is_whole_and_an_empty_one_counts() -> None:
    store = InMemoryStore()
    assert store.replace("m", [U("a"), U("b")]).revision == 1
    assert store.replace("m", [U("c")]).messages == (U("c"),)
    empty = store.replace("m", [])
    assert (empty.messages, empty.revision) == ((), 3)
    assert store.load("m") == empty


def test_an_expected_revision_guards_the_write() -> None:
    store = InMemoryStore()
    store.replace("m", [U("a")], expected_revision=0)
    with pytest.raises(RevisionConflict, match="has revision 1, expected 0"):
        store.replace("m", [U("b")], expected_revision=0)
    store.replace("m", [U("c")], expected_revision=1)
    assert store.load("m").messages == (U("c"),)  # type: ignore[union-attr]


def test_ids_do_not_mix_and_deleting_is_repeatable() -> None:
    store = InMemoryStore()
    for name in ("Chat-1", "chat-1", "chat:1", "chat@1#"):
        store.replace(name, [U(name)])
    store.delete("chat-1")
    store.delete("chat-1")
    assert store.load("chat-1") is None
    assert store.load("Chat-1").messages == (U("Chat-1"),)  # type: ignore[union-attr]


def test_nothing_that_the_caller_holds_is_shared() -> None:
    store = InMemoryStore()
    part: dict[str, Any] = {"type": "text", "text": "a"}
    given = [Message.user("x", parts=[part])]
    store.replace("m", given)
    given.clear()
    part["text"] = "changed"
    found = store.load("m")
    assert found is not None
    assert found.messages[0].parts == ({"type": "text", "text": "a"},)
    found.messages[0].parts[0]["text"] = "changed too"
    again = store.load("m")
    assert again is not None
    assert again.messages[0].parts == ({"type": "text", "text": "a"},)


@pytest.mark.parametrize("bad", [None, 1, "", " x"])
def test_a_bad_id_is_refused_everywhere(bad: Any) -> None:
    store = InMemoryStore()
    for act in (store.load, store.delete, lambda each: store.replace(each, [])):
        with pytest.raises((TypeError, ValueError), match="memory id"):
            act(bad)


@pytest.mark.parametrize("bad", [None, [None], U("x")])
def test_what_is_no_list_of_messages_is_refused_and_nothing_is_replaced(bad: Any) -> None:
    store = InMemoryStore()
    store.replace("m", [U("a")])
    with pytest.raises(TypeError):
        store.replace("m", bad)
    assert store.load("m").messages == (U("a"),)  # type: ignore[union-attr]


def test_the_database_store_is_not_imported_before_it_is_asked_for() -> None:
    import subprocess
    import sys

    code = (
        "import sys, memory.stores, memory.chat_memory, memory.history\n"
        "assert 'django' not in sys.modules, 'Django was imported'\n"
        "assert 'memory.models' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
