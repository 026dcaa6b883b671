"""What users thought of answers: one list, filtered and exported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat.models import AuditEvent, Feedback
from tests import builders
from tests.chat.admin_site import READ, list_url, page_url, rows_of, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db

VIEW = "chat.view_feedback"


@pytest.fixture
def client() -> Client:
    return signed_in(viewer(READ, VIEW))


def rated(value: int, comment: str = "", **session: Any) -> Feedback:
    turn = builders.exchange(builders.chat_session(**session))
    return builders.feedback(turn, value=value, comment=comment)


def test_ratings_are_found_by_value_comment_person_and_turn(client: Client) -> None:
    good, bad = rated(1), rated(-1, "Not what I asked.")
    rated(-1, "foreign", tenant=builders.tenant())
    url = list_url(Feedback)
    assert rows_of(client.get(url)) == [bad, good]
    for asked, wanted in (
        ({"value__exact": "-1"}, [bad]),
        ({"comment": "yes"}, [bad]),
        ({"comment": "no"}, [good]),
        ({"person": good.user.get_username()}, [good]),
        ({"q": str(bad.turn_id)}, [bad]),
        ({"created_at_from": "2999-01-01"}, []),
    ):
        assert rows_of(client.get(url, asked)) == wanted, asked


def test_comments_are_read_by_those_who_may_and_each_reading_is_recorded(client: Client) -> None:
    row = rated(-1, "Not what I asked.")
    blind = signed_in(viewer(VIEW))
    for address in (list_url(Feedback), page_url(row)):
        assert "Not what I asked." in text_of(client.get(address))
        assert "Not what I asked." not in text_of(blind.get(address))
    read = AuditEvent.objects.filter(object_type="feedback").order_by("pk")
    assert [(each.action, each.filter.get("text")) for each in read] == [
        ("feedback.list", None),
        ("feedback.read", True),
        ("feedback.read", False),
    ]


def test_a_reason_is_asked_for_where_comments_of_one_session_open(
    client: Client, settings: Any
) -> None:
    settings.CHAT_READ_REASON_REQUIRED = True
    row = rated(-1, "Not what I asked.")
    assert "Not what I asked." not in text_of(client.get(list_url(Feedback)))
    asked = client.get(page_url(row))
    reason = reverse("admin:chat_chatsession_reason", args=[row.turn.chat_session_id])
    assert asked["Location"].startswith(reason)


def test_all_feedback_is_exported_from_its_list() -> None:
    client = signed_in(viewer(READ, VIEW, "chat.export_metadata", "chat.export_text"))
    rated(1, "Yes.")
    rated(-1, "No.")
    new = reverse("admin:chat_exportjob_new", args=["feedback"])
    assert f"{new}?value__exact=-1" in text_of(client.get(list_url(Feedback), {"value__exact": -1}))
    form = {"kind": "feedback", "format": "jsonl", "with_text": "on"}
    response = client.post(f"{new}?value__exact=-1", form)
    (line,) = b"".join(response).decode().splitlines()
    assert json.loads(line)["comment"] == "No."


def test_a_list_takes_as_many_queries_for_twelve_rows_as_for_three(client: Client) -> None:
    counts = []
    for more in (3, 9):
        for _ in range(more):
            rated(1)
        client.get(list_url(Feedback))
        with CaptureQueriesContext(connection) as queries:
            client.get(list_url(Feedback))
        counts.append(len(queries))
    assert counts[0] == counts[1]
