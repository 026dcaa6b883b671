from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat.models import ChatSession
from memory import preferences, recall, snapshots
from memory.history import SessionState
from memory.models import MemorySnapshot
from memory.recall import Owner, Recalled
from tests import builders
from tests.memory.conversation import ListReader, answered, asked, policy, seqs, state, talk

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


def at(chat_session: ChatSession, newest_seq: int, **fields: Any) -> SessionState:
    return state(newest_seq, id=chat_session.pk, **fields)


def owner(chat_session: ChatSession) -> Owner:
    return Owner(chat_session.tenant_id, chat_session.user_id, "guide")


def recalled(
    chat_session: ChatSession, reader: ListReader, newest_seq: int, **limits: Any
) -> Recalled:
    return recall.recall(
        reader, at(chat_session, newest_seq), owner(chat_session), policy(**limits)
    )


def end_turn(chat_session: ChatSession, reader: ListReader, newest_seq: int, **limits: Any) -> None:
    """A turn that adds one exchange to what `reader` holds."""
    before = at(chat_session, newest_seq)
    window = recalled(chat_session, reader, newest_seq, **limits).window
    added = talk(1, first=newest_seq + 1)
    recall.snapshot_after_turn(chat_session.pk, before, policy(**limits), window, added)
    reader.messages += added


def test_the_first_turn_rebuilds_and_the_next_reads_the_snapshot(
    chat_session: ChatSession,
) -> None:
    reader = ListReader([])
    assert recalled(chat_session, reader, 0).window.source == "rebuild:missing"
    end_turn(chat_session, reader, 0)
    found = recalled(chat_session, reader, 2).window
    assert (seqs(found.messages), found.source) == ([1, 2], "snapshot")
    assert reader.read == []


def test_snapshots_follow_turn_after_turn(chat_session: ChatSession) -> None:
    reader = ListReader([])
    for n in range(10):
        end_turn(chat_session, reader, 2 * n, max_messages=4)
    found = recalled(chat_session, reader, 20, max_messages=4).window
    assert (seqs(found.messages), found.source) == ([17, 18, 19, 20], "snapshot")
    assert MemorySnapshot.objects.get().revision == 10


def test_a_larger_limit_brings_evicted_messages_back(chat_session: ChatSession) -> None:
    reader = ListReader(talk(5))
    end_turn(chat_session, reader, 10, max_messages=2)
    found = recalled(chat_session, reader, 12, max_messages=6).window
    assert (seqs(found.messages), found.source) == (list(range(7, 13)), "rebuild:policy")


def test_a_snapshot_that_is_behind_is_not_used(chat_session: ChatSession) -> None:
    reader = ListReader([])
    end_turn(chat_session, reader, 0)
    reader.messages += [asked(3), answered(4)]
    found = recalled(chat_session, reader, 4).window
    assert (seqs(found.messages), found.source) == ([1, 2, 3, 4], "rebuild:behind")


def test_what_was_cleared_does_not_come_back(chat_session: ChatSession) -> None:
    reader = ListReader([])
    end_turn(chat_session, reader, 0)
    ChatSession.objects.filter(pk=chat_session.pk).update(memory_epoch=1, memory_starts_after=2)
    snapshots.drop(chat_session.pk)
    recall.snapshot_after_turn(
        chat_session.pk,
        at(chat_session, 2),
        policy(),
        recalled(chat_session, reader, 2).window,
        talk(1, first=3),
    )
    assert MemorySnapshot.objects.count() == 0
    after = at(chat_session, 4, memory_epoch=1, forget_line=2)
    reader = ListReader([*talk(2)], forget_line=2)
    found = recall.recall(reader, after, owner(chat_session), policy()).window
    assert seqs(found.messages) == [3, 4]


def test_with_memory_off_nothing_is_read_or_written(chat_session: ChatSession) -> None:
    preferences.remember(
        chat_session.tenant_id, chat_session.user_id, "all", "k", "x", origin="user"
    )
    reader = ListReader(talk(2))
    with CaptureQueriesContext(connection) as queries:
        found = recalled(chat_session, reader, 4, enabled=False)
        recall.snapshot_after_turn(
            chat_session.pk,
            at(chat_session, 4),
            policy(enabled=False),
            found.window,
            talk(1, first=5),
        )
    assert (found.window.messages, found.window.source, found.preferences) == ((), "off", ())
    assert (len(queries), reader.read) == (0, [])


def test_preferences_are_recalled_unless_the_assistant_leaves_them(
    chat_session: ChatSession,
) -> None:
    preferences.remember(
        chat_session.tenant_id, chat_session.user_id, "all", "k", "x", origin="user"
    )
    assert [each.text for each in recalled(chat_session, ListReader([]), 0).preferences] == ["x"]
    without = recalled(chat_session, ListReader([]), 0, use_preferences=False)
    assert without.preferences == ()


def test_a_turn_costs_two_reads_of_memory(chat_session: ChatSession) -> None:
    reader = ListReader([])
    end_turn(chat_session, reader, 0)
    with CaptureQueriesContext(connection) as queries:
        recalled(chat_session, reader, 2)
    assert len(queries) == 2


def test_another_sessions_state_is_refused(chat_session: ChatSession) -> None:
    with pytest.raises(ValueError, match="is not the one of the state"):
        recall.snapshot_after_turn(
            builders.chat_session().pk,
            at(chat_session, 0),
            policy(),
            recalled(chat_session, ListReader([]), 0).window,
            [],
        )
