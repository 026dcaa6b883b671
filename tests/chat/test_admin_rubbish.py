"""Addresses and forms that no page of the site made: refused or cleaned, and never an error."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, ChatMessage, ChatSession, ChatTurn, FollowUp
from memory.models import ConversationSummary, UserDigest, UserPreference
from tests import builders
from tests.chat.admin_site import list_url, said, signed_in, text_of

pytestmark = pytest.mark.django_db

WITH_ACTIONS = [ChatSession, ConversationSummary, FollowUp, UserDigest, UserPreference]
RUBBISH = ["abc", "\x00", "", "9" * 30, "²", str(uuid.UUID(int=7))]


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser())


@pytest.mark.parametrize("model", WITH_ACTIONS)
@pytest.mark.parametrize("key", RUBBISH)
def test_ticked_rows_that_cannot_exist_are_answered_like_those_that_are_gone(
    client: Client, model: type[Any], key: str
) -> None:
    actions = admin.site._registry[model].actions or ()
    assert actions
    for action in actions:
        form = {"action": action, "_selected_action": [key], "index": "0"}
        response = client.post(list_url(model), form, follow=True)
        assert response.status_code == 200
        name = model._meta.verbose_name_plural
        assert said(response) == [f"None of the {name} that were chosen is in this list."]


def test_what_is_ticked_beside_rubbish_is_done(client: Client) -> None:
    chat_session = builders.chat_session()
    keys = ["abc", str(chat_session.pk), "9" * 30]
    form = {"action": "hold", "_selected_action": keys, "index": "0"}
    assert said(client.post(list_url(ChatSession), form, follow=True)) == ["Held 1 session."]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ChatTurn, "status__exact"),
        (FollowUp, "kind__exact"),
        (UserPreference, "status__exact"),
        (UserPreference, "tenant"),
        (ChatMessage, "all"),
    ],
)
def test_a_nul_in_an_address_is_taken_out_before_anything_is_asked_or_recorded(
    client: Client, model: type[Any], name: str
) -> None:
    assert client.get(list_url(model), {name: "a\x00b"}).status_code in (200, 302)
    assert client.get(list_url(model), {f"{name}\x00": "a"}).status_code in (200, 302, 400)
    recorded = json.dumps(list(AuditEvent.objects.values_list("filter", flat=True)))
    assert "\\u0000" not in recorded


@pytest.mark.parametrize(("model", "name"), [(ChatSession, "person"), (AuditEvent, "actor")])
def test_a_name_that_is_longer_than_any_finds_nobody(
    client: Client, model: type[Any], name: str
) -> None:
    """SQLite refuses to compare with more than 50,000 characters."""
    response = client.get(list_url(model), {name: "a" * 60_000})
    assert response.context["cl"].result_count == 0


def test_a_nul_in_what_is_exported_is_not_recorded(client: Client) -> None:
    builders.chat_session()
    address = reverse("admin:chat_exportjob_new", args=["chatsession"]) + "?person=a%00b"
    response = client.post(address, {"kind": "sessions", "format": "csv"})
    assert response.status_code == 200
    assert AuditEvent.objects.get().filter["asked"] == {"person": "ab"}


def test_a_reason_is_recorded_on_one_line_without_marks_that_turn_it(client: Client) -> None:
    chat_session = builders.chat_session()
    form = {"action": "clear_memory", "_selected_action": [str(chat_session.pk)], "typed": "1"}
    client.post(list_url(ChatSession), {**form, "reason": " a\x00sked\nby \u202email "})
    assert AuditEvent.objects.get(action="memory.clear").reason == "asked by mail"


def test_an_unknown_filter_is_told_and_logs_no_error(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    new = reverse("admin:chat_exportjob_new", args=["chatsession"])
    for address in (list_url(ChatSession), list_url(ChatMessage), new):
        with caplog.at_level(logging.WARNING):
            response = client.get(address, {"user__password__startswith": "pbkdf2"})
        assert response.status_code == 400
        assert "cannot be filtered by" in text_of(response)
        assert list_url(ChatMessage if "message" in address else ChatSession) in text_of(response)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_a_list_is_headed_by_what_it_lists(client: Client) -> None:
    page = text_of(client.get(list_url(ChatTurn)))
    assert "<h1>Turns</h1>" in page
    assert "<title>Turns | Chat administration</title>" in page
    assert "Select turn" not in page
    assert "<h1>Select" in text_of(client.get(list_url(ChatTurn), {"_popup": "1"}))


def test_summaries_are_not_deleted_without_a_reason(client: Client) -> None:
    chat_session = builders.chat_session()
    summary = ConversationSummary.objects.create(
        chat_session=chat_session,
        version=1,
        text="a fact",
        items=[],
        covers_from=1,
        covers_through=2,
        last_message=uuid.uuid4(),
        memory_epoch=0,
        token_count=5,
        source_tokens=50,
    )
    form = {"action": "delete_versions", "_selected_action": [str(summary.pk)]}
    page = text_of(client.post(list_url(ConversationSummary), {**form, "reason": " \x00 "}))
    assert "Say why. Nothing was deleted." in page
    assert ConversationSummary.objects.get() == summary
