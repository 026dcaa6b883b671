"""The second leg of the search where PostgreSQL has the extension pgvector."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from io import StringIO
from itertools import product
from typing import Any, cast

import environ
import psycopg
import pytest
from django.conf import LazySettings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.utils import ConnectionHandler, load_backend
from pytest_django import DjangoDbBlocker

from chat import retention
from chat.models import ChatMessage, ChatSession, Tenant
from chat.retention.verification import Findings, Needles, search_tables, text_columns
from chat.search import embeddings, messages, pgvector
from chat.search.engines import engine
from chat.search.scopes import Scope
from tests import builders, services
from tests.databases import fresh_name, manage, on_server

pytestmark = pytest.mark.postgres

HAS_PGVECTOR = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')"
SIZE = 48
QUESTIONS = ("puppy", "Where is the ferry?", "退款", "quokka 12", "the 7th")


class Scattered:
    """Of each text a direction of its own, the same every time."""

    name = "scattered"
    size = SIZE

    def embed(self, texts: list[str]) -> list[list[float]]:
        chances = (random.Random(text) for text in texts)
        return [[chance.gauss(0, 1) for _ in range(self.size)] for chance in chances]


class Longer(Scattered):
    size = SIZE + 1


# --- A database with the extension ----------------------------------------------------------------


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a migrated database on a server that has pgvector, which it does not use yet."""
    server, name = server_with_pgvector(), fresh_name()
    run_on(server, f'CREATE DATABASE "{name}" TEMPLATE template0')
    url = on_server(server, name)
    manage(url, "migrate", "--verbosity", "0")
    yield url
    run_on(server, f'DROP DATABASE "{name}" WITH (FORCE)')


def server_with_pgvector() -> str:
    """The server of the tests if it has the extension, else an embedded one, which has it."""
    named = os.environ.get("TEST_DATABASE_URL")
    if named and run_on(named, HAS_PGVECTOR):
        return named
    return services.start_embedded("postgres")


def run_on(server: str, statement: str) -> bool:
    with psycopg.connect(server, autocommit=True) as client:
        done = client.execute(statement.encode())
        return bool(done.description and cast(tuple[Any], done.fetchone())[0])


@pytest.fixture(autouse=True)
def _in_database(
    database: str, django_db_blocker: DjangoDbBlocker, settings: LazySettings
) -> Iterator[None]:
    """Everything of this test happens in that database, in a transaction that is undone."""
    settings.CHAT_SEARCH_EMBEDDINGS = f"{__name__}.Scattered"
    of_the_run = connections["default"]
    described = {"default": environ.Env.db_url_config(database)}
    whole = ConnectionHandler(described).settings["default"]
    own = load_backend(whole["ENGINE"]).DatabaseWrapper(whole, alias="default")
    with django_db_blocker.unblock():
        connections["default"] = own
        try:
            with transaction.atomic():
                yield
                transaction.set_rollback(True)
        finally:
            own.close()
            connections["default"] = of_the_run


def run(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def rebuild() -> str:
    out = StringIO()
    call_command("rebuild_search", stdout=out)
    return out.getvalue()


def use_pgvector() -> None:
    run("SET CONSTRAINTS ALL IMMEDIATE")  # a table with checks to come is not altered
    run("CREATE EXTENSION vector")
    rebuild()
    assert pgvector.is_ready()


def conversation(*texts: str, **owner: Any) -> ChatSession:
    chat_session = builders.chat_session(**owner)
    for text in texts:
        builders.message(chat_session, "user", text)
    messages.index_session(chat_session.pk)
    return chat_session


def scope_of(chat_session: ChatSession, **options: Any) -> Scope:
    return Scope((chat_session.tenant_id,), chat_session.user_id, **options)


def nearest(scope: Scope, question: str) -> list[str]:
    """The texts that are found by meaning alone, the nearest first."""
    words = engine()
    assert words is not None
    found = embeddings.nearest(words, scope, question)
    texts = dict(ChatMessage.objects.values_list("search_entry__pk", "content"))
    return [str(texts[entry]) for entry in found]


def with_vectors() -> list[str]:
    """The messages that have a vector of pgvector's type."""
    rows = run(
        "SELECT m.content FROM chat_searchentry e JOIN chat_chatmessage m ON m.id = e.message_id"
        " WHERE e.meaning IS NOT NULL ORDER BY e.id"
    )
    return [text for (text,) in rows]


# --- What is found --------------------------------------------------------------------------------


def test_the_nearest_are_those_that_a_comparison_one_by_one_finds() -> None:
    chat_session = conversation(*(f"Message {number}" for number in range(150)))
    scope = scope_of(chat_session)
    one_by_one = [nearest(scope, each) for each in QUESTIONS]
    use_pgvector()
    assert [nearest(scope, each) for each in QUESTIONS] == one_by_one
    assert {len(found) for found in one_by_one} == {embeddings.MOST_NEAR}
    assert run("SELECT COUNT(vector), COUNT(meaning) FROM chat_searchentry") == [(0, 150)]


def test_the_oldest_message_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "MOST_COMPARED", 3)
    scope = scope_of(conversation(*(f"Message {number}" for number in range(10))))
    assert "Message 0" not in nearest(scope, "Message 0")
    use_pgvector()
    assert nearest(scope, "Message 0")[0] == "Message 0"


