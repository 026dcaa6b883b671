"""What holds for any history, branch, policy, budget and input."""

from __future__ import annotations

import json
import math
from collections import Counter as Multiset
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast
from unittest.mock import ANY

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory import snapshots
from memory.awaiting import read_awaiting
from memory.blocks import (
    DigestText,
    PreferenceText,
    SummaryText,
    operator_block,
    shortened_result,
)
from memory.context import (
    AWAITING_SUMMARY,
    BEFORE_FORGET_LINE,
    BUDGET,
    COVERED_BY_SUMMARY,
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
from memory.running_turn import answered_calls
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

    @property
    def last(self) -> int:
        """The newest seq of any branch."""
        return max({self.newest, *self.others})

    def turns(self) -> list[list[HistoryMessage]]:
        """The branch as the turns added to it: each begins with its question."""
        found: list[list[HistoryMessage]] = []
        for each in self.branch:
            if each.message.role == "user" or not found:
                found.append([])
            found[-1].append(each)
        return found


def history_of(specs: Sequence[tuple[str, str, int, int, bool, bool]], behind: int = 0) -> History:
    """`behind` seqs of other branches follow the branch."""
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
    others.update(range(seq + 1, seq + behind + 1))
    return History(branch, others)


histories = st.builds(history_of, st.lists(turns, max_size=12), st.sampled_from([0, 0, 1, 4]))


def running_of(specs: Sequence[tuple[str, str]], first: int) -> list[HistoryMessage]:
    """What a turn did after its input: groups of calls and results, some of them broken."""
    found: list[HistoryMessage] = []
    for number, (kind, text) in enumerate(specs):
        one, two = f"{number}a", f"{number}b"
        group = {
            "one": [call(one), T(one, text)],
            "two": [call(one, two, text="Let me look."), T(one, "x"), T(two, text)],
            "half": [call(one, two, text="So."), T(one, text)],
            "orphan": [T("9", text)],
        }[kind]
        found += [stored(first + len(found) + n, each) for n, each in enumerate(group)]
    return found


running_turns = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "one", "half", "orphan"]),
        st.one_of(texts, st.sampled_from(["word " * 300, "的" * 500, "yes"])),
    ),
    max_size=3,
)
policies = st.builds(
    policy,
    max_messages=st.sampled_from([1, 2, 3, 5, 8, 20]),
    max_tokens=st.sampled_from([None, None, 30, 60, 120, 500]),
    stride=st.sampled_from([0, 0, 1, 3, 4, 7]),
    summarize=st.booleans(),
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


@dataclass(frozen=True)
class Case:
    """One request: what is stored, what is asked, and what memory gives for it."""

    history: History
    forget_line: int
    is_on: bool
    current: HistoryMessage
    running: list[HistoryMessage]
    window: Window
    summary: SummaryText | None
    awaiting: tuple[HistoryMessage, ...]
    digest: DigestText | None

    @property
    def covered(self) -> int:
        covers = self.summary.covers_through if self.summary else 0
        return max(min(covers, self.current.seq - 1), self.forget_line)

    @property
    def last(self) -> int:
        return max(each.seq for each in (*self.running, self.current, *self.history.branch))


def case_of(
    history: History,
    rules: MemoryPolicy,
    forget: int,
    is_on: bool,
    repeated: int,
    text: str,
    run: Sequence[tuple[str, str]],
    covers: int,
    has_digest: bool,
    room: int | None,
) -> Case:
    forget_line = min(forget, history.newest)
    current = input_of(history, forget_line, repeated, text)
    last = max(history.last, current.seq)
    running = running_of(run, last + 1)
    where = state(history.newest, forget_line, last_seq=last + len(running))
    reader = ListReader(history.branch, forget_line)
    if not is_on:
        return Case(
            history, forget_line, False, current, running, off(where, rules), None, (), None
        )
    window = rebuild(reader, where, rules)
    summary: SummaryText | None = None
    awaiting: tuple[HistoryMessage, ...] = ()
    if rules.summarize:
        seqs = [each.seq for each in history.branch if forget_line < each.seq <= covers]
        if seqs:
            summary = SummaryText(3, 2, f"said: {text}", forget_line + 1, seqs[-1])
        covered = seqs[-1] if seqs else 0
        awaiting = read_awaiting(reader, window, where, rules, covered, room)
    digest = DigestText(5, f"likes {text}", ("s",)) if has_digest else None
    return Case(history, forget_line, True, current, running, window, summary, awaiting, digest)


cases = st.builds(
    case_of,
    history=histories,
    rules=policies,
    forget=st.sampled_from([0, 0, 0, 1, 2, 5, 12]),
    is_on=st.sampled_from([True, True, True, True, False]),
    repeated=st.integers(0, 12),
    text=texts,
    run=running_turns,
    covers=st.integers(0, 40),
    has_digest=st.booleans(),
    room=st.sampled_from([None, None, 0, 60, 300]),
)


@settings(max_examples=400, deadline=None)
@given(
    case=cases,
    cut=st.sampled_from([0, 0, 1, 2, 7, 20, 60, 200, 500, 100_000]),
    correction=st.sampled_from([0.5, 1.0, 1.0, 1.3]),
    wanted=preferences,
    share=st.sampled_from([None, None, 20, 60, 120]),
    found=passages,
    strict=st.booleans(),
)
def test_any_request_is_whole_in_order_within_its_budget_and_accounted_for(
    case: Case,
    cut: int,
    correction: float,
    wanted: list[PreferenceText],
    share: int | None,
    found: References,
    strict: bool,
) -> None:
    given_for_it: dict[str, Any] = {
        "prompt": PROMPT,
        "window": case.window,
        "current": case.current,
        "running": case.running,
        "summary": case.summary,
        "digest": case.digest,
        "awaiting": case.awaiting,
        "preferences": wanted if case.is_on else (),
        "preference_tokens": share,
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
        assert_alone_too_long(refused, case, limit, correction)
        return
    assert request.messages == full.messages or cut or strict  # it is charged a message more
    assert_within_budget(request, limit, correction)
    assert_in_order(request, case.current.message.content or "", strict)
    assert_tool_groups_whole(request)
    assert_running_turn_whole(request, case)
    assert_opened(request, case)
    assert_given_up_in_order(request, full)
    assert_accounted_for(request, case)


def assert_alone_too_long(
    refused: InputTooLong | PromptTooLong, case: Case, limit: int, correction: float
) -> None:
    """What may not be given up does not fit: the operator's text (a block takes some more)."""
    alone = REQUEST_OVERHEAD + COUNT(U(operator_block(PROMPT)))
    if isinstance(refused, InputTooLong):
        alone += COUNT(case.current.message) + 10
        for each in answered_calls(case.running)[0]:
            alone += 4 + min(COUNT(each.message), COUNT(shortest(each.message)))
    assert math.ceil(alone * max(1.0, correction)) > limit


def shortest(message: Message) -> Message:
    if message.role != "tool":
        return message
    return T(message.tool_call_id, shortened_result(message.content or "", 0))


def input_of(history: History, forget_line: int, repeated: int, text: str) -> HistoryMessage:
    """A new message, or an earlier one that is answered again while the window still has it."""
    for each in history.branch:
        if each.seq > forget_line and each.seq == repeated and each.message.role == "user":
            return each
    return stored(history.last + 1, U(text))


def assert_within_budget(request: Assembled, limit: int, correction: float) -> None:
    counted = REQUEST_OVERHEAD + sum(
        COUNT(Message(cast(Role, each.role), each.content, (), each.tool_calls, each.tool_call_id))
        for each in request.messages
    )
    assert counted == request.tokens
    assert math.ceil(counted * max(1.0, correction)) <= limit
    assert request.manifest["counted"] == counted


def assert_in_order(request: Assembled, text: str, strict: bool) -> None:
    """The prompt first, then history, the input once, the running turn; nobody twice in a row."""
    first = request.messages[0]
    kinds_in_order = [each.kind for each in request.messages]
    at = kinds_in_order.index("input")
    if strict:
        assert first.role == "user"
        assert first.content.startswith(operator_block(PROMPT))
        everything = "".join(each.content for each in request.messages)
        assert everything.count("<operator_instructions>") == 1
    else:
        assert (first.role, first.content, first.kind) == ("system", PROMPT, "prompt")
        assert request.messages[at].content.endswith(text)
    assert set(kinds_in_order[1:at]) <= {"history"}
    assert set(kinds_in_order[at + 1 :]) <= {"running"}
    roles = [each.role for each in request.messages]
    assert roles[at] == "user"
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


def assert_running_turn_whole(request: Assembled, case: Case) -> None:
    """Every call that has its results, with them and in order, whatever else was given up."""
    parts = [part for part in request.manifest["parts"] if part["kind"] == "running"]
    sent, undone = answered_calls(case.running)
    assert [each for part in parts for each in part["ids"]] == [each.id for each in sent]
    for message, part in zip(request.messages[-len(parts) :], parts, strict=True) if parts else ():
        if part.get("mark") == "shortened":
            assert message.role == "tool"
            assert "[This result was shortened: " in message.content
    orphans = {"from": ANY, "through": ANY, "reason": ORPHAN_TOOL}
    assert not undone or orphans in request.manifest["left_out"]


def assert_opened(request: Assembled, case: Case) -> None:
    """At most one block of the past, in the first user message and nowhere else."""
    given = {"summary": case.summary, "digest": None if case.summary else case.digest}
    users = [
        each.content for each in request.messages if each.role == "user" and each.kind != "prompt"
    ]
    first = users[0].removeprefix(operator_block(PROMPT))
    everything = "".join(each.content for each in request.messages)
    for kind, tag in (("summary", "conversation_summary"), ("digest", "about_the_user")):
        is_sent = request.manifest[kind] is not None
        left_out = request.manifest.get(f"{kind}_left_out")
        assert (is_sent or left_out == BUDGET) == (given[kind] is not None)
        assert everything.count(f"<{tag}>") == everything.count(f"</{tag}>") == int(is_sent)
        assert first.startswith(f"<{tag}>") == is_sent


def assert_given_up_in_order(request: Assembled, full: Assembled) -> None:
    """Passages, then preferences, then summary or digest, then history."""
    manifest, whole = request.manifest, full.manifest

    def is_less(name: str) -> bool:
        return bool(manifest[name] != whole[name])

    opening_is_less = is_less("summary") or is_less("digest")
    if is_less("preferences") or opening_is_less or is_less("window"):
        assert manifest["references"] == []
    if opening_is_less or is_less("window"):
        assert manifest["preferences"] == []
    if is_less("window"):
        assert manifest["summary"] is manifest["digest"] is None


def assert_accounted_for(request: Assembled, case: Case) -> None:
    """Every stored message is either sent or inside a left-out range, for a reason that holds."""
    parts = request.manifest["parts"]
    sent = [each for part in parts for each in part["ids"]]
    assert len(sent) == len(set(sent))
    allowed = {each.id: each.seq for each in case.history.branch if each.seq > case.covered}
    in_turn = {each.id: each.seq for each in (case.current, *case.running)}
    assert set(sent) <= set(allowed) | set(in_turn)
    assert sent.count(case.current.id) == 1
    sent_seqs = {{**allowed, **in_turn}[each] for each in sent}
    assert not any(case.current.seq < seq <= case.history.last for seq in sent_seqs)
    reasons: dict[int, str] = {}
    for each in request.manifest["left_out"]:
        for seq in range(each["from"], each["through"] + 1):
            assert seq not in reasons
            reasons[seq] = each["reason"]
    for seq in range(1, case.last + 1):
        assert (seq in reasons) != (seq in sent_seqs), (seq, reasons, sent_seqs)
        if seq in reasons:
            assert reasons[seq] in reasons_for(seq, case), (seq, reasons)
    json.dumps(request.manifest)


def reasons_for(seq: int, case: Case) -> set[str]:
    """Why the message may be left out."""
    on_branch = {each.seq for each in case.history.branch}
    if seq > case.current.seq:
        is_running = seq in {each.seq for each in case.running}
        return {ORPHAN_TOOL} if is_running else {OTHER_BRANCH}
    if not case.is_on:
        return {MEMORY_OFF} if seq <= case.history.newest else {OTHER_BRANCH}
    if seq <= case.forget_line:
        return {BEFORE_FORGET_LINE}
    if seq <= case.covered:
        return {COVERED_BY_SUMMARY}
    of_itself = {NO_ANSWER, ORPHAN_TOOL, SYSTEM_MESSAGE, STRICT_ROLES}
    of_itself |= set() if seq in on_branch else {OTHER_BRANCH}
    start = case.window.messages[0].seq if case.window.messages else case.history.newest + 1
    if seq >= start:
        return {BUDGET, *of_itself}
    return (
        {AWAITING_SUMMARY, *of_itself} if case.awaiting else {MAX_MESSAGES, MAX_TOKENS, *of_itself}
    )


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
    found, why = snapshots.read(where, replace(rules, summarize=not rules.summarize))
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
