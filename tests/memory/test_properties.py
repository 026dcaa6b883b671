"""What holds for any history, branch, policy, budget and input."""

from __future__ import annotations

import json
import math
from collections import Counter as Multiset
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory import snapshots
from memory.blocks import PreferenceText, operator_block
from memory.context import (
    BEFORE_FORGET_LINE,
    BUDGET,
    MEMORY_OFF,
    NO_ANSWER,
    OTHER_BRANCH,
    STRICT_ROLES,
    SYSTEM_MESSAGE,
    Assembled,
    Budget,
    HistoryMessage,
    InputTooLong,
    PromptTooLong,
    Window,
    assemble,
)
from memory.history import MemoryPolicy, extend, off, rebuild
from memory.messages import Message, Role, ToolCall
from memory.references import Passage, References
from memory.tokens import REQUEST_OVERHEAD, counter_for
from memory.window import (
    MAX_MESSAGES,
    MAX_TOKENS,
    ORPHAN_TOOL,
    SYSTEM_REPLACED,
    Trimmed,
    WindowPolicy,
    WindowTooSmall,
    trim,
)
from tests import builders
from tests.memory.conversation import ListReader, policy, state, stored

REASONS = {
    BEFORE_FORGET_LINE,
    BUDGET,
    MAX_MESSAGES,
    MAX_TOKENS,
    MEMORY_OFF,
    NO_ANSWER,
    ORPHAN_TOOL,
    OTHER_BRANCH,
    STRICT_ROLES,
    SYSTEM_MESSAGE,
}
PROMPT = "You are a helpful assistant."
COUNT = counter_for("o200k_base")

U = Message.user
A = Message.assistant
T = Message.tool


# --- Histories: turns of every kind, with messages of other branches between them


def call(*ids: str, text: str | None = None) -> Message:
    return A(text, tuple(ToolCall(each, "f", '{"a":1}') for each in ids))


def turn_of(kind: str, text: str) -> list[Message]:
    """The messages of one turn."""
    answers: dict[str, list[Message]] = {
        "answer": [A(text or "ok")],
        "none": [],
        "empty": [A("")],
        "two answers": [A("one"), A(text or "two")],
        "tools": [call("1", "2"), T("1", text), T("2", "y"), A("done")],
        "tools twice": [call("1"), T("1", "x"), call("1", text="so"), T("1", text), A("done")],
        "talk and tools": [A(text or "hm"), call("1"), T("1", "x"), A("done")],
        "half the tools": [call("1", "2"), T("1", "x"), A("done")],
        "tools without end": [call("1"), T("1", "x")],
        "call without result": [call("1", text=text or "let me look")],
        "orphan": [T("9", text), A("done")],
        "doubled result": [call("1"), T("1", "x"), T("1", "x"), A("done")],
        "calls without ids": [call("", ""), T("", "x"), T("", "y"), A("done")],
        "system": [Message.system("obey " + text), A("done")],
    }
    return [U(text), *answers[kind]] if kind in answers else [A(text or "greeting")]


texts = st.sampled_from(
    [
        "",
        "x",
        "word " * 30,
        "青云-4173",
        "שלום",
        "😄" * 9,
        "a\x00b",
        "\ud83d",
        "</saved_preferences>",
    ]
)
kinds = st.sampled_from(
    [
        "answer", "answer", "answer", "none", "empty", "two answers", "tools", "tools twice",
        "talk and tools", "half the tools", "tools without end", "call without result", "orphan",
        "doubled result", "calls without ids", "system", "greeting",
    ]
)  # fmt: skip
turns = st.tuples(kinds, texts, st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans())


@dataclass(frozen=True)
class History:
    """Everything that is stored: the chosen branch, and the seqs of other branches."""

    branch: list[HistoryMessage]
    others: set[int]

    @property
    def newest(self) -> int:
        return self.branch[-1].seq if self.branch else 0

    def turns(self) -> list[list[HistoryMessage]]:
        """The branch as the turns added to it: each begins with its question."""
        found: list[list[HistoryMessage]] = []
        for each in self.branch:
            if each.message.role == "user" or not found:
                found.append([])
            found[-1].append(each)
        return found


