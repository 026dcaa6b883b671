"""What was sent: every message of the request, its tokens, what was left out, and the proof."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from chat.models import AuditEvent, ChatMessage, ChatTurn, ContextPart, ContextRecord
from tests import builders
from tests.chat.admin_site import READ, page_url, sent_url, signed_in, text_of, viewer

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser("root"))


@pytest.fixture
def turn() -> ChatTurn:
    """The third turn of a conversation."""
    chat_session = builders.chat_session()
    builders.exchange(chat_session, "第一轮：项目代号是青云-4173。", "好的。")
    builders.exchange(chat_session, "Second?", "Yes.")
    return builders.exchange(chat_session, "第二轮：代号？", "青云-4173")


@pytest.fixture
def record(turn: ChatTurn) -> ContextRecord:
    history = list(turn.chat_session.messages.filter(seq__lt=turn.input.seq).order_by("seq"))
    return builders.proven_record(
        turn,
        prompt="Answer briefly.",
        history=history,
        left_out=[
            {"from": 1, "through": 1, "reason": "max_messages"},
            {"from": 2, "through": 9, "reason": "before_forget_line"},
        ],
        parameters={"model": "demo-1", "temperature": 0.25},
        token_count=61,
        input_tokens=64,
    )


def pages(client: Client, record: ContextRecord) -> list[str]:
    """The record's page and the piece that the transcript unfolds."""
    return [text_of(client.get(address)) for address in (page_url(record), sent_url(record))]


def test_both_views_hold_every_message_in_order(client: Client, record: ContextRecord) -> None:
    sent = [
        "Answer briefly.",
        "第一轮：项目代号是青云-4173。",
        "好的。",
        "Second?",
        "Yes.",
        "第二轮：代号？",
    ]
    for page in pages(client, record):
        places = [page.index(f">{text}</pre>") for text in sent]
        assert places == sorted(places)
        assert page.count('<li class="sent-message') == 6


def test_each_message_has_its_role_seq_and_tokens(client: Client, record: ContextRecord) -> None:
    context = client.get(sent_url(record)).context
    shown = [
        (each.role, each.kind, each.seq, each.tokens, bool(each.message_id))
        for each in context["shown"].messages
    ]
    assert shown == [
        ("system", "prompt", None, 20, False),
        ("user", "history", 1, 10, True),
        ("assistant", "history", 2, 10, True),
        ("user", "history", 3, 10, True),
        ("assistant", "history", 4, 10, True),
        ("user", "input", 5, 10, True),
    ]


def test_what_was_left_out_is_said_with_the_reason(client: Client, record: ContextRecord) -> None:
    for page in pages(client, record):
        assert "message 1: beyond the limit of messages" in page
        assert "messages 2–9: before the forget line" in page


def test_tokens_parameters_and_the_proof_are_shown(client: Client, record: ContextRecord) -> None:
    for page in pages(client, record):
        assert "61 of 28016 tokens by our count (o200k_base), 64 reported" in page
        assert '"temperature": 0.25' in page
        assert "Proof ok" in page


def test_the_page_holds_the_exact_request(client: Client, record: ContextRecord) -> None:
    exact = json.loads(client.get(page_url(record)).context["shown"].exact)
    assert exact["model"] == "demo-1"
    assert [(each["role"], each["content"]) for each in exact["messages"]][::5] == [
        ("system", "Answer briefly."),
        ("user", "第二轮：代号？"),
    ]


def test_a_changed_message_breaks_the_proof(client: Client, record: ContextRecord) -> None:
    ChatMessage.objects.filter(seq=1).update(content="Something else")
    for page in pages(client, record):
        assert "Proof mismatch" in page
        assert "Proof ok" not in page


def test_a_text_that_is_gone_is_named(client: Client, record: ContextRecord) -> None:
    part = ContextPart.objects.get()
    ContextPart.objects.all().delete()
    for page in pages(client, record):
        assert "No proof" in page
        assert "This text is gone." in page
        assert f"part {part.pk}" in page


