"""Sample data: as right as what the product writes itself, and the same for the same seed."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chat import demo_data, records
from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextRecord,
    Feedback,
    FollowUp,
    ReviewNote,
    ReviewScore,
    ReviewTag,
    SearchEntry,
)
from chat.turns.policies import memory_policy
from memory.models import ConversationSummary, MemorySnapshot, UserPreference
from memory.summary_items import from_data, merged, text_of
from tests import builders

pytestmark = pytest.mark.django_db

UNTIL = datetime(2026, 6, 1, tzinfo=UTC)


def order(**changed: Any) -> demo_data.Order:
    wanted = {"sessions": 40, "messages": 1_200, "seed": 7, "tenants": 2, "users": 12}
    return demo_data.Order(**{**wanted, "until": UNTIL, **changed})


def messages_of(chat_session: ChatSession) -> list[ChatMessage]:
    return list(chat_session.messages.order_by("seq"))


def everything() -> list[tuple[Any, ...]]:
    """All messages with what does not depend on the database's own numbers."""
    rows = ChatMessage.objects.order_by("chat_session_id", "seq")
    return list(
        rows.values_list(
            "pk", "chat_session", "seq", "parent", "turn", "role", "content", "created_at"
        )
    )


# --- Invariants -----------------------------------------------------------------------------------


def test_there_are_exactly_as_many_as_were_asked_for() -> None:
    done = demo_data.run(order())
    assert (done.sessions, done.messages) == (40, 1_200)
    assert ChatSession.objects.count() == 40
    assert ChatMessage.objects.count() == 1_200


def test_every_session_is_as_the_product_keeps_it() -> None:
    demo_data.run(order())
    for chat_session in ChatSession.objects.all():
        rows = messages_of(chat_session)
        turns = list(chat_session.turns.order_by("number"))
        by_id = {row.pk: row for row in rows}
        path = [row for row in rows if row.is_on_path]
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        assert chat_session.next_seq == len(rows) + 1
        assert chat_session.message_count == len(rows)
        assert chat_session.path_count == len(path)
        assert chat_session.turn_count == len(turns)
        assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))
        used = sum((turn.input_tokens or 0) + (turn.output_tokens or 0) for turn in turns)
        assert chat_session.token_count == used
        assert chat_session.head_id == path[-1].pk
        assert [row.parent_id for row in path] == [None, *(row.pk for row in path[:-1])]
        for row in rows:
            assert row.parent_id is None or by_id[row.parent_id].seq < row.seq
            assert (row.turn_id is None) == (row.role == "user")
        assert chat_session.running_turn is None


def test_a_turn_ends_as_its_messages_say() -> None:
    demo_data.run(order())
    for turn in ChatTurn.objects.select_related("input"):
        rows = list(turn.messages.order_by("seq"))
        assert turn.input.role == "user"
        assert turn.status != ChatTurn.Status.RUNNING
        assert turn.finished_at is not None
        if turn.status == ChatTurn.Status.COMPLETED:
            assert rows[-1].role == "assistant"
            assert rows[-1].content
            assert not any(row.is_partial for row in rows)
        elif turn.status == ChatTurn.Status.FAILED:
            assert rows == []
            assert turn.error_code
        else:
            assert [row.is_partial for row in rows] == [True]


def test_every_call_of_a_tool_has_its_result_behind_it() -> None:
    demo_data.run(order())
    calling = [row for row in ChatMessage.objects.filter(role="assistant") if row.tool_calls]
    assert calling
    for row in calling:
        assert row.content is None
        after = ChatMessage.objects.filter(turn=row.turn, role="tool", seq__gt=row.seq)
        results = list(after.order_by("seq").values_list("tool_call_id", "name"))
        assert results == [(call["id"], call["name"]) for call in row.tool_calls]
    count = sum(len(row.tool_calls) for row in calling)
    assert ChatMessage.objects.filter(role="tool").count() == count


def test_all_kinds_of_rows_are_there() -> None:
    demo_data.run(order(sessions=150, messages=4_500))
    for status in set(ChatTurn.Status.values) - {"running"}:
        assert ChatTurn.objects.filter(status=status).exists(), status
    for state in ChatSession.ReviewState.values:
        assert ChatSession.objects.filter(review_state=state).exists(), state
    for model in (Feedback, ReviewScore, ReviewNote, ContextRecord, MemorySnapshot):
        assert model.objects.exists(), model
    assert ConversationSummary.objects.exists()
    assert UserPreference.objects.exists()
    assert ReviewTag.objects.filter(chat_sessions__isnull=False).exists()
    assert ChatMessage.objects.filter(is_on_path=False).exists()
    assert ChatMessage.objects.filter(content__contains="的").exists()
    assert max(len(row.content or "") for row in ChatMessage.objects.all()) == 200_000


def test_times_lie_in_the_months_before_the_end_and_grow_along_a_session() -> None:
    demo_data.run(order())
    for chat_session in ChatSession.objects.all():
        times = [row.created_at for row in messages_of(chat_session)]
        assert times == sorted(times)
        assert times[0] == chat_session.created_at
        assert times[-1] <= chat_session.last_active_at <= UNTIL
    months = {when.month for when in ChatSession.objects.values_list("created_at", flat=True)}
    assert len(months) > 3