def history_of(specs: Sequence[tuple[str, str, int, int, bool, bool]]) -> History:
    branch: list[HistoryMessage] = []
    others: set[int] = set()
    seq = 0
    for kind, text, before, between, is_partial, is_counted in specs:
        for position, message in enumerate(turn_of(kind, text)):
            skipped = (before, between, 0, 0, 0, 0)[position]
            others.update(range(seq + 1, seq + skipped + 1))
            seq += skipped + 1
            partial = is_partial and message.role == "assistant" and not message.tool_calls
            count = {"tokens": COUNT(message), "encoding": "o200k_base"} if is_counted else {}
            branch.append(stored(seq, message, is_partial=partial, **count))
    return History(branch, others)


histories = st.lists(turns, max_size=12).map(history_of)
policies = st.builds(
    policy,
    max_messages=st.sampled_from([1, 2, 3, 5, 8, 20]),
    max_tokens=st.sampled_from([None, None, 30, 60, 120, 500]),
    stride=st.sampled_from([0, 0, 1, 3, 4, 7]),
)
preferences = st.lists(
    st.builds(
        PreferenceText,
        st.integers(1, 9),
        texts,
        texts,
        st.just("all"),
        st.sampled_from(["user", "chat", "x"]),
    ),
    max_size=3,
)
passages = st.lists(st.tuples(texts, texts), max_size=3).map(
    lambda found: References(
        tuple(Passage(str(n), *each, rank=n) for n, each in enumerate(found, start=1)), bool(found)
    )
)


# --- Requests


@settings(max_examples=250, deadline=None)
@given(
    history=histories,
    rules=policies,
    cut=st.sampled_from([0, 0, 1, 2, 7, 20, 60, 200, 100_000]),
    correction=st.sampled_from([0.5, 1.0, 1.0, 1.3]),
    text=texts,
    wanted=preferences,
    found=passages,
    strict=st.booleans(),
    forget=st.integers(0, 12),
    is_on=st.sampled_from([True, True, True, False]),
    repeated=st.integers(0, 12),
)
def test_any_request_is_whole_in_order_within_its_budget_and_accounted_for(
    history: History,
    rules: MemoryPolicy,
    cut: int,
    correction: float,
    text: str,
    wanted: list[PreferenceText],
    found: References,
    strict: bool,
    forget: int,
    is_on: bool,
    repeated: int,
) -> None:
    forget_line = min(forget, history.newest)
    where = state(history.newest, forget_line)
    if is_on:
        window = rebuild(ListReader(history.branch, forget_line), where, rules)
    else:
        window = off(where, rules)
    current = input_of(history, forget_line, repeated, text)
    given_for_it: dict[str, Any] = {
        "prompt": PROMPT,
        "window": window,
        "current": current,
        "preferences": wanted if is_on else (),
        "references": found,
        "encoding": "o200k_base",
        "correction": correction,
        "strict_roles": strict,
    }
    full = assemble(budget=Budget(10**9, 0, 0), **given_for_it)
    limit = max(math.ceil(full.tokens * max(1.0, correction)) - cut, 1)
    try:
        request = assemble(budget=Budget(limit, 0, 0), **given_for_it)
    except (InputTooLong, PromptTooLong) as refused:
        assert_alone_too_long(refused, current, limit, correction)
        return
    is_joined = strict or any(len(part["ids"]) > 1 for part in full.manifest["parts"])
    assert request.messages == full.messages or cut or is_joined
    assert_within_budget(request, limit, correction)
    assert_in_order(request, current.message.content or "", strict)
    assert_tool_groups_whole(request)
    assert_accounted_for(request, history, forget_line, current)


def assert_alone_too_long(
    refused: InputTooLong | PromptTooLong, current: HistoryMessage, limit: int, correction: float
) -> None:
    """What may not be given up does not fit: the operator's text (a block takes some more)."""
    alone = REQUEST_OVERHEAD + COUNT(U(operator_block(PROMPT)))
    if isinstance(refused, InputTooLong):
        alone += COUNT(current.message) + 10
    assert math.ceil(alone * max(1.0, correction)) > limit


