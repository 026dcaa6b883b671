"""Lists are made for millions of rows: bounded counts, sorting by indexes alone, no surprises."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat.admin import lists
from chat.models import (
    Assistant,
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
)
from memory.models import MemorySnapshot, UserPreference
from tests import builders
from tests.chat.admin_site import OURS, list_url, rows_of, signed_in, text_of

pytestmark = pytest.mark.django_db

BIG = [
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    MemorySnapshot,
    UserPreference,
]
ODD_TEXTS = ["\x00", "%", "_", "'; --", '"', "\\", "😄", "第一轮", "مرحبا", "a" * 100_000, "\ud800"]


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser("root"))


def fill(count: int) -> None:
    """`count` sessions of different people with a row of everything."""
    assistant = builders.assistant()
    for number in range(count):
        person = builders.user()
        chat_session = builders.chat_session(person, assistant=assistant, title=f"Title {number}")
        turn = builders.exchange(chat_session)
        builders.record(turn)
        ContextPart.objects.create(chat_session=chat_session, text="part")
        builders.snapshot(chat_session)
        builders.preference(person)
        AuditEvent.objects.create(actor=person, action="test", object_type="session")


def queries_of(client: Client, address: str, **asked: str) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address, asked).status_code == 200
    return [query["sql"] for query in queries.captured_queries]


# --- Rules that every list keeps ------------------------------------------------------------------


def test_no_list_of_the_site_offers_to_delete_what_is_selected(client: Client, rf: Any) -> None:
    request = rf.get("/")
    request.user = builders.superuser()
    offered = {
        model.__name__: set(page.get_actions(request))
        for model, page in admin.site._registry.items()
    }
    assert {name for name, actions in offered.items() if "delete_selected" in actions} == set()


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_a_list_has_none_of_the_features_that_read_everything(model: type[Any], rf: Any) -> None:
    request = rf.get("/")
    request.user = builders.superuser()
    page = admin.site._registry[model]
    assert page.date_hierarchy is None
    assert page.show_facets is admin.ShowFacets.NEVER
    assert page.show_full_result_count is False
    assert page.list_per_page <= 50
    assert page.paginator is lists.CappedPaginator
    assert len(page.get_list_display(request)) <= 7
    assert [inline.__name__ for inline in page.inlines] == []


@pytest.mark.parametrize("model", BIG, ids=lambda model: model.__name__)
def test_a_list_takes_as_many_queries_for_thirty_rows_as_for_three(
    client: Client, model: type[Any]
) -> None:
    fill(3)
    few = queries_of(client, list_url(model))
    fill(27)
    many = queries_of(client, list_url(model))
    assert len(rows_of(client.get(list_url(model)))) >= 30
    assert len(few) == len(many)


@pytest.mark.parametrize("model", BIG, ids=lambda model: model.__name__)
def test_every_count_of_a_list_has_a_limit(client: Client, model: type[Any]) -> None:
    fill(2)
    counts = [sql for sql in queries_of(client, list_url(model)) if "COUNT(" in sql]
    assert len(counts) == 1
    assert f"LIMIT {lists.COUNTED + 1}" in counts[0]


@pytest.mark.parametrize("model", BIG, ids=lambda model: model.__name__)
def test_a_list_reads_no_column_that_may_be_large(client: Client, model: type[Any]) -> None:
    fill(1)
    large = [
        '"content", "chat',
        '"system_prompt"',
        '"manifest"',
        '"layout"',
        '"parameters"',
        '"tool_calls"',
    ]
    large += ['"chat_contextpart"."text"', '"memory_memorysnapshot"."messages"']
    read = [sql for sql in queries_of(client, list_url(model)) if sql.startswith("SELECT")]
    quoted = [sql.replace("`", '"') for sql in read]
    assert [(name, sql) for name in large for sql in quoted if name in sql.split(" FROM ")[0]] == []


@pytest.mark.parametrize("model", BIG, ids=lambda model: model.__name__)
def test_sorting_by_a_column_is_ignored(client: Client, model: type[Any]) -> None:
    fill(2)
    order = re.compile(r"ORDER BY .*? LIMIT|ORDER BY .*$")

    def orders(**asked: str) -> list[str]:
        sql = queries_of(client, list_url(model), **asked)
        return [found.group() for each in sql if (found := order.search(each))]

    plain = orders()
    for column in ("1", "-2", "3.-4"):
        assert orders(o=column) == plain


# --- Counting and paging --------------------------------------------------------------------------


def test_the_number_of_rows_is_exact_up_to_the_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "COUNTED", 3)
    fill(3)
    page = text_of(client.get(list_url(ChatSession)))
    assert "3 sessions" in page
    assert "more than" not in page


def test_beyond_the_limit_it_says_more_than(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "COUNTED", 3)
    fill(4)
    page = text_of(client.get(list_url(ChatSession)))
    assert "more than 3 sessions" in page
    assert "Search or filter to reach the others." in page


def test_no_page_beyond_the_counted_rows_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "COUNTED", 4)
    monkeypatch.setattr(admin.site._registry[ChatSession], "list_per_page", 2)
    fill(6)
    assert len(rows_of(client.get(list_url(ChatSession), {"p": "2"}))) == 2
    beyond = client.get(list_url(ChatSession), {"p": "3"})
    assert (beyond.status_code, beyond["Location"]) == (302, f"{list_url(ChatSession)}?e=1")


# --- Finding --------------------------------------------------------------------------------------


def test_every_list_finds_a_row_by_its_exact_id(client: Client) -> None:
    fill(3)
    people = get_user_model()._default_manager.exclude(username="root")
    for name, person in zip(("ada", "ben", "cy"), people, strict=True):
        people.filter(pk=person.pk).update(username=name)  # a name with a number is found by it
    for model in BIG:
        row = model._default_manager.order_by("pk")[0]
        assert [each.pk for each in rows_of(client.get(list_url(model), {"q": str(row.pk)}))] == [
            row.pk
        ], model


def test_an_id_is_found_with_and_without_dashes(client: Client) -> None:
    fill(2)
    wanted = ChatSession.objects.all()[0]
    for term in (str(wanted.pk), wanted.pk.hex, f"  {wanted.pk} ", str(wanted.pk).upper()):
        assert [row.pk for row in rows_of(client.get(list_url(ChatSession), {"q": term}))] == [
            wanted.pk
        ]


def test_messages_turns_and_records_are_found_by_the_session(client: Client) -> None:
    fill(2)
    chat_session = ChatSession.objects.all()[0]
    for model, count in ((ChatMessage, 2), (ChatTurn, 1), (ContextRecord, 1), (MemorySnapshot, 1)):
        found = rows_of(client.get(list_url(model), {"q": str(chat_session.pk)}))
        assert len(found) == count
        assert {getattr(row, "chat_session_id", row.pk) for row in found} == {chat_session.pk}


def test_a_part_of_an_id_finds_nothing(client: Client) -> None:
    fill(1)
    pk = ChatMessage.objects.all()[0].pk
    assert rows_of(client.get(list_url(ChatMessage), {"q": str(pk)[:8]})) == []
    assert rows_of(client.get(list_url(ChatMessage), {"q": str(uuid.uuid4())})) == []


def test_sessions_are_found_by_the_persons_name_and_the_title(client: Client) -> None:
    alice = builders.chat_session(builders.user("alice-wonder"), title="项目计划")
    builders.chat_session(builders.user("bob"), title="Taxes")
    for term in ("alice", "WONDER", "项目"):
        assert rows_of(client.get(list_url(ChatSession), {"q": term})) == [alice]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
def test_odd_texts_find_nothing_and_break_nothing(client: Client, text: str) -> None:
    builders.chat_session(title="plain")
    builders.user("ada")
    raw = text.encode("utf-8", "surrogatepass")
    for name in ("q", "person", "assistant", "tenant", "last_active_at_from"):
        assert client.get(list_url(ChatSession), {name: raw}).status_code == 200
    field = {"app_label": "memory", "model_name": "userpreference", "field_name": "user"}
    asked: dict[str, Any] = {**field, "term": raw}
    assert client.get("/admin/autocomplete/", asked).status_code == 200
    for model in (User, Assistant):
        assert client.get(list_url(model), {"q": raw}).status_code == 200


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_range_of_days_holds_both_its_ends(client: Client) -> None:
    times = ["2026-03-01T00:00:00", "2026-03-02T23:59:59.999999", "2026-03-03T00:00:00"]
    made = [builders.chat_session() for _ in times]
    for row, time in zip(made, times, strict=True):
        ChatSession.objects.filter(pk=row.pk).update(last_active_at=at(time))

    def found(**days: str) -> list[Any]:
        asked = {f"last_active_at_{name}": day for name, day in days.items()}
        return rows_of(client.get(list_url(ChatSession), asked))

    assert found(**{"from": "2026-03-01", "through": "2026-03-02"}) == [made[1], made[0]]
    assert found(**{"from": "2026-03-03"}) == [made[2]]
    assert found(through="2026-02-28") == []
    assert len(found(**{"from": "not a day", "through": "0001-01-01"})) == 3


def test_a_filter_keeps_what_the_address_says_beside_it(client: Client) -> None:
    builders.chat_session(builders.user("alice"))
    response = client.get(list_url(ChatSession), {"person": "ali", "state": "held"})
    page = text_of(response)
    assert '<input type="hidden" name="state" value="held">' in page
    assert '<input type="hidden" name="person" value="ali">' in page


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("running", {"running_turn": uuid.uuid4()}),
        ("held", {"is_held": True}),
        ("archived", {"is_archived": True}),
        ("temporary", {"is_temporary": True}),
        ("memory_off", {"memory_enabled": False}),
    ],
)
def test_sessions_are_filtered_by_state(client: Client, state: str, fields: Any) -> None:
    builders.chat_session()
    wanted = builders.chat_session(**fields)
    assert rows_of(client.get(list_url(ChatSession), {"state": state})) == [wanted]


def test_messages_of_one_session_are_filtered_by_role_and_those_of_all_are_not(
    client: Client,
) -> None:
    fill(1)
    chat_session = ChatSession.objects.all()[0]
    asked = {"chat_session__id__exact": str(chat_session.pk), "role__exact": "user"}
    assert [row.role for row in rows_of(client.get(list_url(ChatMessage), asked))] == ["user"]
    assert client.get(list_url(ChatMessage), {"role__exact": "user"}).status_code == 400


def test_the_newest_sessions_come_first_and_their_messages_in_order(client: Client) -> None:
    old, new = builders.chat_session(), builders.chat_session()
    for row, time in ((old, "2026-03-01T00:00:00"), (new, "2026-03-02T00:00:00")):
        builders.exchanges(row, 2)
        ChatSession.objects.filter(pk=row.pk).update(last_active_at=at(time))
    assert rows_of(client.get(list_url(ChatSession))) == [new, old]
    shown = [(row.chat_session_id, row.seq) for row in rows_of(client.get(list_url(ChatMessage)))]
    assert shown == [(row.pk, seq) for row in (new, old) for seq in (1, 2, 3, 4)]


def test_turns_of_one_status_come_as_they_began_and_those_of_a_session_by_number(
    client: Client,
) -> None:
    sessions = [builders.chat_session(), builders.chat_session()]
    turns = [builders.exchange(each, status="failed") for each in (*sessions, *sessions)]
    for day, turn in enumerate(turns, start=1):
        ChatTurn.objects.filter(pk=turn.pk).update(started_at=at(f"2026-03-0{day}T00:00:00"))
    failed = {"status__exact": "failed"}
    assert rows_of(client.get(list_url(ChatTurn), failed)) == turns[::-1]
    ChatTurn.objects.filter(pk=turns[0].pk).update(started_at=at("2026-03-09T00:00:00"))
    of_one = {**failed, "chat_session__id__exact": str(sessions[0].pk)}
    assert rows_of(client.get(list_url(ChatTurn), of_one)) == [turns[2], turns[0]]


# --- Actions reach what was ticked ----------------------------------------------------------------


def test_an_action_never_reaches_beyond_what_was_ticked(client: Client) -> None:
    ticked, other = builders.chat_session(), builders.chat_session()
    form = {"action": "hold", "index": "0", "_selected_action": [str(ticked.pk)]}
    client.post(list_url(ChatSession), {**form, "select_across": "1"})
    held = ChatSession.objects.filter(is_held=True)
    assert list(held) == [ticked]
    assert other not in held


def test_the_list_does_not_offer_to_select_across_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin.site._registry[ChatSession], "list_per_page", 2)
    fill(3)
    page = text_of(client.get(list_url(ChatSession)))
    assert "0 of 2 selected" in page
    assert "Select all 3" not in page


def test_a_list_of_texts_is_recorded_and_one_of_figures_is_not(client: Client) -> None:
    fill(1)
    AuditEvent.objects.all().delete()
    client.get(list_url(ChatTurn))
    client.get(list_url(ContextRecord))
    assert not AuditEvent.objects.exists()
    client.get(list_url(ChatMessage), {"q": "nothing"})
    event = AuditEvent.objects.get()
    assert (event.action, event.count, event.filter) == (
        "message.list",
        0,
        {"searched": True, "page": 1},
    )


def test_the_site_lists_its_lists_in_working_order(client: Client) -> None:
    page = text_of(client.get("/admin/"))
    groups: Callable[[str], list[str]] = lambda text: re.findall(  # noqa: E731
        r"<caption>(.*?)</caption>", text
    )
    assert groups(page) == [
        "Conversations",
        "Memory",
        "Models",
        "People",
        "Usage",
        "Trail",
        "Sign-ins and others",
    ]
