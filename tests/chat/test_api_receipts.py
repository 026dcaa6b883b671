"""Receipts over REST: one's own, of this tenant."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat import retention
from chat.models import DeletionReceipt, PendingRemoval
from tests import builders
from tests.chat.api import Api, field_errors

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Any:
    builders.tenant("default")
    return builders.user("alice")


@pytest.fixture
def api(alice: Any) -> Api:
    return Api(alice)


def receipt_of(person: Any, **fields: Any) -> DeletionReceipt:
    fields.setdefault("tenant", builders.tenant("default"))
    return DeletionReceipt.objects.create(
        kind="session", by="owner", subject="0" * 64, owner=person, counts={"messages": 2}, **fields
    )


def test_a_receipt_says_what_went_and_names_nobody(api: Api, alice: Any) -> None:
    chat_session = builders.chat_session(alice, title="secret")
    builders.exchange(chat_session)
    made = retention.forget_session(chat_session.pk, actor=alice)
    shown = api.get(f"/receipts/{made.pk}/").json()
    assert shown == {
        "id": str(made.pk),
        "kind": "session",
        "by": "owner",
        "counts": {"messages": 2, "sessions": 1, "turns": 1},
        "is_complete": True,
        "pending": 0,
        "verification": None,
        "created_at": made.created_at.isoformat(),
    }
    assert str(chat_session.pk) not in str(DeletionReceipt.objects.values())


def test_receipts_are_listed_newest_first_in_pages(api: Api, alice: Any) -> None:
    made = [str(receipt_of(alice).pk) for _ in range(3)]
    first = api.get("/receipts/", page_size=2).json()
    assert [row["id"] for row in first["results"]] == made[:0:-1]
    rest = api.client.get(first["next"]).json()
    assert ([row["id"] for row in rest["results"]], rest["next"]) == (made[:1], None)


def test_one_with_something_still_to_be_removed_is_incomplete(api: Api, alice: Any) -> None:
    made = receipt_of(alice)
    PendingRemoval.objects.create(kind="cache", name="x", receipt=made)
    (row,) = api.get("/receipts/").json()["results"]
    assert (row["is_complete"], row["pending"]) == (False, 1)


def test_the_list_asks_as_often_for_many_as_for_one(api: Api, alice: Any) -> None:
    counts = []
    for _ in range(2):
        for _ in range(3):
            receipt_of(alice)
        with CaptureQueriesContext(connection) as queries:
            api.get("/receipts/")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_somebody_elses_and_another_tenants_are_as_unknown_as_any(api: Api, alice: Any) -> None:
    foreign = receipt_of(builders.user())
    elsewhere = receipt_of(alice, tenant=builders.tenant("acme"))
    answers = []
    for receipt_id in (foreign.pk, elsewhere.pk, uuid.uuid4()):
        with CaptureQueriesContext(connection) as queries:
            response = api.get(f"/receipts/{receipt_id}/")
        answers.append((len(queries), response.status_code, response.content))
    assert (answers[0], answers[1]) == (answers[2], answers[2])
    assert answers[0][1] == 404
    assert api.get("/receipts/").json()["results"] == []


def test_a_cursor_of_ones_own_making_is_refused(api: Api) -> None:
    assert "cursor" in field_errors(api.get("/receipts/", cursor="cD1hYmM="))
