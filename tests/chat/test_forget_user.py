"""`manage.py forget_user` and `tombstones`: what they print, ask, find and bring about again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from axes.models import AccessLog
from django.core.cache import cache, caches
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from chat import retention
from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ContextPart,
    DeletionReceipt,
    PendingRemoval,
    ReviewNote,
    SessionTombstone,
)
from chat.retention import removals, verification
from chat.retention.verification import Findings, Needles
from memory import digests
from memory.blocks import PreferenceText, preference_block
from memory.models import UserDigest, UserPreference
from tests import builders
from tests.planting import WORD, Planted, places, plant, plant_account, plant_temporary

pytestmark = pytest.mark.django_db(transaction=True)

OTHER = "zqbystander88"


@pytest.fixture(autouse=True)
def _media_of_its_own(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"


@pytest.fixture
def alice() -> Planted:
    builders.tenant("default")
    return plant("alice")


def run(*arguments: Any) -> str:
    out = StringIO()
    call_command(*map(str, arguments), stdout=out)
    return out.getvalue()


def raw_files() -> bytes:
    """SQLite's own files, every byte."""
    name = str(connection.settings_dict["NAME"])
    paths = [Path(f"{name}{ending}") for ending in ("", "-wal", "-journal")]
    content = b""
    for path in paths:
        if path.is_file():
            with verification.open_elsewhere(path) as file:
                content += file.read()
    return content


# --- Forgetting -----------------------------------------------------------------------------------


def test_everything_is_deleted_and_searched_for(alice: Planted) -> None:
    plant_account(alice.user)
    plant_temporary(alice.user)
    bob = plant("bob", OTHER)
    said = run("forget_user", "alice", "--yes", "--verify", "--search", WORD)
    receipt = DeletionReceipt.objects.get(kind="user")
    assert f"Receipt {receipt.pk}: " in said
    assert said.endswith("Nothing was found.\n")
    assert "Backups that were made before still hold what was deleted" in said
    assert (places(), receipt.is_complete) == (set(), True)
    assert receipt.verification is not None
    assert (receipt.verification["found"], receipt.verified_at is not None) == ({}, True)
    assert receipt.verification["searched"]["tables"] > 40
    assert WORD not in str(receipt.verification)
    assert "alice" not in str(receipt.verification)
    assert bob.session.messages.count() == 4


def test_what_is_still_there_is_named_by_its_place_and_fails_the_command(alice: Planted) -> None:
    other = builders.chat_session()
    note = ReviewNote.objects.create(chat_session=other, text=f"like alice, {WORD}")
    with pytest.raises(CommandError, match=rf"chat_reviewnote\.text \(1: {note.pk}\)"):
        run("forget_user", "alice", "--yes", "--verify", "--search", WORD)
    receipt = DeletionReceipt.objects.get(kind="user")
    assert receipt.verification is not None
    assert receipt.verification["found"]["chat_reviewnote.text"] == 1
    assert "rows" not in receipt.verification


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a file of SQLite")
def test_the_raw_file_holds_neither_the_words_nor_the_name(alice: Planted) -> None:
    plant_account(alice.user)
    before = raw_files()
    assert (before.count(WORD.encode()) > 0, before.count(b"alice@example.org") > 0) == (True, True)
    assert "was rewritten without what was deleted" in run("forget_user", "alice", "--yes")
    after = raw_files()
    for word in (WORD, "alice@example.org", "alice"):
        assert after.count(word.encode()) == 0, word


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a dump of PostgreSQL")
def test_a_dump_holds_neither_the_words_nor_the_name(alice: Planted) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("NOT RUN: pg_dump is not on this machine, so no dump was searched")
    plant_account(alice.user)
    assert WORD in dump()
    said = run("forget_user", "alice", "--yes")
    assert "until VACUUM has gone over them" in said
    text = dump()
    for word in (WORD, "alice@example.org", "alice"):
        assert word not in text, word