def test_a_message_is_found_by_its_vector_in_a_search() -> None:
    use_pgvector()
    chat_session = conversation("The hound sleeps.", "A ferry leaves.")
    owner: dict[str, Any] = {"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id}
    found = messages.find(**owner, question="puppy")
    assert {each.text for each in found} == {"The hound sleeps.", "A ferry leaves."}


def test_the_newer_of_equals_comes_first() -> None:
    use_pgvector()
    chat_session = conversation("Same", "Same", "Same")
    words = engine()
    assert words is not None
    found = embeddings.nearest(words, scope_of(chat_session), "Same")
    assert len(found) == 3
    assert found == sorted(found, reverse=True)


def test_vectors_of_another_model_or_length_are_not_compared(settings: LazySettings) -> None:
    use_pgvector()
    scope = scope_of(conversation("The hound sleeps."))
    settings.CHAT_SEARCH_EMBEDDINGS = f"{__name__}.Longer"
    assert nearest(scope, "The hound sleeps.") == []
    rebuild()
    assert nearest(scope, "The hound sleeps.") == ["The hound sleeps."]
    run("UPDATE chat_searchentry SET vector_model = 'another'")
    assert nearest(scope, "The hound sleeps.") == []


# --- Whose it is ----------------------------------------------------------------------------------


def test_nobody_gets_another_persons_row_however_near_it_is() -> None:
    use_pgvector()
    tenants = [Tenant.objects.create(pk=pk, slug=f"t{pk}", name="T") for pk in (9_001, 90_011)]
    people = [get_user_model().objects.create(pk=pk, username=f"u{pk}") for pk in (9_111, 91_111)]
    assistant = builders.assistant()
    held = [
        conversation(
            f"Of {person.pk} in {tenant.pk}",
            "The same",
            person=person,
            tenant=tenant,
            assistant=assistant,
        )
        for person, tenant in product(people, tenants)
    ]
    for mine, other in product(held, held):
        theirs = f"Of {other.user_id} in {other.tenant_id}"
        found = nearest(scope_of(mine), theirs)
        assert sorted(found) == sorted([f"Of {mine.user_id} in {mine.tenant_id}", "The same"])


def test_a_session_and_what_a_model_may_be_told_of_hold_for_vectors_too() -> None:
    use_pgvector()
    first = conversation("One", "Two", "Three")
    second = conversation("Four", person=first.user, tenant=first.tenant)
    assert sorted(nearest(scope_of(first), "Four")) == ["Four", "One", "Three", "Two"]
    assert nearest(scope_of(first, session_id=second.pk), "One") == ["Four"]
    ChatSession.objects.filter(pk=first.pk).update(memory_starts_after=2)
    assert sorted(nearest(scope_of(first, for_model=True), "One")) == ["Four", "Three"]


# --- What goes ------------------------------------------------------------------------------------


def test_a_vector_leaves_with_its_message_and_its_session() -> None:
    use_pgvector()
    chat_session = conversation("One", "Two", "Three", "Four")
    first, second, *_ = ChatMessage.objects.order_by("seq")
    assert with_vectors() == ["One", "Two", "Three", "Four"]
    retention.redact(chat_session.pk, [first.pk], reason="asked for")
    assert with_vectors() == ["Two", "Three", "Four"]
    messages.remove_messages([second.pk])
    assert with_vectors() == ["Three", "Four"]
    assert "One" not in nearest(scope_of(chat_session), "One")
    retention.forget_session(chat_session.pk)
    assert run("SELECT COUNT(*) FROM chat_searchentry") == [(0,)]


def test_the_check_after_deleting_reads_vectors_too() -> None:
    use_pgvector()
    conversation("The hound sleeps.")
    assert "meaning" in text_columns("chat_searchentry")
    ((stored,),) = run("SELECT meaning::text FROM chat_searchentry")
    findings = Findings()
    search_tables(Needles(texts=[stored[1:20]]), findings)
    assert findings.found == {"chat_searchentry.meaning": 1}


# --- Where the extension comes and goes -----------------------------------------------------------


def test_without_the_extension_in_the_database_all_is_found_and_the_operator_told() -> None:
    chat_session = conversation("The hound sleeps.", "A ferry leaves.")
    assert pgvector.NOT_INSTALLED in rebuild()
    assert not pgvector.is_ready()
    assert nearest(scope_of(chat_session), "A ferry leaves.")[0] == "A ferry leaves."


def test_without_the_setting_no_column_is_made(settings: LazySettings) -> None:
    settings.CHAT_SEARCH_EMBEDDINGS = ""
    run("CREATE EXTENSION vector")
    conversation("The hound sleeps.")
    assert pgvector.NOT_INSTALLED not in rebuild()
    assert not pgvector.is_ready()


def test_when_the_extension_goes_a_rebuild_brings_the_vectors_back() -> None:
    use_pgvector()
    scope = scope_of(conversation("The hound sleeps."))
    run("DROP EXTENSION vector CASCADE")
    assert nearest(scope, "The hound sleeps.") == []
    rebuild()
    assert nearest(scope, "The hound sleeps.") == ["The hound sleeps."]


def test_a_rebuild_of_one_session_makes_no_column() -> None:
    run("CREATE EXTENSION vector")
    chat_session = conversation("The hound sleeps.")
    call_command("rebuild_search", session=str(chat_session.pk), stdout=StringIO())
    assert not pgvector.is_ready()