def test_what_was_sent_can_be_rebuilt_and_proven() -> None:
    demo_data.run(order())
    rows = list(ContextRecord.objects.all())
    assert len(rows) >= 40
    assert {records.rebuild(row).proof for row in rows} == {"ok"}
    assert any(kind == "whole" for row in rows for _, kind, _ in row.layout)


def test_snapshots_are_what_the_next_turn_takes() -> None:
    demo_data.run(order())
    for snapshot in MemorySnapshot.objects.select_related("chat_session__assistant__endpoint"):
        chat_session = snapshot.chat_session
        assert snapshot.through_seq == chat_session.next_seq - 1
        assert snapshot.policy == memory_policy(chat_session).fingerprint()
        path = [str(row.pk) for row in messages_of(chat_session) if row.is_on_path]
        kept = [each["id"] for each in snapshot.messages]
        assert kept == path[len(path) - len(kept) :]


def test_summaries_are_of_whole_exchanges_in_the_words_of_the_conversation() -> None:
    demo_data.run(order())
    found = set()
    for summary in ConversationSummary.objects.all():
        items = from_data(summary.items)
        assert summary.text == text_of(merged(items, []))
        path = ChatMessage.objects.filter(chat_session=summary.chat_session_id, is_on_path=True)
        following = path.filter(seq__gt=summary.covers_through).order_by("seq").first()
        assert following is None or following.role == "user"
        first = path.order_by("seq").first()
        assert first is not None
        is_english = (first.content or "").isascii()
        assert summary.text.removeprefix("Facts:").isascii() == is_english
        found.add(is_english)
    assert found == {True, False}


def test_nobody_of_the_sample_data_can_sign_in() -> None:
    demo_data.run(order())
    people = {chat_session.user for chat_session in ChatSession.objects.select_related("user")}
    assert not any(person.has_usable_password() or person.is_staff for person in people)


# --- The same again -------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_messages() -> None:
    demo_data.run(order())
    first = everything()
    ChatSession.objects.all().delete()
    demo_data.run(order())
    assert everything() == first


def test_the_same_seed_is_refused_and_another_one_adds() -> None:
    demo_data.run(order())
    with pytest.raises(demo_data.Refused, match="The seed 7 was written to this database before"):
        demo_data.run(order())
    assert ChatSession.objects.count() == 40
    demo_data.run(order(seed=8))
    assert ChatSession.objects.count() == 80
    assert UserPreference.objects.values("user", "key").distinct().count() == (
        UserPreference.objects.count()
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sessions": 0}, "--sessions is 0"),
        ({"users": 1}, "1 users do not fill 2 tenants"),
        ({"messages": 79}, "79 messages are too few for 40 sessions: give at least 80"),
    ],
)
def test_an_order_that_cannot_be_carried_out_says_why(changed: dict[str, int], why: str) -> None:
    with pytest.raises(demo_data.Refused, match=why):
        demo_data.run(order(**changed))


@pytest.mark.parametrize(("sessions", "messages"), [(1, 2), (1, 3), (3, 6), (7, 100), (40, 81)])
def test_sizes_add_up_for_every_order(sessions: int, messages: int) -> None:
    sizes = order(sessions=sessions, messages=messages).sizes()
    assert len(sizes) == sessions
    assert sum(sizes) == messages
    assert min(sizes) >= 2


# --- The command ----------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    out = StringIO()
    sizes = ["--sessions", "3", "--messages", "20", "--users", "4"]
    call_command("demo_data", *sizes, *arguments, stdout=out)
    return out.getvalue()


def test_the_command_says_what_it_wrote_and_makes_the_days_of_usage_due() -> None:
    assert "Written: 3 sessions, 20 messages" in command()
    days = {str(when.date()) for when in ChatTurn.objects.values_list("started_at", flat=True)}
    due = FollowUp.objects.filter(kind=FollowUp.Kind.USAGE)
    assert set(due.values_list("subject", flat=True)) == days


def test_the_command_writes_beside_real_conversations_only_when_it_is_told_to() -> None:
    builders.exchange(builders.chat_session(builders.user("alice")))
    with pytest.raises(CommandError, match="Give --yes"):
        command()
    assert ChatSession.objects.count() == 1
    command("--yes")
    assert ChatSession.objects.count() == 4


def test_more_sample_data_needs_no_yes() -> None:
    command()
    command("--seed", "2")
    assert ChatSession.objects.count() == 6


def test_the_command_can_make_it_searchable() -> None:
    command()
    assert not SearchEntry.objects.exists()
    assert "Indexed: " in command("--seed", "2", "--search")
    searched = ChatMessage.objects.filter(search_entry__isnull=False)
    assert set(searched.values_list("role", flat=True)) == {"user", "assistant"}
    assert searched.values("chat_session").distinct().count() == 3