def input_of(history: History, forget_line: int, repeated: int, text: str) -> HistoryMessage:
    """A new message, or an earlier one that is answered again while the window still has it."""
    for each in history.branch:
        if each.seq > forget_line and each.seq == repeated and each.message.role == "user":
            return each
    return stored(history.newest + 1, U(text))


def assert_within_budget(request: Assembled, limit: int, correction: float) -> None:
    counted = REQUEST_OVERHEAD + sum(
        COUNT(Message(cast(Role, each.role), each.content, (), each.tool_calls, each.tool_call_id))
        for each in request.messages
    )
    assert counted == request.tokens
    assert math.ceil(counted * max(1.0, correction)) <= limit
    assert request.manifest["counted"] == counted


def assert_in_order(request: Assembled, text: str, strict: bool) -> None:
    """The prompt first, the input once and last, nobody twice in a row."""
    first, last = request.messages[0], request.messages[-1]
    if strict:
        assert first.role == "user"
        assert first.content.startswith(operator_block(PROMPT))
        everything = "".join(each.content for each in request.messages)
        assert everything.count("<operator_instructions>") == 1
    else:
        assert (first.role, first.content, first.kind) == ("system", PROMPT, "prompt")
        assert last.content.endswith(text)
    kinds_in_order = [each.kind for each in request.messages]
    assert kinds_in_order[-1] == "input"
    assert set(kinds_in_order[1:-1]) <= {"history"}
    roles = [each.role for each in request.messages]
    assert roles[-1] == "user"
    assert set(roles[1:]) <= {"user", "assistant", "tool"}
    for before, after in pairwise(roles):
        assert before != after or before == "tool"


def assert_tool_groups_whole(request: Assembled) -> None:
    waiting: list[str] = []
    for each in request.messages:
        if each.role == "tool":
            assert each.tool_call_id in waiting
            waiting.remove(each.tool_call_id)
        else:
            assert waiting == []
            waiting = [made.id for made in each.tool_calls]
    assert waiting == []


def assert_accounted_for(
    request: Assembled, history: History, forget_line: int, current: HistoryMessage
) -> None:
    """Every stored message is either sent or inside a left-out range, never both."""
    parts = request.manifest["parts"]
    sent = [each for part in parts for each in part["ids"]]
    assert len(sent) == len(set(sent))
    allowed = {each.id: each.seq for each in history.branch if each.seq > forget_line}
    assert set(sent) - {current.id} <= set(allowed)
    assert sent.count(current.id) == 1
    ranges = [(each["from"], each["through"]) for each in request.manifest["left_out"]]
    assert {each["reason"] for each in request.manifest["left_out"]} <= REASONS
    sent_seqs = {allowed[each] for each in sent if each in allowed}
    for seq in {each.seq for each in history.branch} | history.others:
        if seq < current.seq:
            inside = any(first <= seq <= last for first, last in ranges)
            assert inside != (seq in sent_seqs), (seq, ranges, sent_seqs)
    json.dumps(request.manifest)


# --- Snapshots


@settings(max_examples=120, deadline=None)
@given(histories, policies)
def test_a_window_carried_on_turn_by_turn_is_what_a_rebuild_gives(
    history: History, rules: MemoryPolicy
) -> None:
    carried = Window((), (), "rebuild", policy=rules.described())
    past: list[HistoryMessage] = []
    for added in history.turns():
        carried = extend(carried, added, state(past[-1].seq if past else 0), rules)
        past += added
        assert_same_window(
            carried, rebuild(ListReader(past), state(past[-1].seq), rules), history, past
        )


def assert_same_window(
    one: Window, other: Window, history: History, past: list[HistoryMessage]
) -> None:
    assert one.messages == other.messages
    assert one.before_seq == other.before_seq
    assert len(one.left_out) == len(other.left_out)
    for mine, theirs in zip(one.left_out, other.left_out, strict=True):
        assert (mine.from_seq, mine.through_seq) == (theirs.from_seq, theirs.through_seq)
        limits = {MAX_MESSAGES, MAX_TOKENS}
        assert mine.reason == theirs.reason or {mine.reason, theirs.reason} == limits


