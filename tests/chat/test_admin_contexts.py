"""What was sent: every message of the request, its tokens, what was left out, and the proof."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
)
from tests import builders
from tests.chat.admin_site import READ, page_url, sent_url, signed_in, text_of, viewer

pytestmark = [pytest.mark.django_db, pytest.mark.pages]


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


def request_url(record: ContextRecord) -> str:
    return reverse("admin:chat_contextrecord_request", args=[record.pk])


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


# --- Sections of the page -------------------------------------------------------------------------


def test_the_parts_are_shown_against_the_budget(client: Client, record: ContextRecord) -> None:
    response = client.get(page_url(record))
    shown = response.context["shares"]
    assert [(each.share.kind, each.share.tokens, each.share.limit) for each in shown.parts] == [
        ("prompt", 20, 28016),
        ("history", 40, 28016),
        ("input", 10, 28016),
    ]
    assert [(each.x, each.width) for each in shown.parts] == [(0, 1), (0, 1), (2, 1)]
    page = text_of(response)
    assert '<meter min="0" max="28016" value="40"' in page
    assert "Context window of the endpoint".lower() in page.lower()
    assert "style=" not in page.split('id="content-main"')[1]


def test_what_was_left_out_is_explained_and_linked_to_the_setting(
    client: Client, record: ContextRecord
) -> None:
    ChatSession.objects.filter(pk=record.chat_session_id).update(max_messages=30)
    page = text_of(client.get(page_url(record)))
    assert "message 1: beyond the limit of messages</strong> <span" in page
    assert "(20 messages)" in page
    assert f'{page_url(record.chat_session)}#id_max_messages">messages in the window</a>' in page
    assert "messages in the window</a>: <strong>30</strong>" in page
    assert "The memory of the session was cleared after this was said." in page


def test_a_limit_of_the_environment_is_named_and_can_be_set_for_the_session(
    client: Client, record: ContextRecord
) -> None:
    page = text_of(client.get(page_url(record)))
    assert "<code>CHAT_MEMORY_MAX_MESSAGES</code>" in page
    address = f"{page_url(record.chat_session)}#id_max_messages"
    assert f'<a href="{address}">set it for this session</a>' in page


def test_the_difference_is_to_the_request_before(client: Client) -> None:
    chat_session = builders.chat_session()
    first = builders.exchange(chat_session, "One", "Answer one")
    builders.proven_record(first)
    second = builders.exchange(chat_session, "Two", "Answer two")
    rows = list(chat_session.messages.filter(seq__lt=3).order_by("seq"))
    later = builders.proven_record(second, history=rows)
    response = client.get(page_url(later))
    found = response.context["difference"].difference
    assert [(each.state, each.line.seq) for each in found.pairs] == [
        ("same", None),
        ("same", 1),
        ("added", 2),
        ("added", 3),
    ]
    assert (found.prefix_messages, found.prefix_tokens, found.tokens_after) == (2, 30, 50)
    assert "Unchanged from the beginning: 2 messages with 30 of 50 tokens (60 %)" in text_of(
        response
    )
    assert "This is the first request of the session." in text_of(
        client.get(page_url(first.context_records.get()))
    )
    again = builders.proven_record(second, history=rows, attempt=2)
    page = text_of(client.get(page_url(again)))
    assert "attempt 1 of this turn" in page
    assert "4 messages the same, 50 tokens" in page


def test_the_answer_and_every_run_of_the_input_are_shown(client: Client, turn: ChatTurn) -> None:
    record = builders.proven_record(turn)
    again = builders.turn(turn.chat_session, turn.input, status="failed")
    page = text_of(client.get(page_url(record)))
    assert ">青云-4173</pre>" in page
    assert "2 turns answer this input" in page
    assert f'href="{page_url(again)}">turn 4</a> (failed)' in page


def test_calls_of_tools_are_shown_and_not_taken_for_missing(client: Client) -> None:
    chat_session = builders.chat_session()
    asked = builders.message(chat_session, "user", "What time is it?")
    turn = builders.turn(chat_session, asked)
    call = {"id": "c1", "type": "function", "function": {"name": "current_time", "arguments": "{}"}}
    whole = {"role": "assistant", "content": None, "tool_calls": [call]}
    part = ContextPart.objects.create(chat_session=chat_session, text=json.dumps(whole))
    record = builders.record(turn)
    record.layout.append(["assistant", "whole", str(part.pk)])
    record.manifest["parts"].append({"kind": "running", "role": "assistant", "tokens": 9})
    record.save()
    for page in pages(client, record):
        assert '"name": "current_time"' in page
        assert "This text is gone." not in page


def test_a_long_message_is_cut_on_the_page_and_whole_in_the_file(
    client: Client, turn: ChatTurn
) -> None:
    """Cases 18 and 21: 200 KB and 1 MB are marked where they are cut, and can be had whole."""
    for length in (200_000, 1_000_000):
        text = "中" + "x" * (length - 2) + "末"
        ChatMessage.objects.filter(pk=turn.input_id).update(content=text)
        turn.refresh_from_db()
        ContextRecord.objects.all().delete()
        record = builders.proven_record(turn)
        response = client.get(page_url(record))
        assert f"{length - 20_000} more characters are in" in text_of(response)
        assert len(response.content) < 400_000
        file = client.get(request_url(record))
        assert file["Content-Disposition"] == f'attachment; filename="request-{record.pk}.json"'
        assert json.loads(file.content)["messages"][-1]["content"] == text


def test_the_file_is_for_those_who_may_read_text(record: ContextRecord) -> None:
    assert signed_in(viewer()).get(request_url(record)).status_code == 403
    assert signed_in(viewer(READ)).get(request_url(record)).status_code == 200
    foreign = builders.record(
        builders.exchange(builders.chat_session(tenant=builders.tenant("acme")))
    )
    assert signed_in(viewer(READ)).get(request_url(foreign)).status_code == 404
    assert AuditEvent.objects.filter(action="context.read").count() == 1


def test_no_section_shows_text_to_who_may_not_read_it(record: ContextRecord) -> None:
    turn = record.turn
    earlier = turn.chat_session.turns.get(number=2)
    builders.proven_record(earlier)
    page = text_of(signed_in(viewer()).get(page_url(record)))
    for text in ("青云", "Answer briefly.", "Second?", "好的"):
        assert text not in page
    assert "Unchanged from the beginning" in page


def test_the_page_takes_as_many_queries_for_a_long_request(client: Client) -> None:
    """Case 17: a session of 5,000 messages."""
    counts = []
    for length in (4, 5_000):
        chat_session = builders.chat_session()
        rows = [
            ChatMessage(
                chat_session=chat_session,
                role="user" if seq % 2 else "assistant",
                content=f"Text {seq}",
                seq=seq,
            )
            for seq in range(1, length + 1)
        ]
        ChatMessage.objects.bulk_create(rows, batch_size=500)
        ChatSession.objects.filter(pk=chat_session.pk).update(next_seq=length + 1)
        turn = builders.exchange(chat_session, "Now?", "Yes")
        record = builders.proven_record(
            turn, left_out=[{"from": 1, "through": length, "reason": "max_messages"}]
        )
        with CaptureQueriesContext(connection) as queries:
            assert client.get(page_url(record)).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] < 30


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