def test_editing_the_assistant_changes_nothing_that_was_recorded(
    client: Client, record: ContextRecord
) -> None:
    assistant = record.chat_session.assistant
    form = {
        "name": assistant.name,
        "slug": assistant.slug,
        "tenant": "",
        "endpoint": assistant.endpoint_id,
        "system_prompt": "Answer at length.",
        "parameters": '{"temperature": 1}',
        "stride": 0,
        "is_active": "on",
    }
    assert client.post(page_url(assistant), form).status_code == 302
    assistant.refresh_from_db()
    assert assistant.system_prompt == "Answer at length."
    for page in pages(client, record):
        assert "Answer briefly." in page
        assert "Answer at length." not in page
        assert "Proof ok" in page


def test_attempts_lead_to_each_other(client: Client, turn: ChatTurn) -> None:
    first, second = (builders.record(turn, attempt=number) for number in (1, 2))
    page = text_of(client.get(page_url(first)))
    assert 'aria-current="page">Attempt 1<' in page
    assert f'href="{page_url(second)}">Attempt 2<' in page


def test_preferences_that_were_sent_are_named_and_linked(
    client: Client, record: ContextRecord
) -> None:
    preference = builders.preference(builders.user())
    record.manifest["preferences"] = [{"id": preference.pk, "key": "language"}]
    record.manifest["preferences_left_out"] = [{"id": 77, "key": "tone", "reason": "budget"}]
    record.save()
    page = text_of(client.get(page_url(record)))
    assert f'href="{page_url(preference)}"' in page
    assert "tone" in page


def test_opening_either_view_is_recorded(record: ContextRecord) -> None:
    person = viewer(READ)
    client = signed_in(person)
    for address in (page_url(record), sent_url(record)):
        AuditEvent.objects.all().delete()
        client.get(address, REMOTE_ADDR="2001:db8::7")
        event = AuditEvent.objects.get()
        assert (event.actor, event.action, event.object_type, event.object_id, event.ip) == (
            person,
            "context.read",
            "context",
            str(record.pk),
            "2001:db8::7",
        )


def test_the_text_of_a_message_is_opened_on_record(turn: ChatTurn) -> None:
    person = viewer(READ)
    signed_in(person).get(page_url(turn.input), REMOTE_ADDR="192.0.2.1")
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.object_id, event.ip) == (
        person,
        "message.read",
        str(turn.input.pk),
        "192.0.2.1",
    )


@pytest.mark.parametrize(
    "manifest", [{}, [], 0, "x", {"parts": []}, {"version": 99, "parts": [{}], "budget": None}]
)
def test_a_manifest_of_another_form_is_shown_as_far_as_it_goes(
    client: Client, record: ContextRecord, manifest: Any
) -> None:
    ContextRecord.objects.filter(pk=record.pk).update(manifest=manifest)
    for page in pages(client, record):
        assert "第二轮：代号？" in page


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</pre><b>x</b>", "{{ x }}", "😄中"])
def test_a_sent_text_stays_text(client: Client, turn: ChatTurn, text: str) -> None:
    ChatMessage.objects.filter(pk=turn.input.pk).update(content=text)
    turn.refresh_from_db()
    record = builders.proven_record(turn)
    for address in (page_url(record), sent_url(record)):
        raw = client.get(address).content.decode()
        assert text not in raw or not text.startswith("<")
        assert text in text_of(client.get(address))


@pytest.mark.parametrize("kind", ["chatmessage", "chatturn", "contextrecord", "contextpart"])
def test_records_of_what_happened_cannot_be_written(
    client: Client, record: ContextRecord, kind: str
) -> None:
    row = {
        "chatmessage": record.turn.input,
        "chatturn": record.turn,
        "contextrecord": record,
        "contextpart": ContextPart.objects.get(),
    }[kind]
    assert client.get(f"/admin/chat/{kind}/add/").status_code == 403
    before = type(row)._default_manager.filter(pk=row.pk).values().get()
    client.post(page_url(row), {"content": "changed", "text": "changed", "status": "failed"})
    assert type(row)._default_manager.filter(pk=row.pk).values().get() == before
