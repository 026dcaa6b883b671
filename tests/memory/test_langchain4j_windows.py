"""Message-exact windows against LangChain4j's own behaviour, case by case."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memory.chat_memory import ChatMemory
from memory.formats import dumps, loads
from memory.messages import Message, ToolCall
from memory.stores import InMemoryStore, Snapshot
from memory.window import WindowPolicy

CASES = {
    case["id"]: case
    for case in json.loads(
        Path(__file__).with_name("langchain4j_windows.json").read_text(encoding="utf-8")
    )["cases"]
}

# Deliberately otherwise: what is stored (or read) after the operation with that index. LangChain4j
# keeps a tool result whose request is gone and sends it to the model, which refuses it.
OTHERWISE: dict[str, Mapping[int, list[str]]] = {
    "MW33": {0: ["U:q", "A:x", "U:r"]},
    "MW34": {0: ["S:s", "U:r"]},
    "MW36": {0: ["U:q", "A:x", "U:r"]},
    "MW37": {4: [], 5: []},
    "MW89": {6: []},
    "TW18": {4: []},
}
LEFT_OUT = {
    "MW07": "custom messages come in through memory.formats (its own test is below)",
    "MW79": "there is no default id: sessions without an id of their own would share one",
    "MW88": "a store answers None for what it does not hold (its own test is below)",
    "TW12": "the overhead of a request is charged by the budget, not by the window",
}

MESSAGE = re.compile(r"(?P<kind>[SUAT])(?P<ids>[?\d,]*)[:=]?(?P<text>.*?)(#(?P<cost>\d+))?$")


class CountingStore(InMemoryStore):
    """An InMemoryStore that notes its calls by their LangChain4j names, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.failing: dict[str, int] = {}

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.failing:
            self.failing[call] -= 1
            if self.failing[call] < 0:
                raise ConnectionError("the store is down")

    def load(self, memory_id: str) -> Snapshot | None:
        self._note("get")
        return super().load(memory_id)

    def replace(
        self,
        memory_id: str,
        messages: Iterable[Message],
        *,
        expected_revision: int | None = None,
    ) -> Snapshot:
        self._note("update")
        return super().replace(memory_id, messages, expected_revision=expected_revision)

    def delete(self, memory_id: str) -> None:
        self._note("delete")
        super().delete(memory_id)


