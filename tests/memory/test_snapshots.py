from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from chat.models import ChatSession
from memory import snapshots
from memory.context import HistoryMessage, LeftOut, Window
from memory.history import MemoryPolicy, SessionState
from memory.messages import Message, ToolCall
from memory.models import MemorySnapshot
from tests import builders
from tests.memory.conversation import answered, asked, policy, state, stored, talk

pytestmark = pytest.mark.django_db

LEFT_OUT = (LeftOut(1, 2, "max_messages"), LeftOut(5, 5, "no_answer"))


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


def at(chat_session: ChatSession, newest_seq: int, **fields: Any) -> SessionState:
    return state(newest_seq, id=chat_session.pk, **fields)


def window(messages: list[HistoryMessage]) -> Window:
    return Window(tuple(messages), LEFT_OUT, "rebuild", 1, policy().described())


def save(chat_session: ChatSession, messages: list[HistoryMessage], through: int = 9) -> bool:
    return snapshots.save(at(chat_session, 0), policy(), window(messages), through)


def test_a_window_comes_back_as_it_was(chat_session: ChatSession) -> None:
    call = Message.assistant(None, [ToolCall("c1", "f", '{"a": 1}')])
    messages = [
        asked(3, '青云-4173 😄 עברית "quoted" \\ \n'),
        stored(4, call, tokens=7, encoding="o200k_base"),
        stored(6, Message.tool("c1", "x", "f", is_error=True)),
        answered(7, "half", is_partial=True),
    ]
    assert save(chat_session, messages) is True
    found, _ = snapshots.read(at(chat_session, 9), policy())
    assert found == dataclasses.replace(window(messages), source="snapshot")


def test_an_empty_window_comes_back_too(chat_session: ChatSession) -> None:
    save(chat_session, [])
    found, _ = snapshots.read(at(chat_session, 9), policy())
    assert found is not None
    assert found.messages == ()


def test_saving_again_replaces_the_row(chat_session: ChatSession) -> None:
    save(chat_session, talk(2))
    save(chat_session, talk(1))
    row = MemorySnapshot.objects.get()
    assert (row.revision, len(row.messages), row.through_seq) == (2, 2, 9)


@pytest.mark.parametrize(
    ("newest", "state_fields", "policy_fields", "row_fields", "why"),
    [
        (9, {}, {}, {}, ""),
        (11, {}, {}, {}, "behind"),
        (7, {}, {}, {}, "behind"),
        (9, {"memory_epoch": 1}, {}, {}, "epoch"),
        (9, {}, {"max_messages": 40}, {}, "policy"),
        (9, {}, {"use_preferences": False}, {}, ""),
        (9, {}, {}, {"format_version": 99}, "version"),
        (9, {}, {}, {"messages": [{"role": "user"}]}, "unreadable"),
        (9, {}, {}, {"messages": ["text"]}, "unreadable"),
        (9, {}, {}, {"messages": None}, "unreadable"),
        (9, {}, {}, {"messages": {"role": "user"}}, "unreadable"),
        (9, {}, {}, {"left_out": [[1, 2]]}, "unreadable"),
    ],
)
def test_a_snapshot_is_used_only_while_it_is_what_a_rebuild_gives(
    chat_session: ChatSession,
    newest: int,
    state_fields: dict[str, Any],
    policy_fields: dict[str, Any],
    row_fields: dict[str, Any],
    why: str,
) -> None:
    save(chat_session, talk(2))
    if row_fields:
        if row_fields.get("messages", "") is None:
            row_fields = {"messages": 7}
        MemorySnapshot.objects.update(**row_fields)
    found, reason = snapshots.read(
        at(chat_session, newest, **state_fields), policy(**policy_fields)
    )
    assert reason == why
    assert (found is None) == bool(why)


def test_what_was_never_saved_is_missing(chat_session: ChatSession) -> None:
    assert snapshots.read(at(chat_session, 9), policy()) == (None, "missing")


def test_the_log_names_the_session_and_no_text(
    chat_session: ChatSession, caplog: pytest.LogCaptureFixture
) -> None:
    save(chat_session, talk(1))
    MemorySnapshot.objects.update(messages=[{"role": "sorcerer", "content": "青云-4173"}])
    with caplog.at_level(logging.WARNING, "memory"):
        snapshots.read(at(chat_session, 9), policy())
    assert str(chat_session.pk) in caplog.text
    assert "青云" not in caplog.text


def test_nothing_is_written_under_another_epoch(chat_session: ChatSession) -> None:
    save(chat_session, talk(1))
    ChatSession.objects.filter(pk=chat_session.pk).update(memory_epoch=1)
    assert save(chat_session, talk(2)) is False
    assert len(MemorySnapshot.objects.get().messages) == 2


def test_nothing_is_written_for_a_session_that_is_gone(chat_session: ChatSession) -> None:
    gone = at(chat_session, 0)
    chat_session.delete()
    assert snapshots.save(gone, policy(), window(talk(1)), 2) is False
    assert MemorySnapshot.objects.count() == 0


def test_a_snapshot_leaves_with_its_session_and_no_other(chat_session: ChatSession) -> None:
    other = builders.chat_session()
    save(chat_session, talk(1))
    save(other, talk(1))
    chat_session.delete()
    assert [row.pk for row in MemorySnapshot.objects.all()] == [other.pk]
    assert snapshots.drop(other.pk) == 1
    assert snapshots.drop(other.pk) == 0


def test_the_policy_of_the_row_is_the_fingerprint(chat_session: ChatSession) -> None:
    save(chat_session, talk(1))
    rules: MemoryPolicy = policy()
    assert MemorySnapshot.objects.get().policy == rules.fingerprint()
