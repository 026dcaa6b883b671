"""What is remembered across sessions, over REST: the overview, the digest, forgetting it all."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat.models import ChatSession
from memory import digests, preferences
from memory.models import ConversationSummary, MemorySnapshot, UserDigest, UserPreference
from tests import builders
from tests.chat.api import Api, field_errors

pytestmark = pytest.mark.django_db

TEXT = "Ines builds a boat. 青云"


@pytest.fixture
def alice() -> Any:
    builders.tenant("default")
    return builders.user("alice")


@pytest.fixture
def api(alice: Any) -> Api:
    return Api(alice)


def digest(person: Any, text: str = TEXT, **fields: Any) -> UserDigest:
    return UserDigest.objects.create(
        tenant=builders.tenant("default"), user=person, text=text, **fields
    )


# --- The overview ---------------------------------------------------------------------------------


def test_the_overview_counts_and_shows_the_digest(api: Api, alice: Any) -> None:
    made = digest(alice, sources=["a", "b"])
    builders.preference(alice, "a")
    builders.preference(alice, "a", "Another text.")
    builders.preference(alice, "b", status="disabled")
    builders.preference(builders.user(), "c")
    assert api.get("/memory/").json() == {
        "enabled": True,
        "preferences_mode": "confirm",
        "digest": {
            "id": made.pk,
            "text": TEXT,
            "is_enabled": True,
            "origin": "model",
            "sources": 2,
            "updated_at": made.updated_at.isoformat(),
        },
        "preferences": {"active": 1, "proposed": 0, "disabled": 1},
    }


def test_what_is_switched_off_is_said_and_not_passed_over(api: Api, settings: LazySettings) -> None:
    settings.CHAT_MEMORY_ENABLED = False
    settings.CHAT_PREFERENCES_MODE = "off"
    shown = api.get("/memory/").json()
    assert (shown["enabled"], shown["preferences_mode"], shown["digest"]) == (False, "off", None)


# --- The digest -----------------------------------------------------------------------------------


def test_the_digest_is_written_by_its_owner(api: Api, alice: Any) -> None:
    made = digest(alice, sources=["a"])
    shown = api.patch("/memory/digest/", {"text": " Ines\x00 sails. "}).json()
    assert (shown["text"], shown["origin"], shown["cleaned"]) == ("Ines sails.", "user", ["text"])
    made.refresh_from_db()
    assert (made.text, made.revision) == ("Ines sails.", 2)


def test_the_digest_is_switched_off_and_on(api: Api, alice: Any) -> None:
    made = digest(alice)
    assert api.patch("/memory/digest/", {"is_enabled": False}).json()["is_enabled"] is False
    assert digests.of(made.tenant_id, made.user_id) is None
    assert api.patch("/memory/digest/", {"is_enabled": True}).json()["is_enabled"] is True


@pytest.mark.parametrize(
    ("body", "field"),
    [({"text": ""}, "text"), ({"text": "字" * 2_001}, "text"), ({"sources": []}, "sources")],
)
def test_a_wrong_field_of_the_digest_is_named(
    api: Api, alice: Any, body: dict[str, Any], field: str
) -> None:
    digest(alice)
    assert list(field_errors(api.patch("/memory/digest/", body))) == [field]


def test_a_deleted_digest_leaves_an_empty_row_and_a_receipt(api: Api, alice: Any) -> None:
    made = digest(alice, sources=["a"])
    response = api.delete("/memory/digest/")
    receipt = response.json()["receipt"]
    assert (receipt["kind"], receipt["by"], receipt["counts"]) == (
        "memory",
        "owner",
        {"digests": 1},
    )
    made.refresh_from_db()
    assert (made.text, made.sources, made.made_after is not None) == ("", [], True)
    assert api.delete("/memory/digest/").status_code == 404


def test_somebody_elses_digest_is_as_absent_as_none(api: Api) -> None:
    answers = []
    for person in (None, builders.user()):
        if person is not None:
            digest(person)
        with CaptureQueriesContext(connection) as queries:
            asked = [api.patch("/memory/digest/", {"text": "x"}), api.delete("/memory/digest/")]
        answers.append((len(queries), [(each.status_code, each.json()) for each in asked]))
    assert answers[0] == answers[1]
    assert answers[0][1][0][0] == 404
    assert UserDigest.objects.get().text == TEXT


# --- Forgetting everything ------------------------------------------------------------------------


def remembering(person: Any) -> ChatSession:
    """A session with memory of every kind, and what goes across sessions."""
    chat_session = builders.chat_session(person)
    builders.exchange(chat_session)
    builders.snapshot(chat_session)
    ConversationSummary.objects.create(
        chat_session=chat_session,
        version=1,
        text=TEXT,
        items=[],
        covers_from=1,
        covers_through=2,
        last_message=chat_session.pk,
        memory_epoch=0,
        token_count=1,
        source_tokens=2,
    )
    builders.preference(person, "boat", "red")
    builders.preference(person, "boat", "blue")
    digest(person, sources=[str(chat_session.pk)])
    return chat_session


@pytest.mark.django_db(transaction=True)
def test_everything_remembered_is_forgotten_and_the_transcript_stays(api: Api, alice: Any) -> None:
    chat_session, bystanders = remembering(alice), remembering(builders.user())
    response = api.post("/memory/forget-everything/", {"confirm": "alice"})
    receipt = response.json()["receipt"]
    assert (response.status_code, receipt["kind"], receipt["is_complete"]) == (200, "memory", True)
    assert receipt["counts"] == {"digests": 1, "preferences": 2, "snapshots": 1, "summaries": 1}
    chat_session.refresh_from_db()
    assert (chat_session.memory_starts_after, chat_session.messages.count()) == (2, 2)
    for model in (MemorySnapshot, ConversationSummary):
        assert model._default_manager.get().chat_session_id == bystanders.pk
    assert UserPreference.objects.filter(user=bystanders.user).count() == 2
    assert digests.of(bystanders.tenant_id, bystanders.user_id) is not None
    assert api.get("/memory/").json()["digest"] is None


@pytest.mark.django_db(transaction=True)
def test_conversations_go_as_well_when_that_is_asked_for(api: Api, alice: Any) -> None:
    remembering(alice)
    bystanders = remembering(builders.user())
    order = {"confirm": "alice", "conversations": True}
    receipt = api.post("/memory/forget-everything/", order).json()["receipt"]
    assert receipt["kind"] == "user"
    assert (receipt["counts"]["sessions"], receipt["counts"]["messages"]) == (1, 2)
    assert [each.pk for each in ChatSession.objects.all()] == [bystanders.pk]
    assert api.get("/sessions/").json()["results"] == []  # still signed in
    assert [each["id"] for each in api.get("/receipts/").json()["results"]] == [receipt["id"]]


@pytest.mark.parametrize("typed", ["", "Alice", "alice ", "bob", None])
def test_nothing_is_forgotten_unless_the_user_name_is_typed(
    api: Api, alice: Any, typed: str | None
) -> None:
    remembering(alice)
    response = api.post("/memory/forget-everything/", {"confirm": typed})
    assert list(field_errors(response)) == ["confirm"]
    assert preferences.listed(builders.tenant("default").pk, alice.pk).count() == 1
