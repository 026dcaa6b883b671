"""Turns with passages, output schemas and strict roles, from the order to the record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from chat import documents, events, llm, records
from chat.models import Assistant, ChatMessage, ChatSession, ChatTurn, ContextPart, ContextRecord
from memory import blocks
from memory.blocks import operator_block, schema_block
from memory.references import Passage, Question
from tests import builders
from tests.chat.admin_site import page_url, signed_in, text_of, transcript_url
from tests.fakes import FakeEndpoint, answer
from tests.orders import again, run_order, say, sent

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
MISSED = 'The answer does not follow the output schema: ["city"] must be there (at required).'


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def session_of(
    fake_endpoint: FakeEndpoint, supports: Any = (), is_temporary: bool = False, **assistant: Any
) -> ChatSession:
    fields: dict[str, Any] = dict.fromkeys(supports, True)
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake", **fields)
    made = builders.assistant(endpoint=endpoint, **assistant)
    return builders.chat_session(assistant=made, is_temporary=is_temporary)


def handbook(chat_session: ChatSession) -> Any:
    return documents.add(
        chat_session.assistant, "handbook.md", b"# Refunds\n\nRefunds take 14 days."
    )


def manifest_of(turn: ChatTurn) -> dict[str, Any]:
    found: dict[str, Any] = ContextRecord.objects.get(turn=turn).manifest
    return found


@sync_to_async
def proof_of(turn: ChatTurn) -> str:
    return records.rebuild(ContextRecord.objects.get(turn=turn)).proof


# --- Passages


async def test_a_turn_is_sent_the_passages_and_history_keeps_the_plain_text(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint)
    await sync_to_async(handbook)(chat_session)
    turn = await say(chat_session, "How long do refunds take?")
    text = sent(fake_endpoint)[-1]
    assert text.startswith("<references>\n")
    assert "- [1 · handbook.md › Refunds] Refunds take 14 days.\n" in text
    assert text.endswith("</references>\n\nHow long do refunds take?")
    assert turn.input.content == "How long do refunds take?"
    manifest = await sync_to_async(manifest_of)(turn)
    assert [(each["rank"], each["source"]) for each in manifest["references"]] == [
        (1, "handbook.md › Refunds")
    ]
    frame = events.turn_context(turn, manifest)
    assert frame["references"] == [{"source": "handbook.md › Refunds", "rank": 1}]
    await say(chat_session, "Thank you, unicorn!")
    assert sent(fake_endpoint)[1] == "How long do refunds take?"
    assert "nothing in them matched" in sent(fake_endpoint)[-1]


async def test_a_repeated_input_is_given_todays_passages(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint)
    turn = await say(chat_session, "How long do refunds take?")
    assert sent(fake_endpoint)[-1] == "How long do refunds take?"
    await sync_to_async(handbook)(chat_session)
    await run_order(again("regenerate", turn))
    assert "Refunds take 14 days." in sent(fake_endpoint)[-1]


def mine(question: Question) -> Sequence[Passage]:
    return [Passage("7", f"{question.assistant} {question.user_id}", question.text.upper())]


def away(question: Question) -> Sequence[Passage]:
    raise ConnectionError("the index is away")


async def test_a_project_brings_sources_of_its_own_and_one_that_fails_fails_no_turn(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_REFERENCE_SOURCES = [f"{__name__}.mine", f"{__name__}.away"]
    chat_session = await sync_to_async(session_of)(fake_endpoint)
    turn = await say(chat_session, "where")
    assert turn.status == "completed"
    source = f"{chat_session.assistant.slug} {chat_session.user_id}"
    assert f"- [1 · {source}] WHERE\n" in sent(fake_endpoint)[-1]
    manifest = await sync_to_async(manifest_of)(turn)
    assert manifest["references_failed"] == [f"{__name__}.away"]


async def test_passages_of_a_temporary_session_stand_in_no_table(
    fake_endpoint: FakeEndpoint, settings: Any
) -> None:
    settings.CHAT_REFERENCE_SOURCES = [f"{__name__}.mine"]
    chat_session = await sync_to_async(session_of)(fake_endpoint, is_temporary=True)
    turn = await say(chat_session, "secret phrase")
    assert "SECRET PHRASE" in sent(fake_endpoint)[-1]
    stored = await sync_to_async(lambda: list(ContextPart.objects.values_list("text", flat=True)))()
    assert stored == [builders.PROMPT]
    assert "SECRET" not in json.dumps(await sync_to_async(manifest_of)(turn))


# --- Output schema


@pytest.mark.parametrize("supports", [["supports_json_schema"], []])
async def test_an_answer_is_asked_for_by_schema_and_said_to_follow(
    fake_endpoint: FakeEndpoint, supports: list[str]
) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint, supports, output_schema=SCHEMA)
    fake_endpoint.replies(answer('{"city": ', '"台北"}'))
    turn = await say(chat_session, "Which city?")
    body = fake_endpoint.requests[-1].body
    if supports:
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert body["messages"][0]["content"] == builders.PROMPT
    else:
        assert "response_format" not in body
        assert body["messages"][0]["content"] == f"{builders.PROMPT}\n\n{schema_block(SCHEMA)}"
    assert (turn.follows_schema, turn.schema_error) == (True, "")
    assert await proof_of(turn) == "ok"


async def test_an_answer_that_does_not_follow_says_so_everywhere(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint, output_schema=SCHEMA)
    fake_endpoint.replies(answer('{"town": "Taipei"}'))
    turn = await say(chat_session, "Which city?")
    assert (turn.status, turn.follows_schema, turn.schema_error) == ("completed", False, MISSED)
    assert events.turn_payload(turn)["output_schema"] == {"follows": False, "error": MISSED}

    def pages() -> tuple[str, str, Any]:
        staff, person = signed_in(builders.superuser()), Client()
        person.force_login(chat_session.user)
        url = f"/api/v1/sessions/{chat_session.pk}/turns/{turn.pk}/"
        transcript = text_of(staff.get(transcript_url(chat_session)))
        return text_of(staff.get(page_url(turn))), transcript, person.get(url).json()

    page, transcript, payload = await sync_to_async(pages)()
    assert MISSED in page
    assert MISSED in transcript
    assert payload["output_schema"] == {"follows": False, "error": MISSED}


async def test_an_unfinished_answer_is_not_checked(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint, output_schema=SCHEMA)
    fake_endpoint.replies(answer(""))
    turn = await say(chat_session, "Which city?")
    assert (turn.status, turn.follows_schema) == ("failed", None)
    assert events.turn_payload(turn)["output_schema"] is None


# --- Strict roles


async def test_with_strict_roles_users_are_not_shown_the_prompt(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint, ["strict_roles"])
    turn = await say(chat_session, "Hi")
    block = operator_block(builders.PROMPT)
    assert fake_endpoint.requests[-1].body["messages"] == [
        {"role": "user", "content": f"{block}Hi"}
    ]
    assert await proof_of(turn) == "ok"

    def context() -> Any:
        person = Client()
        person.force_login(chat_session.user)
        url = f"/api/v1/sessions/{chat_session.pk}/turns/{turn.pk}/context/"
        return person.get(url).json()

    shown = await sync_to_async(context)()
    assert [each["text"] for each in shown["parts"]] == ["Hi"]
    assert builders.PROMPT not in json.dumps(shown)


# --- Exactly rebuilt, whatever changed since


@pytest.mark.parametrize("supports", [[], ["supports_json_schema"], ["strict_roles"]])
async def test_a_request_is_rebuilt_after_assistant_tools_documents_and_code_have_changed(
    fake_endpoint: FakeEndpoint, supports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_session = await sync_to_async(session_of)(
        fake_endpoint, supports, output_schema=SCHEMA, parameters={"temperature": 0.2}
    )
    document = await sync_to_async(handbook)(chat_session)
    await sync_to_async(builders.preference)(chat_session.user)
    await say(chat_session, "First: refunds?")
    turn = await say(chat_session, "How long do refunds take? 😄")
    body = {
        name: value
        for name, value in fake_endpoint.requests[-1].body.items()
        if name not in ("stream", "stream_options")
    }

    def change_everything() -> records.Rebuilt:
        document.delete()
        Assistant.objects.filter(pk=chat_session.assistant_id).update(
            system_prompt="Another.", output_schema=None, parameters={}, tools=["new"]
        )
        type(chat_session.assistant.endpoint).objects.update(
            model="other",
            strict_roles=not supports,
            supports_json_schema=False,
            encoding="estimate",
        )
        for name in ("_OPEN", "_CLOSE", "_REFERENCES_OPEN", "_REFERENCES_CLOSE", "CUT_OFF_MARK"):
            monkeypatch.setattr(blocks, name, "in other words\n")
        monkeypatch.setattr(blocks, "_EVIDENCE", {})
        return records.rebuild(ContextRecord.objects.get(turn=turn))

    rebuilt = await sync_to_async(change_everything)()
    assert (rebuilt.proof, rebuilt.missing) == ("ok", ())
    assert rebuilt.request == body


async def test_a_request_whose_text_was_changed_is_not_said_to_be_what_was_sent(
    fake_endpoint: FakeEndpoint,
) -> None:
    chat_session = await sync_to_async(session_of)(fake_endpoint)
    await say(chat_session, "first")
    turn = await say(chat_session, "second")
    await ChatMessage.objects.filter(content="first").aupdate(content="First")
    assert await proof_of(turn) == "mismatch"
