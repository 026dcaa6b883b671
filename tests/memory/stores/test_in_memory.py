"""The in-memory store beside the contract."""

from __future__ import annotations

import subprocess
import sys
import threading

from memory.chat_memory import ChatMemory
from memory.messages import Message
from memory.stores import InMemoryStore
from memory.window import WindowPolicy

U = Message.user


def test_ids_are_compared_exactly() -> None:
    store = InMemoryStore()
    for name in ("Chat-1", "chat-1", "chat:1", "chat@1#"):
        store.replace(name, [U(name)])
    store.delete("chat-1")
    assert store.load("chat-1") is None
    assert store.load("Chat-1").messages == (U("Chat-1"),)  # type: ignore[union-attr]


def test_four_times_200_adds_of_threads_are_all_there_in_order() -> None:
    store, policy = InMemoryStore(), WindowPolicy(1_000, align_to_turns=False)

    def write(name: str) -> None:
        memory = ChatMemory("m", policy, store)
        for n in range(200):
            memory.add(U(f"{name}-{n}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = [each.content or "" for each in ChatMemory("m", policy, store).messages()]
    assert len(found) == 800
    for name in "abcd":
        mine = [text for text in found if text.startswith(name)]
        assert mine == [f"{name}-{n}" for n in range(200)]


def test_no_store_on_django_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, memory.stores, memory.chat_memory, memory.history\n"
        "assert 'django' not in sys.modules, 'Django was imported'\n"
        "assert 'memory.models' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
