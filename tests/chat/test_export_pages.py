"""Exported rows: all of them, each once, in a constant number of queries and of bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat import demo_data
from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    Feedback,
    ReviewNote,
    ReviewScore,
    ReviewTag,
)
from chat.transfer import export_pages
from chat.transfer.export_kinds import KINDS
from chat.transfer.export_pages import KEYS, START, Place, Row, Selection
from tests import builders

pytestmark = pytest.mark.django_db


def everything(selection: Selection) -> list[Row]:
    return [row for rows in selection.batches() for row in rows]


def of_sessions(kind: str, with_text: bool = True) -> Selection:
    return Selection(KINDS[kind], with_text, sessions=ChatSession.objects.all())


def directly(kind: str, with_text: bool = True) -> Selection:
    chosen = KINDS[kind]
    return Selection(chosen, with_text, rows=chosen.model._default_manager.all())


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that end within sessions, between them and after them."""
    monkeypatch.setattr(export_pages, "FIRST_ROWS", 3)
    monkeypatch.setattr(export_pages, "ROWS", 7)
    monkeypatch.setattr(export_pages, "SESSIONS", 4)


@pytest.fixture
def conversations() -> None:
    until = datetime(2026, 6, 1, tzinfo=UTC)
    demo_data.run(
        demo_data.Order(sessions=30, messages=600, seed=3, tenants=2, users=9, until=until)
    )


# --- All of them, once ----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pages", "conversations")
@pytest.mark.parametrize("select", [of_sessions, directly])
@pytest.mark.parametrize(
    ("kind", "model"), [("messages", ChatMessage), ("turns", ChatTurn), ("feedback", Feedback)]
)
def test_every_row_is_read_once(select: Any, kind: str, model: Any) -> None:
    found = [row["id"] for row in everything(select(kind))]
    assert len(found) == len(set(found))
    assert set(found) == set(model.objects.values_list("pk", flat=True))


@pytest.mark.usefixtures("small_pages", "conversations")
def test_every_session_is_read_once() -> None:
    found = [row["id"] for row in everything(directly("sessions"))]
    assert found == list(ChatSession.objects.order_by("pk").values_list("pk", flat=True))


@pytest.mark.usefixtures("small_pages", "conversations")
def test_messages_stand_session_by_session_in_their_order() -> None:
    rows = everything(of_sessions("messages"))
    places = [(row["session"], row["seq"]) for row in rows]
    ordered = ChatMessage.objects.order_by("chat_session_id", "seq")
    assert places == list(ordered.values_list("chat_session_id", "seq"))


@pytest.mark.usefixtures("small_pages", "conversations")
def test_only_what_belongs_to_the_chosen_sessions_is_read() -> None:
    flagged = ChatSession.objects.filter(review_state="flagged") | ChatSession.objects.filter(
        review_state="reviewed"
    )
    assert flagged.exists()
    for kind in ("messages", "turns", "feedback"):
        chosen = Selection(KINDS[kind], True, sessions=flagged)
        sessions = {row["session"] for row in everything(chosen)}
        assert sessions <= set(flagged.values_list("pk", flat=True))
        assert chosen.count() == len(everything(chosen))


@pytest.mark.usefixtures("small_pages")
def test_what_is_said_and_deleted_meanwhile_moves_nothing_else() -> None:
    chat_session = builders.chat_session()
    builders.exchanges(chat_session, 10)
    selection = directly("messages")
    first = selection.read(START, 5)
    assert [row["seq"] for row in first.rows] == [1, 2, 3, 4, 5]
    chat_session.messages.filter(seq__in=[2, 8]).delete()
    builders.message(chat_session, content="new")
    assert first.after is not None
    rest = selection.read(first.after, 50)
    assert [row["seq"] for row in rest.rows] == [6, 7, *range(9, 22)]
    assert rest.after is None


def test_nothing_is_no_rows() -> None:
    for kind in KINDS:
        assert everything(of_sessions(kind) if kind != "sessions" else directly(kind)) == []


@pytest.mark.usefixtures("conversations")
def test_counts_are_what_will_be_written() -> None:
    for kind in ("messages", "turns", "feedback"):
        assert of_sessions(kind).count() == len(everything(of_sessions(kind)))
        assert directly(kind).count(limit=5) == 5
    assert directly("sessions").count() == 30


# --- Queries and bytes ----------------------------------------------------------------------------


def queries_of(selection: Selection, limit: int) -> int:
    with CaptureQueriesContext(connection) as queries:
        selection.read(START, limit)
    return len(queries)


@pytest.mark.usefixtures("conversations")
@pytest.mark.parametrize("kind", ["sessions", "messages", "turns", "feedback"])
def test_a_batch_takes_as_many_queries_for_many_rows_as_for_few(kind: str) -> None:
    """Tags, scores, notes and feedback are read for the whole batch."""
    selection = directly(kind)
    assert queries_of(selection, 2) == queries_of(selection, 25) <= 6


@pytest.mark.usefixtures("conversations")
@pytest.mark.parametrize("kind", ["messages", "turns", "feedback", "usage"])
def test_rows_of_sessions_take_as_many_queries_for_many_as_for_few(kind: str) -> None:
    selection = of_sessions(kind, with_text=kind != "usage")
    assert queries_of(selection, 2) == queries_of(selection, KEYS) <= 5
    assert queries_of(selection, 400) <= 5 + 400 // KEYS