@pytest.mark.django_db
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=histories, rules=policies, forget=st.integers(0, 12))
def test_a_snapshot_that_is_read_is_what_a_rebuild_gives(
    history: History, rules: MemoryPolicy, forget: int
) -> None:
    chat_session = builders.chat_session()
    forget_line = min(forget, history.newest)
    where = state(history.newest, forget_line, id=chat_session.pk)
    # A table holds neither NUL nor a lone surrogate; the door of the product lets none through.
    clean = [
        each
        for each in history.branch
        if not {"\x00", "\ud83d"} & set(json.dumps(each.message.content, ensure_ascii=False))
        and "\\u" not in json.dumps(each.message.content, ensure_ascii=False)
    ]
    rebuilt = rebuild(ListReader(clean, forget_line), where, rules)
    assert snapshots.save(where, rules, rebuilt, history.newest)
    found, why = snapshots.read(where, rules)
    assert why == ""
    assert found is not None
    assert found.messages == rebuilt.messages
    assert (found.left_out, found.before_seq) == (rebuilt.left_out, rebuilt.before_seq)


# --- Windows of ChatMemory

message_lists = st.lists(turns, max_size=8).map(
    lambda specs: [message for kind, text, *_ in specs for message in turn_of(kind, text)]
)


def window_policy(**fields: Any) -> WindowPolicy:
    stride = fields.pop("stride")
    limit = fields["max_messages"]
    return WindowPolicy(**fields, stride=min(stride, limit - 1) if limit else stride)


window_policies = st.builds(
    window_policy,
    max_messages=st.sampled_from([1, 2, 3, 5, 8, 20]),
    max_tokens=st.sampled_from([None, 10, 40, 120]),
    align_to_turns=st.booleans(),
    system_first=st.booleans(),
    stride=st.sampled_from([0, 0, 2, 4]),
)


@settings(max_examples=250, deadline=None)
@given(message_lists, window_policies)
def test_any_window_holds_its_limits_and_no_half_tool_group(
    messages: list[Message], rules: WindowPolicy
) -> None:
    before = list(messages)
    try:
        trimmed = trim(messages, rules, COUNT)
    except WindowTooSmall as refused:
        assert rules.align_to_turns
        assert_too_large(refused, rules)
        return
    assert messages == before
    assert_limits_held(trimmed, rules)
    assert_nothing_orphaned(trimmed.kept, rules)
    assert len(trimmed.kept) + len(trimmed.dropped) >= len(messages)
    assert {reason for _, reason in trimmed.dropped} <= {
        MAX_MESSAGES,
        MAX_TOKENS,
        ORPHAN_TOOL,
        SYSTEM_REPLACED,
    }
    again = trim(trimmed.kept, rules, COUNT).kept
    assert again == trimmed.kept or rules.stride
    in_steps_of_one = trim(messages, replace(rules, stride=0), COUNT).kept
    assert trimmed.kept[-1:] == in_steps_of_one[-1:]
    assert Multiset(trimmed.kept) <= Multiset(in_steps_of_one)


def assert_too_large(refused: WindowTooSmall, rules: WindowPolicy) -> None:
    too_many = refused.messages > (rules.max_messages or 10**9)
    assert too_many or refused.tokens > (rules.max_tokens or 10**9)


def assert_limits_held(trimmed: Trimmed, rules: WindowPolicy) -> None:
    kept = list(trimmed.kept)
    if not rules.align_to_turns and kept and kept[0].role == "system":
        kept = kept[1:] if len(kept) == 1 else kept  # pinned, even where it alone is too large
    assert len(kept) <= (rules.max_messages or 10**9)
    assert sum(map(COUNT, kept)) <= (rules.max_tokens or 10**9)


def assert_nothing_orphaned(kept: Sequence[Message], rules: WindowPolicy) -> None:
    waiting: list[str] = []
    for each in kept:
        if each.role == "tool":
            assert each.tool_call_id in waiting
            waiting.remove(each.tool_call_id)
        else:
            assert waiting == [] or not rules.align_to_turns
            waiting = [made.id for made in each.tool_calls]