class Replay:
    """Runs the operations of one case."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.case = case
        self.limit = case["limit"]
        self.costs: dict[Message, int] = {}
        self.counter_fails = False
        self.store = CountingStore()
        memories = case.get("memories") or {"m": {"id": "m", "limit": None}}
        self.memories = {name: self._memory(**fields) for name, fields in memories.items()}
        self.id = next(iter(self.memories.values())).memory_id
        if "preload" in case:
            self.store.replace(self.id, self.parse_all(case["preload"]))
            self.store.calls.clear()

    def _memory(self, id: str, limit: int | None) -> ChatMemory:  # noqa: A002
        policy: Any = self.policy(limit if limit is not None else self.limit)
        if self.case.get("dynamic"):
            policy = lambda _: self.policy(self.limit)  # noqa: E731
        return ChatMemory(id, policy, self.store, count_tokens=self.count)

    def policy(self, limit: int | None) -> WindowPolicy:
        flags: dict[str, Any] = {
            "align_to_turns": False,
            "system_first": self.case["system_first"],
        }
        if self.case["kind"] == "mw":
            return WindowPolicy(max_messages=limit, **flags)
        limit = limit and limit - self.case["overhead"]
        return WindowPolicy(max_messages=None, max_tokens=limit, **flags)

    def count(self, message: Message) -> int:
        if self.counter_fails:
            raise RuntimeError("the counter is down")
        return self.costs[message]

    def parse(self, text: str) -> Message:
        found = MESSAGE.match(text)
        assert found, text
        body, ids = found["text"], found["ids"]
        if found["kind"] == "S":
            message = Message.system(body)
        elif found["kind"] == "U":
            message = Message.user(body)
        elif found["kind"] == "T":
            message = Message.tool(ids, body)
        elif ids:
            calls = tuple(ToolCall(each, "f") for each in ids[1:].split(","))
            message = Message.assistant(body or None, calls)
        else:
            message = Message.assistant(body)
        self.costs[message] = int(found["cost"] or 1)
        return message

    def parse_all(self, texts: Iterable[str]) -> list[Message]:
        return [self.parse(each) for each in texts]

    def stored(self) -> list[Message]:
        snapshot = InMemoryStore.load(self.store, self.id)
        return list(snapshot.messages) if snapshot else []

    def run(self, step: Mapping[str, Any]) -> None:
        self.store.calls.clear()
        memory = self.memories[step.get("mem", next(iter(self.memories)))]
        if "error" in step:
            with pytest.raises((ValueError, TypeError, ConnectionError)):
                self.act(memory, step)
        else:
            self.act(memory, step)
        if "calls" in step:
            assert self.store.calls == step["calls"]
        if "stored" in step:
            assert self.stored() == self.parse_all(step["stored"])

    def act(self, memory: ChatMemory, step: Mapping[str, Any]) -> None:
        op = step["op"]
        if op == "add":
            memory.add(self.parse(step["m"]) if step["m"] else step["m"])
        elif op == "add_all":
            memory.add(*self.parse_all(step["ms"]))
        elif op == "set_varargs" and step["ms"] is None:
            memory.set(None)  # type: ignore[arg-type]
        elif op == "set_varargs" and not step["ms"]:
            memory.set()  # type: ignore[call-arg]
        elif op in ("set", "set_varargs"):
            memory.set(self.parse_all(step["ms"]))
        elif op == "set_alias":
            given = self.parse_all(step["ms"])
            memory.set(given)
            given.append(self.parse(step["inject"]))
            assert given == self.parse_all(step["caller"])
        elif op == "messages":
            found = memory.messages()
            assert found == self.parse_all(step.get("result", ()))
        elif op == "messages_mutate":
            memory.messages().append(self.parse(step["inject"]))
        elif op == "clear":
            memory.clear()
        else:
            self.control(op, step)

    def control(self, op: str, step: Mapping[str, Any]) -> None:
        if op == "limit":
            self.limit = step["n"]
        elif op == "fail":
            self.store.failing[step["on"]] = step.get("after", 0)
        elif op == "heal":
            self.store.failing.clear()
        elif op == "estimator_fail":
            self.counter_fails = True
        else:
            raise AssertionError(f"unknown operation {op}")


NULL_MESSAGE = "MW64"  # "do not imitate; reject instead"
BUILD_ERRORS = [case_id for case_id, case in CASES.items() if "build_error" in case]
REPLAYED = [
    case_id
    for case_id in CASES
    if case_id not in LEFT_OUT and case_id not in BUILD_ERRORS and case_id != NULL_MESSAGE
]


@pytest.mark.parametrize("case_id", REPLAYED)
def test_a_window_does_what_langchain4j_does(case_id: str) -> None:
    case = CASES[case_id]
    replay = Replay(case)
    chosen = OTHERWISE.get(case_id, {})
    for index, step in enumerate(case["ops"]):
        key = "result" if step["op"] == "messages" else "stored"
        replay.run({**step, key: chosen[index]} if index in chosen else step)
    if not chosen:
        assert replay.stored() == replay.parse_all(case["final_stored"])


@pytest.mark.parametrize("case_id", BUILD_ERRORS)
def test_what_langchain4j_refuses_to_build_is_refused_here(case_id: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        Replay(CASES[case_id])


def test_a_custom_message_leaves_a_window_as_any_other() -> None:
    """MW07."""
    (custom,) = loads('{"attributes":{"kind":"handover"},"type":"CUSTOM"}')
    memory = ChatMemory("m", WindowPolicy(2, align_to_turns=False), InMemoryStore())
    memory.add(custom)
    assert dumps(memory.messages()) == '[{"attributes":{"kind":"handover"},"type":"CUSTOM"}]'
    memory.add(Message.user("a"), Message.assistant("b"))
    assert memory.messages() == [Message.user("a"), Message.assistant("b")]


def test_a_message_that_is_none_is_refused_before_the_store_is_touched() -> None:
    store = CountingStore()
    memory = ChatMemory("m", WindowPolicy(3, align_to_turns=False), store)
    with pytest.raises(TypeError, match=r"messages\[0\] must be a Message, not None"):
        memory.add(None)  # type: ignore[arg-type]
    assert store.calls == []


def test_a_store_that_answers_something_else_than_a_snapshot_is_an_error() -> None:
    class Broken(InMemoryStore):
        def load(self, memory_id: str) -> Any:
            return []

    memory = ChatMemory("m", WindowPolicy(3), Broken())
    with pytest.raises(TypeError, match="not a Snapshot"):
        memory.messages()


def test_every_case_is_replayed_refused_or_explained() -> None:
    assert len(CASES) == 89
    assert set(CASES) == {*REPLAYED, *BUILD_ERRORS, *LEFT_OUT, NULL_MESSAGE}
