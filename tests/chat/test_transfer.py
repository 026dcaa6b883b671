"""Messages of other systems into a session and out of it again."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from chat import leases, llm, transfer
from chat.models import AuditEvent, ChatMessage, ChatSession
from chat.transfer.messages import EMPTY, SYSTEM
from memory import snapshots
from memory.formats import DIALECTS, loads
from memory.messages import Message, ToolCall
from tests import builders
from tests.fakes import FakeEndpoint
from tests.orders import rows_on_path, say, sent, session_at

U = Message.user
A = Message.assistant

TALK = (
    '[{"contents":[{"text":"项目代号是青云-4173","type":"TEXT"}],"type":"USER"},'
    '{"text":"已记住","toolExecutionRequests":[],"attributes":{},"type":"AI"},'
    '{"name":"Ana","contents":[{"text":"2+3?","type":"TEXT"}],"attributes":{"turn":3},'
    '"type":"USER"},'
    '{"toolExecutionRequests":[{"id":"c1","name":"add","arguments":"{\\"a\\":2}"}],'
    '"attributes":{},"type":"AI"},'
    '{"id":"c1","toolName":"add","contents":[{"text":"timed out","type":"TEXT"}],"isError":true,'
    '"attributes":{"attempt":2},"type":"TOOL_EXECUTION_RESULT"},'
    '{"text":"5","toolExecutionRequests":[],"attributes":{},"type":"AI"}]'
)


def run(command: str, *given: Any, **options: Any) -> str:
    out = StringIO()
    call_command(command, *map(str, given), stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "memory.json"
    path.write_text(TALK, encoding="utf-8")
    return path


# --- The functions


@pytest.mark.django_db
def test_messages_are_appended_to_the_chosen_branch() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session, "before", "yes")
    imported = transfer.import_messages(chat_session.pk, [U("q"), A("a"), U("r")])
    assert (imported.stored, imported.cleaned, imported.left_out) == (3, 0, {})
    assert rows_on_path(chat_session) == [
        (1, "user", "before", False),
        (2, "assistant", "yes", False),
        (3, "user", "q", False),
        (4, "assistant", "a", False),
        (5, "user", "r", False),
    ]
    chat_session.refresh_from_db()
    assert (chat_session.next_seq, chat_session.message_count, chat_session.path_count) == (6, 5, 5)
    rows = list(ChatMessage.objects.order_by("seq"))
    assert chat_session.head == rows[-1]
    assert [row.parent for row in rows] == [None, *rows[:-1]]
    assert {row.turn for row in rows[2:]} == {None}
    assert [row.token_count for row in rows[2:]] == [5, 5, 5]
    event = AuditEvent.objects.get()
    assert (event.action, event.object_id) == ("session.import", str(chat_session.pk))


@pytest.mark.django_db
def test_text_is_cleaned_and_that_is_counted() -> None:
    chat_session = builders.chat_session()
    image = {"type": "image_url", "image_url": {"url": "data:\x00"}}
    messages = [U("a\x00b", [image]), A("\ud83d"), A("fine", [ToolCall("c", "f", "\x00{}")])]
    imported = transfer.import_messages(chat_session.pk, messages)
    assert (imported.stored, imported.cleaned) == (3, 3)
    assert transfer.export_messages(chat_session.pk) == [
        U("ab", [{"type": "image_url", "image_url": {"url": "data:"}}]),
        A("\ufffd"),
        A("fine", [ToolCall("c", "f", "{}")]),
    ]


@pytest.mark.django_db
def test_system_messages_and_empty_ones_are_left_out_and_counted() -> None:
    chat_session = builders.chat_session()
    custom = loads('[{"attributes":{"kind":"handover"},"type":"CUSTOM"}]')
    given = [
        Message.system("obey"),
        *custom,
        U(" \n"),
        A(""),
        U("q"),
        A(None, [ToolCall("c", "f")]),
    ]
    imported = transfer.import_messages(chat_session.pk, given)
    assert (imported.stored, imported.left_out) == (2, {SYSTEM: 1, EMPTY: 3})
    assert [row[1:3] for row in rows_on_path(chat_session)] == [("user", "q"), ("assistant", None)]


@pytest.mark.django_db
def test_nothing_to_import_changes_nothing() -> None:
    chat_session = builders.chat_session()
    assert transfer.import_messages(chat_session.pk, []).stored == 0
    chat_session.refresh_from_db()
    assert (chat_session.next_seq, chat_session.head) == (1, None)


@pytest.mark.django_db
def test_long_ids_and_names_fit_and_stay_paired() -> None:
    chat_session = builders.chat_session()
    call = A(None, [ToolCall("c" * 300, "f", "{}")])
    transfer.import_messages(
        chat_session.pk, [call, Message.tool("c" * 300, "x", "f" * 300), U("u", name="n" * 300)]
    )
    found = transfer.export_messages(chat_session.pk)
    assert found[0].tool_calls[0].id == found[1].tool_call_id == "c" * 200
    assert (found[1].name, found[2].name) == ("f" * 100, "n" * 100)


@pytest.mark.django_db
def test_a_session_gets_a_name_from_what_was_asked_unless_it_has_one() -> None:
    unnamed, named = builders.chat_session(), builders.chat_session(title="Mine")
    for chat_session in (unnamed, named):
        transfer.import_messages(chat_session.pk, [A("hello"), U("What is a lease?")])
        chat_session.refresh_from_db()
    assert (unnamed.title, named.title) == ("What is a lease?", "Mine")


@pytest.mark.django_db
def test_only_an_idle_session_takes_messages() -> None:
    turn = uuid.uuid4()
    busy = builders.chat_session()
    ChatSession.objects.filter(pk=busy.pk).update(running_turn=turn, lease_owner="somebody")
    with pytest.raises(leases.Busy, match=str(turn)):
        transfer.import_messages(busy.pk, [U("q")])
    with pytest.raises(leases.Gone):
        transfer.import_messages(uuid.uuid4(), [U("q")])
    temporary = builders.chat_session(is_temporary=True)
    with pytest.raises(transfer.NotImportable, match="is temporary"):
        transfer.import_messages(temporary.pk, [U("q")])
    assert ChatMessage.objects.count() == 0
    for chat_session in (busy, temporary):
        chat_session.refresh_from_db()
        assert (chat_session.next_seq, chat_session.message_count) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_an_import_is_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = builders.chat_session()
    monkeypatch.setattr(snapshots, "drop", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        transfer.import_messages(chat_session.pk, [U("q"), A("a")])
    assert ChatMessage.objects.count() == 0
    chat_session.refresh_from_db()
    assert (chat_session.next_seq, chat_session.head) == (1, None)


@pytest.mark.django_db
def test_what_lies_before_the_forget_line_is_exported_only_when_asked_for() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session, "secret", "yes")
    ChatSession.objects.filter(pk=chat_session.pk).update(memory_starts_after=2)
    builders.exchange(chat_session, "fresh", "no")
    assert transfer.export_messages(chat_session.pk) == [U("fresh"), A("no")]
    whole = transfer.export_messages(chat_session.pk, whole=True)
    assert [each.content for each in whole] == ["secret", "yes", "fresh", "no"]
    with pytest.raises(leases.Gone):
        transfer.export_messages(uuid.uuid4())


@pytest.mark.django_db
def test_a_thousand_messages_keep_their_order() -> None:
    chat_session = builders.chat_session()
    messages = [each for n in range(600) for each in (U(f"q{n}"), A(f"a{n}"))]
    transfer.import_messages(chat_session.pk, messages)
    assert transfer.export_messages(chat_session.pk) == messages


# --- The commands


@pytest.mark.django_db
def test_a_file_comes_out_byte_for_byte_as_it_went_in(file: Path, tmp_path: Path) -> None:
    chat_session = builders.chat_session()
    said = run("import_memory", chat_session.pk, file, "--dialect", "langchain4j")
    assert said == f"Session {chat_session.pk}: 6 messages imported.\n"
    out = tmp_path / "out.json"
    said = run("export_memory", chat_session.pk, out, "--dialect", "langchain4j")
    assert said == f"Session {chat_session.pk}: 6 messages in {out}.\n"
    assert out.read_bytes() == TALK.encode()
    assert run("export_memory", chat_session.pk, "--dialect", "langchain4j") == TALK + "\n"


@pytest.mark.django_db
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_is_exported_in_every_dialect(file: Path, dialect: str) -> None:
    chat_session = builders.chat_session()
    run("import_memory", chat_session.pk, file, "--dialect", "langchain4j")
    found = json.loads(run("export_memory", chat_session.pk, "--dialect", dialect))
    assert len(found) == 6
    assert "青云-4173" in json.dumps(found, ensure_ascii=False)


@pytest.mark.django_db
def test_what_was_left_out_or_changed_is_said(tmp_path: Path) -> None:
    chat_session = builders.chat_session()
    path = tmp_path / "m.json"
    given = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a\x00"},
        {"role": "user", "content": ""},
    ]
    path.write_text(json.dumps(given), encoding="utf-8")
    said = run("import_memory", chat_session.pk, path, "--dialect", "openai").splitlines()
    assert said[1:] == [
        "Changed: 1 messages had NUL characters or lone surrogates.",
        f"Left out: 1 {SYSTEM}.",
        f"Left out: 1 {EMPTY}.",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'[{"text":"x"', "is no JSON: .*; nothing was imported"),
        (b"\xff\xfe", "is not in UTF-8: byte 0"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_none_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    chat_session = builders.chat_session()
    path = tmp_path / "m.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=problem):
        run("import_memory", chat_session.pk, path, "--dialect", "langchain4j")
    assert ChatMessage.objects.count() == 0


@pytest.mark.django_db
def test_an_unknown_session_a_busy_one_and_a_file_that_is_there(file: Path) -> None:
    unknown, busy = uuid.uuid4(), builders.chat_session()
    ChatSession.objects.filter(pk=busy.pk).update(running_turn=uuid.uuid4(), lease_owner="x")
    with pytest.raises(CommandError, match=f"There is no session {unknown}"):
        run("import_memory", unknown, file, "--dialect", "langchain4j")
    with pytest.raises(CommandError, match=f"There is no session {unknown}"):
        run("export_memory", unknown, "--dialect", "langchain4j")
    with pytest.raises(CommandError, match=r"Nothing was imported: Turn .* is running"):
        run("import_memory", busy.pk, file, "--dialect", "langchain4j")
    with pytest.raises(CommandError, match="was not written: File exists"):
        run("export_memory", busy.pk, file, "--dialect", "langchain4j")
    assert file.read_text(encoding="utf-8") == TALK
    for command in ("import_memory", "export_memory"):
        with pytest.raises(CommandError, match="invalid choice"):
            run(command, busy.pk, file, "--dialect", "gemini")


@pytest.mark.django_db
def test_a_database_error_propagates(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat_session = builders.chat_session()

    def fail(*args: Any) -> None:
        raise DatabaseError("down")

    monkeypatch.setattr(snapshots, "drop", fail)
    with pytest.raises(DatabaseError, match="down"):
        run("import_memory", chat_session.pk, file, "--dialect", "langchain4j")


# --- What the model is given of it


@pytest.fixture
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_close_clients")
async def test_the_next_request_holds_what_was_imported(fake_endpoint: FakeEndpoint) -> None:
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    await say(chat_session, "hello")
    await sync_to_async(transfer.import_messages)(
        chat_session.pk, [U("项目代号是青云-4173"), A("已记住")]
    )
    turn = await say(chat_session, "What is the code name?")
    assert turn.status == "completed"
    assert sent(fake_endpoint)[-3:] == ["项目代号是青云-4173", "已记住", "What is the code name?"]