def dump() -> str:
    values = connection.settings_dict
    address = ["-h", values["HOST"], "-p", str(values["PORT"] or 5432), "-U", values["USER"]]
    environment = {"PGPASSWORD": values["PASSWORD"], "PATH": "/usr/bin:/bin:/usr/local/bin"}
    done = subprocess.run(
        ["pg_dump", *address, "--inserts", values["NAME"]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "server version mismatch" in done.stderr:
        pytest.skip(f"NOT RUN: pg_dump is older than the server: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_account_that_is_kept_stays_and_only_texts_are_searched_for(alice: Planted) -> None:
    said = run("forget_user", "alice", "--yes", "--keep-account", "--verify", "--search", WORD)
    assert said.endswith("Nothing was found.\n")
    alice.user.refresh_from_db()
    assert alice.user.is_active


# --- Asking ---------------------------------------------------------------------------------------


def test_it_counts_first_and_wants_the_name_typed(
    alice: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def reply(question: str) -> str:
        asked.append(question)
        return "alice"

    monkeypatch.setattr("builtins.input", reply)
    said = run("forget_user", "alice")
    assert "sessions: 2\nmessages: 8\n" in said
    assert asked == ["Delete all of this, and the account, for good? Type the user name: "]
    assert not ChatSession.objects.exists()


@pytest.mark.parametrize("typed", ["yes", "Alice", "", EOFError])
def test_anything_else_deletes_nothing(
    alice: Planted, monkeypatch: pytest.MonkeyPatch, typed: Any
) -> None:
    def reply(question: str) -> str:
        if isinstance(typed, str):
            return typed
        raise typed

    monkeypatch.setattr("builtins.input", reply)
    with pytest.raises(CommandError, match="othing was deleted"):
        run("forget_user", "alice")
    assert ChatSession.objects.count() == 2


def test_an_unknown_name_and_a_search_without_verify_are_refused() -> None:
    with pytest.raises(CommandError, match="There is no user 'nobody'"):
        run("forget_user", "nobody", "--yes")
    builders.user("alice")
    with pytest.raises(CommandError, match="give both"):
        run("forget_user", "alice", "--yes", "--search", "x")


@pytest.mark.parametrize("options", [["--keep-account"], ["--search", ""], ["--search", "x", ""]])
def test_a_search_for_nothing_is_refused_before_anything_is_deleted(
    alice: Planted, options: list[str]
) -> None:
    with pytest.raises(CommandError, match=r"nothing to look for|empty text"):
        run("forget_user", "alice", "--yes", "--verify", *options)
    assert ChatSession.objects.count() == 2


def test_it_is_looked_again_when_the_account_is_gone_and_nothing_is_deleted_by_looking(
    alice: Planted,
) -> None:
    with pytest.raises(CommandError, match=r"Something is still there .*chat_chatmessage\.content"):
        run("forget_user", "alice", "--only-verify", "--search", WORD)
    assert ChatSession.objects.count() == 2
    run("forget_user", "alice", "--yes")
    said = run("forget_user", "alice", "--only-verify", "--search", WORD)
    assert "There is no user 'alice'" in said
    assert "Nothing was found." in said
    builders.message(builders.chat_session(), content="what Alice said")
    with pytest.raises(CommandError, match=r"Something is still there .*chat_chatmessage\.content"):
        run("forget_user", "alice", "--only-verify")


def test_many_texts_and_long_ones_are_searched_for() -> None:
    """SQLite refuses an expression of a thousand parts, and a pattern of 50,000 bytes."""
    long = "长" * 30_000
    note = builders.message(builders.chat_session(), content=f"Before {long} after 青云-7“x”")
    findings = Findings()
    texts = [long, *(f"青云-{number}“x”" for number in range(300))]
    verification.search_tables(Needles(texts), findings)
    assert findings.rows == {"chat_chatmessage.content": [note.pk.hex]} or findings.rows == {
        "chat_chatmessage.content": [str(note.pk)]
    }
    assert findings.found["chat_chatmessage.content"] == 1
    findings = Findings()
    verification.search_tables(Needles([f"{long}!"]), findings)
    assert not findings.found


def test_an_open_receipt_is_said_to_be_open(
    alice: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away:
        def delete(self, key: str) -> None:
            raise ConnectionError("away")

    plant_temporary(alice.user)
    monkeypatch.setattr(removals, "cache", Away())
    said = run("forget_user", "alice", "--yes")
    assert "still to be removed elsewhere: 4" in said


@pytest.mark.skipif(connection.vendor != "sqlite", reason="an index in a file")
def test_an_index_that_is_busy_is_said_to_be_left(
    alice: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy() -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(removals.search, "optimise", busy)
    said = run("forget_user", "alice", "--yes")
    assert "still to be removed elsewhere: 1" in said
    assert "The database file could not be rewritten (database is locked)" in said
    row = PendingRemoval.objects.get()
    assert (row.kind, row.last_error) == ("index", "database is locked")


# --- Searching ------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["青云-4173", 'say "no"', "100%_!", "back\\slash", "O'Neil", "😄"])
def test_any_text_is_found_as_it_was_written_and_as_json(word: str) -> None:
    builders.tenant("default")
    chat_session = builders.chat_session(title=word)
    builders.message(chat_session, "user", "x", parts=[{"type": "other", "text": word}])
    assert places(word) == {"chat_chatsession.title", "chat_chatmessage.parts"}
    assert places(f"{word}x") == set()


@pytest.mark.parametrize(
    "word", ["青云-4173", 'say "no"', "two\nlines", "a\\b", "תוכנית", "😄 <b>&"]
)
@pytest.mark.parametrize("as_capitals", [False, True])
def test_a_text_is_found_in_the_arguments_of_a_call_however_the_model_wrote_them(
    word: str, as_capitals: bool
) -> None:
    builders.tenant("default")
    chat_session = builders.chat_session()
    turn = builders.turn(chat_session, builders.message(chat_session, "user", "x"))
    escaped = json.dumps({"text": word})
    if as_capitals:
        escaped = re.sub(r"\\u....", lambda each: rf"\u{each.group()[2:].upper()}", escaped)
    for arguments in (escaped, json.dumps({"text": word}, ensure_ascii=False)):
        call = {"id": "c1", "name": "remember", "arguments": arguments}
        builders.message(chat_session, "assistant", None, turn=turn, tool_calls=[call])
    findings = Findings()
    verification.search_tables(Needles([word]), findings)
    assert dict(findings.found) == {"chat_chatmessage.tool_calls": 2}


def test_a_text_is_found_in_a_block_that_was_sent() -> None:
    builders.tenant("default")
    chat_session = builders.chat_session()
    text = preference_block([PreferenceText(1, "code", "<b> & 'c'", "all", "user")])
    ContextPart.objects.create(chat_session=chat_session, text=text)
    assert places("<b> & 'c'") == {"chat_contextpart.text"}


@pytest.mark.parametrize("name", ["Ömer", "ÖMER", "o\u0308mer", "ömer"])
def test_a_name_is_found_and_taken_out_in_any_capitals_of_any_letters(name: str) -> None:
    person = builders.user("ömer", email="ömer@example.org")
    AuditEvent.objects.create(
        action="x", object_type="session", object_id="1", reason=f"{name} asked", filter={"q": name}
    )
    AccessLog.objects.create(username=name, ip_address="192.0.2.1", path_info="/")
    findings = Findings()
    verification.search_tables(Needles(names=["ömer"]), findings)
    found = {"axes_accesslog.username", "chat_auditevent.reason", "chat_auditevent.filter"}
    assert found <= set(findings.found)
    assert run("forget_user", "ömer", "--yes", "--verify").endswith("Nothing was found.\n")
    event = AuditEvent.objects.get(action="x")
    assert (event.reason, event.filter, AccessLog.objects.count()) == ("", {"q": ""}, 0)
    assert not type(person)._default_manager.filter(pk=person.pk).exists()


def test_names_are_found_as_words_whatever_their_capitals() -> None:
    builders.tenant("default")
    for title in ("Ann", "ANN?", "Hannah", "annual", "an n"):
        builders.chat_session(title=title)
    findings = Findings()
    verification.search_tables(Needles(names=["ann"]), findings)
    assert dict(findings.found) == {"chat_chatsession.title": 2}


def test_names_of_code_are_nobodys(alice: Planted) -> None:
    findings = Findings()
    verification.search_tables(Needles(names=["admin", "session"]), findings)
    assert not {"django_content_type.app_label", "auth_permission.name"} & set(findings.found)


def test_a_word_across_two_pieces_of_a_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "CHUNK", 16)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10 + WORD.encode() + b"x" * 10)
    assert verification.is_in_file(path, Needles([WORD]))
    assert not verification.is_in_file(path, Needles(["absent"]))


def test_every_kind_of_redis_value_is_searched_and_other_caches_say_that_they_cannot_be(
    settings: Any,
) -> None:
    findings = Findings()
    if not settings.REDIS_URL:
        verification.search_cache(Needles([WORD]), findings)
        assert "(LocMemCache) cannot list its keys" in findings.skipped[0]
        return
    backend: Any = caches["default"]
    client, prefix = backend._cache.get_client(None, write=True), settings.TEST_KEY_PREFIX
    cache.set(f"a-{WORD}", 1)
    cache.set("b", {"text": WORD})
    client.hset(f"{prefix}:h", "k", WORD)
    client.rpush(f"{prefix}:l", WORD)
    client.sadd(f"{prefix}:s", WORD)
    client.zadd(f"{prefix}:z", {WORD: 1})
    client.xadd(f"{prefix}:x", {"k": WORD})
    verification.search_cache(Needles([WORD]), findings)
    assert (findings.found["cache"], findings.skipped) == (7, [])


# --- After a backup was restored ------------------------------------------------------------------


def test_what_a_restored_backup_brings_back_is_deleted_again(
    alice: Planted, tmp_path: Path
) -> None:
    """The rows are put back under their ids, as a restore does."""
    file = tmp_path / "tombstones.jsonl"
    carol = plant("carol", OTHER)
    preference, made = carol.preference, carol.preference.created_at
    before = ChatSession.objects.filter(pk=carol.quoting.pk).values().get()
    user = type(alice.user).objects.filter(pk=alice.user.pk).values().get()
    retention.forget_session(carol.quoting.pk)
    retention.forget_preference(preference.tenant_id, preference.user_id, preference.pk)
    retention.forget_user(alice.user.pk)
    run("tombstones", "--export", file)
    assert "alice" not in file.read_text()

    SessionTombstone.objects.all().delete()
    DeletionReceipt.objects.all().delete()
    type(alice.user).objects.create(**user)
    ChatSession.objects.create(**{**before, "head_id": None})
    preference.source_session = None
    UserPreference.objects.bulk_create([preference])
    UserPreference.objects.filter(pk=preference.pk).update(created_at=made, source_session=None)
    said = run("tombstones", "--replay", file)
    assert "Deleted again, user: 1\n" in said
    assert "Deleted again, session: 1\n" in said
    assert "Deleted again, preference: 1\n" in said
    assert not type(alice.user).objects.filter(username="alice").exists()
    assert ChatSession.objects.get().pk == carol.session.pk
    assert not UserPreference.objects.exists()
    again = run("tombstones", "--replay", file)
    assert again.count(": 0\n") == 5


def put_back(row: Any, made: str) -> None:
    """A row as it was, under its number and with its time."""
    at = getattr(row, made)
    type(row).objects.filter(pk=row.pk).delete()
    type(row).objects.bulk_create([row])
    type(row).objects.filter(pk=row.pk).update(**{made: at})


def test_what_was_forgotten_in_two_tenants_is_forgotten_in_both_again(tmp_path: Path) -> None:
    file = tmp_path / "tombstones.jsonl"
    tenants = [builders.tenant("one"), builders.tenant("two")]
    person = builders.user("alice", tenants=tenants)
    rows = [builders.preference(person, tenant=each) for each in tenants]
    for each in tenants:
        retention.forget_memory(each.pk, person.pk)
    run("tombstones", "--export", file)
    for row in rows:
        put_back(row, "created_at")
    assert "Deleted again, memory: 2\n" in run("tombstones", "--replay", file)
    assert not UserPreference.objects.exists()


def test_a_digest_that_was_deleted_by_itself_is_deleted_again_and_a_newer_one_stays(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tombstones.jsonl"
    owner = builders.tenant("default").pk, builders.user("alice").pk
    old = digests.edit(*owner, "Alice builds boats.")
    theirs = digests.edit(owner[0], builders.user("bob").pk, "Bob bakes.")
    retention.forget_digest(*owner)
    run("tombstones", "--export", file)
    put_back(old, "updated_at")
    assert "Deleted again, memory: 1\n" in run("tombstones", "--replay", file)
    assert [each.text for each in UserDigest.objects.exclude(text="")] == [theirs.text]
    digests.edit(*owner, "Alice bakes too.")
    assert "Deleted again, memory: 0\n" in run("tombstones", "--replay", file)


def test_a_preference_that_was_deleted_when_memory_was_cleared_is_deleted_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tombstones.jsonl"
    chat_session = builders.chat_session()
    builders.exchange(chat_session)
    row = builders.preference(chat_session.user, source_session=chat_session, source_seq=1)
    retention.clear_memory(chat_session.pk, delete_preferences=[row.pk])
    run("tombstones", "--export", file)
    put_back(row, "created_at")
    assert "Deleted again, preference: 1\n" in run("tombstones", "--replay", file)
    assert not UserPreference.objects.exists()


def test_a_newer_row_under_an_old_number_stays(tmp_path: Path) -> None:
    file = tmp_path / "tombstones.jsonl"
    person = builders.user("alice")
    number = person.pk
    retention.forget_user(number)
    run("tombstones", "--export", file)
    type(person).objects.create(pk=number, username="bob")
    assert "user: 0\n" in run("tombstones", "--replay", file)
    assert type(person).objects.get(pk=number).username == "bob"


def test_what_was_said_after_the_account_was_kept_stays(alice: Planted, tmp_path: Path) -> None:
    file = tmp_path / "tombstones.jsonl"
    retention.forget_user(alice.user.pk, keep_account=True)
    builders.exchange(builders.chat_session(alice.user))
    builders.preference(alice.user)
    run("tombstones", "--export", file)
    run("tombstones", "--replay", file)
    assert (ChatMessage.objects.count(), UserPreference.objects.count()) == (2, 1)


@pytest.mark.parametrize("line", ["{", "[]", "null", '{"kind": "session"}', '{"at": 1}'])
def test_a_line_that_no_export_wrote_is_named_and_nothing_is_deleted(
    alice: Planted, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "tombstones.jsonl"
    at = "2999-01-01T00:00:00+00:00"
    file.write_text(
        f'{{"kind": "session", "subject": "{alice.session.pk}", "at": "{at}"}}\n{line}\n'
    )
    with pytest.raises(CommandError, match="Line 2 is not one of an export"):
        run("tombstones", "--replay", file)
    assert ChatSession.objects.count() == 2


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="The file cannot be used"):
        run("tombstones", "--replay", tmp_path / "absent")
