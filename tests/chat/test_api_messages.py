"""Messages, turns and contexts over REST."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat import records, rendering
from chat.models import ChatMessage, ChatSession, ChatTurn
from tests import builders
from tests.chat.api import Api, field_errors

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat_session() -> ChatSession:
    builders.tenant("default")
    return builders.chat_session(builders.user("alice"))


@pytest.fixture
def api(chat_session: ChatSession) -> Api:
    return Api(chat_session.user)


def messages(api: Api, chat_session: ChatSession, **query: Any) -> Any:
    return api.get(f"/sessions/{chat_session.pk}/messages/", **query)


def page(api: Api, chat_session: ChatSession, **query: Any) -> tuple[list[int], bool, bool]:
    """The seqs of a page, and whether there is more before and after it."""
    answer = messages(api, chat_session, **query).json()
    return [row["seq"] for row in answer["results"]], answer["has_before"], answer["has_after"]


# --- Pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "seqs", "has_before", "has_after"),
    [
        ({}, range(1, 11), False, False),
        ({"limit": 4}, range(7, 11), True, False),
        ({"before": 7, "limit": 4}, range(3, 7), True, True),
        ({"before": 3, "limit": 4}, range(1, 3), False, True),
        ({"before": 1}, [], False, True),
        ({"before": 99, "limit": 2}, range(9, 11), True, False),
        ({"after": 0, "limit": 4}, range(1, 5), False, True),
        ({"after": 4, "limit": 4}, range(5, 9), True, True),
        ({"after": 8, "limit": 4}, range(9, 11), True, False),
        ({"after": 10}, [], True, False),
        ({"around": 5, "limit": 4}, range(3, 7), True, True),
        ({"around": 1, "limit": 4}, range(1, 5), False, True),
        ({"around": 10, "limit": 4}, range(8, 11), True, False),
        ({"around": 99, "limit": 4}, range(9, 11), True, False),
        ({"around": 5, "limit": 1}, [5], True, True),
    ],
)
def test_a_page_holds_the_right_messages_and_says_what_else_there_is(
    api: Api,
    chat_session: ChatSession,
    query: dict[str, int],
    seqs: Any,
    has_before: bool,
    has_after: bool,
) -> None:
    builders.exchanges(chat_session, 5)
    assert page(api, chat_session, **query) == (list(seqs), has_before, has_after)


def test_pages_upwards_meet_without_gap_or_repetition(api: Api, chat_session: ChatSession) -> None:
    builders.exchanges(chat_session, 12)
    seen: list[int] = []
    seqs, has_before, _ = page(api, chat_session, limit=7)
    while True:
        seen = seqs + seen
        if not has_before:
            break
        seqs, has_before, _ = page(api, chat_session, before=seqs[0], limit=7)
    assert seen == list(range(1, 25))


def test_an_empty_session_has_an_empty_page(api: Api, chat_session: ChatSession) -> None:
    assert page(api, chat_session) == ([], False, False)


def test_only_the_chosen_branch_is_shown(api: Api, chat_session: ChatSession) -> None:
    builders.exchange(chat_session, "Q", "old answer")
    ChatMessage.objects.filter(content="old answer").update(is_on_path=False)
    asked = ChatMessage.objects.get(content="Q")
    builders.message(chat_session, "assistant", "new answer", parent=asked)
    rows = messages(api, chat_session).json()["results"]
    assert [(row["seq"], row["content"]) for row in rows] == [(1, "Q"), (3, "new answer")]
    assert rows[1]["parent"] == str(asked.pk)


def test_no_page_is_longer_than_fifty_unless_asked(api: Api, chat_session: ChatSession) -> None:
    builders.exchanges(chat_session, 30)
    assert page(api, chat_session) == (list(range(11, 61)), True, False)
    assert len(page(api, chat_session, limit=60)[0]) == 60


def test_a_page_costs_the_same_number_of_queries_whatever_it_holds(
    api: Api, chat_session: ChatSession
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert messages(api, chat_session).status_code == 200
        return len(captured)

    builders.exchanges(chat_session, 1)
    few = queries()
    builders.exchanges(chat_session, 24)
    assert queries() == few


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"before": -1}, "before"),
        ({"after": 2**63}, "after"),
        ({"around": "\x00"}, "around"),
        ({"around": "好"}, "around"),
        ({"before": 3, "after": 1}, "after"),
    ],
)
def test_a_query_that_makes_no_sense_is_named(
    api: Api, chat_session: ChatSession, query: dict[str, Any], field: str
) -> None:
    assert field in field_errors(messages(api, chat_session, **query))


# --- What a message looks like --------------------------------------------------------------------


def test_an_exchange_is_shown_with_its_turn(api: Api, chat_session: ChatSession) -> None:
    turn = builders.exchange(chat_session, "**Hi** <b>", "**Hello** <script>x</script>")
    asked, answered = messages(api, chat_session).json()["results"]
    assert asked["html"] == rendering.render_plain("**Hi** <b>")
    assert "**Hi** &lt;b&gt;" in asked["html"]
    assert (asked["role"], asked["content"], asked["parent"]) == ("user", "**Hi** <b>", None)
    assert "<strong>Hello</strong>" in answered["html"]
    assert "<script" not in answered["html"]
    assert answered["content"] == "**Hello** <script>x</script>"
    assert answered["parent"] == asked["id"]
    assert answered["turn"] == asked["turn"]
    assert answered["turn"] == {
        "id": str(turn.pk),
        "input": asked["id"],
        "number": 1,
        "status": "completed",
        "finish_reason": "stop",
        "output_schema": None,
        "error": None,
        "model": turn.model_name,
        "ms": answered["turn"]["ms"],
        "usage": {"input": 40, "cached_input": None, "output": 12},
        "answers": 1,
        "feedback": None,
    }


def test_a_failed_turn_without_an_answer_is_shown_at_its_input(
    api: Api, chat_session: ChatSession
) -> None:
    builders.exchange(
        chat_session,
        "Hi",
        None,
        status=ChatTurn.Status.FAILED,
        error_code="rate_limited",
        error_detail="The endpoint at 10.0.0.7 is busy.",
    )
    (asked,) = messages(api, chat_session).json()["results"]
    assert asked["turn"]["status"] == "failed"
    assert asked["turn"]["error"] == {
        "code": "rate_limited",
        "detail": "The model takes no more requests for the moment.",
        "retryable": True,
    }


@pytest.mark.parametrize(
    "text",
    [
        "第一轮 青云-4173",
        "مرحبا بالعالم",
        "😄👩‍👩‍👧‍👦",
        "{{ x }} {% y %}",
        "a" * 200_000,
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
    ],
)
def test_anyones_text_comes_back_word_for_word_and_harmless(
    api: Api, chat_session: ChatSession, text: str
) -> None:
    builders.exchange(chat_session, text, text)
    for row in messages(api, chat_session).json()["results"]:
        assert row["content"] == text
        assert "<img" not in row["html"]
        assert 'href="javascript' not in row["html"]


# --- Turns ----------------------------------------------------------------------------------------


def test_a_turn_is_read_with_the_number_of_its_siblings(
    api: Api, chat_session: ChatSession
) -> None:
    asked = builders.message(chat_session, "user", "Q")
    first, second = (builders.turn(chat_session, asked) for _ in range(2))
    shown = api.get(f"/sessions/{chat_session.pk}/turns/{second.pk}/").json()
    assert (shown["id"], shown["number"], shown["answers"]) == (str(second.pk), 2, 2)
    assert shown["input"] == str(first.input_id)


# --- Contexts -------------------------------------------------------------------------------------


def context(api: Api, turn: ChatTurn, **query: Any) -> Any:
    return api.get(f"/sessions/{turn.chat_session_id}/turns/{turn.pk}/context/", **query)


def proven_record(turn: ChatTurn, **fields: Any) -> None:
    record = builders.record(turn, **fields)
    record.proof = records.prove(records.rebuild(record).request)
    record.save()


def test_the_context_holds_each_part_with_its_text_but_not_the_operators(
    api: Api, chat_session: ChatSession
) -> None:
    builders.exchange(chat_session, "第一轮", "青云-4173")
    history = list(chat_session.messages.order_by("seq"))
    turn = builders.exchange(chat_session, "第二轮", "A")
    left_out = [{"from": 1, "through": 1, "reason": "max_messages"}]
    proven_record(turn, history=history[1:], left_out=left_out)
    shown = context(api, turn).json()
    assert [(part["kind"], part["role"], part.get("text")) for part in shown["parts"]] == [
        ("prompt", "system", None),
        ("history", "assistant", "青云-4173"),
        ("input", "user", "第二轮"),
    ]
    assert [part["tokens"] for part in shown["parts"]] == [20, 10, 10]
    assert shown["manifest"]["left_out"] == left_out
    assert (shown["attempt"], shown["proof"]) == (1, "ok")
    assert builders.PROMPT not in str(shown)


def test_a_text_that_was_changed_since_does_not_pass_for_what_was_sent(
    api: Api, chat_session: ChatSession
) -> None:
    turn = builders.exchange(chat_session, "as sent", "A")
    proven_record(turn)
    ChatMessage.objects.filter(content="as sent").update(content="changed")
    assert context(api, turn).json()["proof"] == "mismatch"


def test_a_text_that_is_gone_is_missing_and_the_rest_is_shown(
    api: Api, chat_session: ChatSession
) -> None:
    builders.exchange(chat_session, "first", "answer")
    history = list(chat_session.messages.order_by("seq"))
    turn = builders.exchange(chat_session, "second", "A")
    proven_record(turn, history=history)
    ChatMessage.objects.filter(content="answer").update(content=None)
    shown = context(api, turn).json()
    assert shown["proof"] == "missing"
    assert [part.get("text") for part in shown["parts"]] == [None, "first", None, "second"]


def test_the_last_attempt_is_shown_unless_another_is_asked_for(
    api: Api, chat_session: ChatSession
) -> None:
    turn = builders.exchange(chat_session)
    builders.record(turn)
    builders.record(turn, attempt=2)
    assert context(api, turn).json()["attempt"] == 2
    assert context(api, turn, attempt=1).json()["attempt"] == 1
    assert context(api, turn, attempt=3).status_code == 404
    assert "attempt" in field_errors(context(api, turn, attempt="0"))


def test_a_turn_without_a_record_has_no_context(api: Api, chat_session: ChatSession) -> None:
    response = context(api, builders.exchange(chat_session))
    assert (response.status_code, response.json()["detail"]) == (404, "There is no such context.")


def test_an_unknown_turn_has_no_context(api: Api, chat_session: ChatSession) -> None:
    path = f"/sessions/{chat_session.pk}/turns/{uuid.uuid4()}/context/"
    assert api.get(path).json()["detail"] == "There is no such turn."
