"""What if? A turn assembled under another policy: what would be sent, and that nothing happens."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.test import Client
from django.urls import reverse

from chat import llm, records
from chat.inspection import what_if, why_not
from chat.inspection.what_if import Changes, NothingSent
from chat.models import AuditEvent, ChatMessage, ChatSession, ChatTurn
from chat.turns import requests
from tests import builders
from tests.chat.admin_site import READ, signed_in, text_of, viewer
from tests.fakes import FakeEndpoint, answer
from tests.orders import say, session_at

pytestmark = pytest.mark.django_db(transaction=True)

PHRASE = "项目代号是青云-4173"


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def what_if_url(chat_session: Any) -> str:
    return reverse("admin:chat_contextrecord_what_if", args=[chat_session.pk])


def asked(chat_session: ChatSession, client: Client | None = None, **fields: Any) -> Any:
    client = client or signed_in(builders.superuser())
    return client.get(what_if_url(chat_session), fields)


async def conversation(fake_endpoint: FakeEndpoint, **fields: Any) -> ChatSession:
    """A phrase, twelve exchanges and a fourteenth turn; then one more."""
    chat_session = await sync_to_async(session_at)(fake_endpoint, max_messages=20, **fields)
    await sync_to_async(builders.exchange)(chat_session, PHRASE, "已记住")
    await sync_to_async(builders.exchanges)(chat_session, 12)
    fake_endpoint.replies(answer("不知道"), answer("Later"))
    await say(chat_session, "代号是什么？")
    await say(chat_session, "And now?")
    return chat_session


def turn_of(chat_session: ChatSession, number: int) -> ChatTurn:
    turn = why_not.turn_of(ChatSession.objects.get(pk=chat_session.pk), number)
    assert turn is not None
    return turn


def run(chat_session: ChatSession, number: int, **policy: Any) -> what_if.Outcome:
    return what_if.run(turn_of(chat_session, number), Changes(policy))


def everything() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, but for the records of who read what and who is signed in."""
    rows = {}
    for model in apps.get_models():
        if model is not AuditEvent and model._meta.label not in ("sessions.Session", "auth.User"):
            rows[model._meta.label] = list(model._default_manager.order_by("pk").values())
    return rows


