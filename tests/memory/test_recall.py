from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat.models import ChatSession
from memory import preferences, recall, snapshots
from memory.blocks import DigestText, SummaryText
from memory.context import Budget, assemble, sent_tokens
from memory.history import SessionState
from memory.models import ConversationSummary, MemorySnapshot, UserDigest
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


# --- Summaries and digests


def summarized(
    chat_session: ChatSession, covers_through: int, *, last: int | None = None, version: int = 1
) -> ConversationSummary:
    """A stored summary up to `covers_through`; `last` is the message that it says is its last."""
    return ConversationSummary.objects.create(
        chat_session=chat_session,
        version=version,
        text=f"summary {version}",
        items=[],
        covers_from=1,
        covers_through=covers_through,
        last_message=uuid.UUID(int=last or covers_through),
        memory_epoch=0,
        endpoint_name="demo",
        model_name="demo",
        token_count=5,
        token_encoding="o200k_base",
        source_tokens=100,
    )


def digest(chat_session: ChatSession, **fields: Any) -> UserDigest:
    return UserDigest.objects.create(
        **{"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id, "text": "x"}
        | fields
    )


def test_a_summary_is_recalled_beside_the_whole_window_of_the_limits(
    chat_session: ChatSession,
) -> None:
    row = summarized(chat_session, 14)
    found = recalled(chat_session, ListReader(talk(10)), 20, max_messages=8, summarize=True)
    assert found.summary == SummaryText(row.pk, 1, "summary 1", 1, 14)
    assert (seqs(found.window.messages), found.awaiting) == (list(range(13, 21)), ())


def test_what_no_summary_covers_yet_waits_beside_it(chat_session: ChatSession) -> None:
    summarized(chat_session, 6)
    found = recalled(chat_session, ListReader(talk(10)), 20, max_messages=8, summarize=True)
    assert seqs(found.awaiting) == [7, 8, 9, 10, 11, 12]
    late = recalled(
        builders.chat_session(), ListReader(talk(10)), 20, max_messages=8, summarize=True
    )
    assert (late.summary, seqs(late.awaiting)) == (None, list(range(1, 13)))


def test_a_summary_of_another_branch_is_not_used(chat_session: ChatSession) -> None:
    summarized(chat_session, 6)
    summarized(chat_session, 14, last=999, version=2)
    found = recalled(chat_session, ListReader(talk(10)), 20, max_messages=8, summarize=True)
    assert found.summary is not None
    assert found.summary.covers_through == 6
    assert seqs(found.awaiting)[0] == 7


def test_without_the_switch_neither_summary_nor_waiting_messages_are_read(
    chat_session: ChatSession,
) -> None:
    summarized(chat_session, 6)
    reader = ListReader(talk(10))
    found = recalled(chat_session, reader, 20, max_messages=8)
    assert (found.summary, found.awaiting, len(reader.read)) == (None, (), 1)


def test_what_waits_gets_half_of_the_room_that_the_window_leaves(
    chat_session: ChatSession,
) -> None:
    history = talk(20)
    cost = sum(sent_tokens(each, "o200k_base") for each in history[:2])
    found = recall.recall(
        ListReader(history),
        at(chat_session, 40),
        owner(chat_session),
        policy(max_messages=8, summarize=True),
        room=14 * cost,
    )
    assert len(found.window.messages) == 8
    assert len(found.awaiting) == 10


def test_the_snapshot_is_the_window_of_the_limits_with_and_without_summaries(
    chat_session: ChatSession,
) -> None:
    reader = ListReader(talk(9))
    limits = {"max_messages": 6, "summarize": True}
    summarized(chat_session, 16)
    end_turn(chat_session, reader, 18, **limits)
    found = recalled(chat_session, reader, 20, **limits)
    assert (seqs(found.window.messages), found.window.source) == (list(range(15, 21)), "snapshot")
    without = recalled(chat_session, reader, 20, max_messages=6).window
    assert (without.messages, without.source) == (found.window.messages, "snapshot")


def test_the_same_rule_holds_at_every_turn_after_a_summary(chat_session: ChatSession) -> None:
    """open-webui#27037: kept messages were used only on the first turn after a summary."""
    reader = ListReader(talk(7))
    limits = {"max_messages": 8, "summarize": True}
    summarized(chat_session, 10)
    starts = []
    for newest in range(14, 26, 2):
        found = recalled(chat_session, reader, newest, **limits)
        assembled = assemble(
            prompt="",
            window=found.window,
            current=asked(newest + 1),
            summary=found.summary,
            awaiting=found.awaiting,
            budget=Budget(9_999, 0, 0),
            encoding="o200k_base",
        )
        starts.append(assembled.manifest["window"]["from_seq"])
        assert assembled.manifest["window"]["messages"] == newest - 10
        assert assembled.manifest["left_out"] == [
            {"from": 1, "through": 10, "reason": "covered_by_summary"}
        ]
        end_turn(chat_session, reader, newest, **limits)
    assert starts == [11] * 6


def test_the_digest_opens_a_session_that_has_lost_nothing(chat_session: ChatSession) -> None:
    row = digest(chat_session, sources=["other"])
    short = recalled(chat_session, ListReader(talk(2)), 4, use_digest=True)
    assert short.digest == DigestText(row.pk, "x", ("other",))
    long = recalled(chat_session, ListReader(talk(9)), 18, use_digest=True, max_messages=4)
    assert long.digest is None
    assert recalled(chat_session, ListReader(talk(2)), 4).digest is None


def test_the_digest_gives_way_to_a_summary_and_after_a_pause(chat_session: ChatSession) -> None:
    digest(chat_session)
    idle = recall.recall(
        ListReader(talk(3), 2),
        at(chat_session, 6, idle_line=2),
        owner(chat_session),
        policy(use_digest=True),
    )
    assert idle.digest is None
    summarized(chat_session, 2)
    found = recalled(chat_session, ListReader(talk(2)), 4, use_digest=True, summarize=True)
    assert (found.digest, found.summary is not None) == (None, True)


def test_a_cleared_session_begins_anew_but_never_with_its_own_words(
    chat_session: ChatSession,
) -> None:
    row = digest(chat_session, sources=["other"])
    cleared = at(chat_session, 6, forget_line=6)
    rules = policy(use_digest=True)
    found = recall.recall(ListReader(talk(3), 6), cleared, owner(chat_session), rules)
    assert found.digest is not None
    row.sources = ["other", str(chat_session.pk)]
    row.save()
    found = recall.recall(ListReader(talk(3), 6), cleared, owner(chat_session), rules)
    assert found.digest is None


def test_preferences_are_ranked_for_the_question(chat_session: ChatSession) -> None:
    for key, text in (("tea", "green tea in the morning"), ("car", "drives a red car")):
        preferences.remember(
            chat_session.tenant_id, chat_session.user_id, "all", key, text, origin="user"
        )
    found = recall.recall(
        ListReader([]), at(chat_session, 0), owner(chat_session), policy(), "Which tea is best?"
    )
    assert [each.key for each in found.preferences] == ["tea", "car"]


def test_summaries_cost_two_queries_more_however_long_the_history_is(
    chat_session: ChatSession,
) -> None:
    for version in range(1, 30):
        summarized(chat_session, 2 * version, version=version)
    reader = ListReader(talk(40))
    end_turn(chat_session, reader, 80, max_messages=22, summarize=True)
    with CaptureQueriesContext(connection) as queries:
        recalled(chat_session, reader, 82, max_messages=22, summarize=True)
    assert len(queries) == 3  # the reader of these tests asks no database whether it holds one


def test_another_sessions_state_is_refused(chat_session: ChatSession) -> None:
    with pytest.raises(ValueError, match="is not the one of the state"):
        recall.snapshot_after_turn(
            builders.chat_session().pk,
            at(chat_session, 0),
            policy(),
            recalled(chat_session, ListReader([]), 0).window,
            [],
        )