@pytest.mark.usefixtures("conversations")
def test_no_query_names_more_rows_than_fit_into_a_statement_worth_keeping() -> None:
    selection = of_sessions("messages")
    with CaptureQueriesContext(connection) as queries:
        rows = selection.read(START, 400).rows
    assert len(rows) > 2 * KEYS
    named = [query["sql"].partition(" IN (")[2].count(",") + 1 for query in queries]
    assert max(named) == KEYS


def test_long_texts_are_read_a_few_at_a_time_and_whole() -> None:
    chat_session = builders.chat_session()
    texts = ["字" * 600_000, "short", "b" * 900_000, "c" * 300_000, "d" * 1_500_000]
    for text in texts:
        builders.message(chat_session, content=text)
    found = [list(rows) for rows in directly("messages").batches()]
    assert [[row["seq"] for row in rows] for rows in found] == [[1, 2], [3], [4], [5]]
    written = [(row["content"], row["content_characters"]) for rows in found for row in rows]
    assert written == [(text, len(text)) for text in texts]


def test_without_text_no_text_is_read() -> None:
    chat_session = builders.chat_session(title="secret title")
    turn = builders.exchange(
        chat_session, "secret question", "secret answer", error_detail="secret"
    )
    builders.feedback(turn, value=1, comment="secret comment")
    ReviewNote.objects.create(chat_session=chat_session, text="secret note")
    for kind in KINDS:
        selection = directly(kind, False) if kind == "sessions" else of_sessions(kind, False)
        with CaptureQueriesContext(connection) as queries:
            rows = everything(selection)
        assert rows
        assert "secret" not in str(rows)
        sql = " ".join(query["sql"] for query in queries.captured_queries)
        for column in ("content", "title", "comment", "error_detail", "tool_calls", "parts"):
            assert f'."{column}"' not in sql


# --- What rows hold -------------------------------------------------------------------------------


def test_a_session_holds_its_tags_scores_notes_and_feedback() -> None:
    chat_session = builders.chat_session(builders.user("ada"), title="First")
    turn = builders.exchange(chat_session)
    reviewer = builders.user("rita")
    for slug, name in (("b", "Beta"), ("价格", "价格问题")):
        tag = ReviewTag.objects.create(tenant=chat_session.tenant, slug=slug, name=name)
        tag.chat_sessions.add(chat_session)
    ReviewScore.objects.create(
        chat_session=chat_session, subject="session", name="tone", author=reviewer, value=4
    )
    ReviewNote.objects.create(chat_session=chat_session, author=reviewer, text="Good.")
    builders.feedback(turn, value=-1)
    (row,) = everything(directly("sessions"))
    assert row["user"] == "ada"
    assert row["title"] == "First"
    assert row["tags"] == ["Beta", "价格问题"]
    assert row["scores"] == [{"turn": None, "name": "tone", "value": 4, "author": "rita"}]
    assert row["notes"] == ["Good."]
    assert (row["feedback_good"], row["feedback_bad"]) == (0, 1)
    assert (row["messages"], row["turns"]) == (2, 1)


def test_a_message_with_calls_and_its_result_are_complete() -> None:
    chat_session = builders.chat_session()
    calls = [{"id": "c1", "name": "current_time", "arguments": "{}"}]
    builders.message(chat_session, "assistant", None, tool_calls=calls)
    builders.message(
        chat_session, "tool", "noon", tool_call_id="c1", name="current_time", is_error=True
    )
    called, result = everything(directly("messages"))
    assert (called["content"], called["tool_calls"]) == (None, calls)
    assert called["content_characters"] == 0
    assert (result["content"], result["tool_call_id"]) == ("noon", "c1")
    assert (result["name"], result["is_error"]) == ("current_time", True)


def test_usage_is_added_up_by_person_and_month() -> None:
    ada, ben = builders.user("ada"), builders.user("ben")
    assistant = builders.assistant()
    for person, month, tokens in ((ada, 1, 100), (ada, 1, 50), (ada, 2, 7), (ben, 2, 9)):
        chat_session = builders.chat_session(person, assistant=assistant)
        turn = builders.exchange(chat_session, input_tokens=tokens, output_tokens=1, cost="0.5")
        ChatTurn.objects.filter(pk=turn.pk).update(
            started_at=datetime(2026, month, 31 if month == 1 else 1, tzinfo=UTC)
        )
    rows = everything(of_sessions("usage", with_text=False))
    found = [
        (row["user"], row["month"], row["sessions"], row["turns"], row["input_tokens"])
        for row in rows
    ]
    assert found == [
        ("ada", "2026-01", 2, 2, 150),
        ("ada", "2026-02", 1, 1, 7),
        ("ben", "2026-02", 1, 1, 9),
    ]
    assert [float(row["cost"]) for row in rows] == [1.0, 0.5, 0.5]
    assert {row["tenant"] for row in rows} == {"default"}


def test_usage_is_read_some_people_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat.transfer.export_kinds.PEOPLE", 2)
    for number in range(5):
        builders.exchange(builders.chat_session(builders.user(f"person-{number}")))
    found = [row["user"] for row in everything(of_sessions("usage", with_text=False))]
    assert found == [f"person-{number}" for number in range(5)]


def test_a_place_after_a_session_begins_with_the_next_one() -> None:
    for _ in range(3):
        builders.exchange(builders.chat_session())
    first, second, third = ChatSession.objects.order_by("pk").values_list("pk", flat=True)
    found = of_sessions("messages").read(Place(first), 100)
    assert [row["session"] for row in found.rows] == [second, second, third, third]