async def test_fifty_messages_would_have_held_it(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    client = await sync_to_async(lambda: signed_in(builders.superuser()))()
    ask = sync_to_async(asked)
    response = await ask(chat_session, client, turn=14, seq=1, max_messages=50)
    page = text_of(response)
    assert "Message 1 would be sent" in page
    assert PHRASE in page
    counts = response.context["outcome"].difference.counts
    assert counts == {"same": 22, "changed": 0, "added": 6, "gone": 0}
    page = text_of(await ask(chat_session, client, turn=14, seq=1, max_messages=24))
    assert "Message 1 would not be sent: beyond the limit of messages." in page


async def test_without_a_change_the_same_array_is_assembled(fake_endpoint: FakeEndpoint) -> None:
    """Case 20: a turn is replayed with its prompt and everything else that it was sent with."""
    chat_session = await conversation(fake_endpoint)
    received = [each.body["messages"] for each in fake_endpoint.requests]
    for number, sent in zip((14, 15), received, strict=True):
        turn = await sync_to_async(turn_of)(chat_session, number)
        assembled = await sync_to_async(requests.what_if)(turn)
        assert [records.wire_message(each) for each in assembled.messages] == sent
        record = await turn.context_records.aget()
        rebuilt = await sync_to_async(records.rebuild)(record)
        assert (rebuilt.request["messages"], rebuilt.proof) == (sent, "ok")
        outcome = await sync_to_async(run)(chat_session, number, max_messages=20)
        assert outcome.difference is not None
        assert outcome.difference.counts["same"] == len(sent)
        assert outcome.difference.parameters == ()


async def test_nothing_is_written_and_nothing_is_asked(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    client = await sync_to_async(lambda: signed_in(builders.superuser()))()
    before = await sync_to_async(everything)()
    received = len(fake_endpoint.requests)
    for change in (
        {"max_messages": 50},
        {"max_tokens": 30},
        {"enabled": "off"},
        {"summarize": "on", "use_digest": "on"},
        {"use_preferences": "off", "stride": 4},
        {"assistant": chat_session.assistant_id},
    ):
        response = await sync_to_async(asked)(chat_session, client, turn=14, **change)
        assert "outcome" in response.context, change
    assert await sync_to_async(everything)() == before
    assert len(fake_endpoint.requests) == received


async def test_each_part_of_a_policy_is_tried(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    policy = await sync_to_async(run)(chat_session, 14, max_tokens=40)
    reasons = [each["reason"] for each in policy.manifest["left_out"]]
    assert reasons == ["max_tokens"]
    off = await sync_to_async(run)(chat_session, 14, enabled=False)
    assert [each.kind for each in off.assembled.messages] == ["prompt", "input"]
    unlimited = await sync_to_async(run)(chat_session, 14, max_messages=None, max_tokens=9_999)
    assert unlimited.manifest["window"]["messages"] == 26


async def test_another_assistant_brings_its_own_prompt_and_limits(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await conversation(fake_endpoint)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(max_messages=None)
    endpoint = await sync_to_async(builders.endpoint)(model="other", context_window=4_000)
    other = await sync_to_async(builders.assistant)(
        "other", endpoint=endpoint, system_prompt="Be terse.", max_messages=4
    )
    turn = await sync_to_async(turn_of)(chat_session, 14)
    outcome = await sync_to_async(what_if.run)(turn, Changes(assistant=other))
    assert outcome.assembled.messages[0].content == "Be terse."
    assert outcome.manifest["window"]["messages"] == 4
    assert outcome.difference is not None
    assert outcome.difference.parameters == ("max_tokens", "model")
    stored = await ChatSession.objects.aget(pk=chat_session.pk)
    assert stored.assistant_id == chat_session.assistant_id


async def test_a_line_that_was_drawn_later_does_not_count(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_starts_after=30)
    outcome = await sync_to_async(run)(chat_session, 14, max_messages=50)
    assert outcome.manifest["window"]["from_seq"] == 1


async def test_a_line_that_stood_then_still_counts(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    await sync_to_async(builders.exchanges)(chat_session, 3)
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_starts_after=4)
    fake_endpoint.replies(answer("Yes"))
    await say(chat_session, "Still there?")
    outcome = await sync_to_async(run)(chat_session, 4, max_messages=50)
    assert outcome.manifest["window"] == {"from_seq": 5, "through_seq": 6, "messages": 2}
    assert outcome.manifest["left_out"][0]["reason"] == "before_forget_line"


async def test_the_answer_is_no_part_of_a_past_request(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await conversation(fake_endpoint)
    outcome = await sync_to_async(run)(chat_session, 14, max_messages=None, max_tokens=9_999)
    assert outcome.assembled.messages[-1].content == "代号是什么？"
    assert "Later" not in [each.content for each in outcome.assembled.messages]


def test_a_turn_of_another_branch_is_refused_with_the_reason() -> None:
    chat_session = builders.chat_session()
    turn = builders.exchange(chat_session)
    ChatMessage.objects.filter(pk=turn.input_id).update(is_on_path=False)
    with pytest.raises(NothingSent, match="another branch"):
        run(chat_session, 1, max_messages=50)
    page = text_of(asked(chat_session, turn=1, max_messages=50))
    assert "Nothing would be sent: Turn 1 answers a message of another branch" in page


def test_a_temporary_session_is_refused() -> None:
    chat_session = builders.chat_session(is_temporary=True)
    builders.exchange(chat_session, "", "")
    with pytest.raises(NothingSent, match="temporary"):
        run(chat_session, 1, max_messages=50)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_messages", "0"),
        ("max_messages", "many"),
        ("max_messages", "9" * 11),
        ("max_tokens", "-1"),
        ("stride", "none"),
        ("enabled", "perhaps"),
        ("assistant", "999999"),
    ],
)
def test_a_policy_that_cannot_be_is_named(field: str, value: str) -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session)
    fields: dict[str, Any] = {field: value}
    response = asked(chat_session, **fields)
    assert "outcome" not in response.context
    assert list(response.context["form"].errors) == [field]


def test_assistants_of_other_tenants_are_not_offered() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session)
    foreign = builders.assistant(tenant=builders.tenant("acme"))
    response = asked(chat_session, assistant=foreign.pk)
    assert "assistant" in response.context["form"].errors
    assert foreign.name not in text_of(response)


def test_figures_alone_for_who_may_not_read_text() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session, PHRASE, "已记住")
    turn = builders.exchange(chat_session, "Second", "Two")
    builders.proven_record(turn)
    page = text_of(asked(chat_session, signed_in(viewer()), max_messages=50))
    assert "Text is hidden." in page
    assert "青云" not in page
    assert builders.PROMPT not in page


def test_asking_is_recorded_and_foreign_sessions_end_like_unknown_ones() -> None:
    chat_session = builders.chat_session(tenant=builders.tenant("acme"), person=builders.user())
    builders.exchange(chat_session)
    client = signed_in(viewer(READ))
    unknown = ChatSession(pk=uuid.uuid4())
    codes = [asked(each, client, max_messages=5).status_code for each in (chat_session, unknown)]
    assert codes == [404, 404]
    assert AuditEvent.objects.count() == 0
    asked(chat_session, max_messages=5)
    event = AuditEvent.objects.get()
    assert (event.action, event.filter) == (
        "what_if.read",
        {"turn": 1, "text": True, "max_messages": 5},
    )
