"""The memory doctor: what it finds in one session, on its page and in the command."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat import llm
from chat.inspection import doctor
from chat.inspection.checks import FINDING, NOTE, OK, Check
from chat.models import AuditEvent, ChatMessage, ChatSession, ChatTurn, FollowUp, SearchEntry
from chat.search import messages as search
from memory.models import MemorySnapshot, UserPreference
from tests import builders
from tests.chat.admin_site import READ, signed_in, text_of, viewer
from tests.fakes import FakeEndpoint, answer
from tests.orders import say, session_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


def doctor_url(chat_session: Any) -> str:
    return reverse("admin:chat_contextrecord_doctor", args=[chat_session.pk])


def found(chat_session: ChatSession, about: str) -> Check:
    """The check with this title."""
    [check] = [e for e in doctor.examine(chat_session.pk).checks if e.about == about]
    return check


def talk(count: int = 2, **fields: Any) -> ChatSession:
    """A session of `count` exchanges, with its rows in the index as the engine leaves them."""
    chat_session = builders.chat_session(**fields)
    builders.exchanges(chat_session, count)
    search.index_session(chat_session.pk)
    chat_session.refresh_from_db()
    return chat_session


async def test_a_session_that_remembers_has_no_finding(fake_endpoint: FakeEndpoint) -> None:
    fake_endpoint.replies(answer("One"), answer("Two"))
    chat_session = await sync_to_async(session_at)(fake_endpoint)
    for text in ("First", "Second"):
        await say(chat_session, text)
    report = await sync_to_async(doctor.examine)(chat_session.pk)
    assert [(each.about, each.found) for each in report.checks if each.state == FINDING] == []
    said = {each.about: each.found for each in report.checks}
    assert said["Turns"] == "2 completed."
    assert said["Messages"] == "4 messages, 4 of them on the chosen branch."
    assert said["Newest request"] == (
        "Turn 2 was sent 2 messages of the history, out of 2 before its input: 1 to 2."
    )
    assert said["Snapshot"].startswith("It is current and holds 4 messages. Revision 2")
    assert said["Search index"] == "4 entries."


def test_a_session_without_a_word_is_not_ill() -> None:
    report = doctor.examine(builders.chat_session().pk)
    assert report.findings == 0
    assert found(report.facts.chat_session, "Turns").found == "No turn was ever begun."


def test_a_user_who_left_the_tenant_is_found() -> None:
    chat_session = talk(tenant=builders.tenant("acme"), person=builders.user())
    check = found(chat_session, "Ids")
    assert check.state == FINDING
    assert "no member of the tenant" in check.found


def test_a_first_turn_that_never_answered_is_found() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session, "Hello", None, status="failed", error_code="provider_error")
    assert found(chat_session, "Turns").state == FINDING
    assert found(chat_session, "Turn 1").found == "Failed: provider_error."


def test_a_lease_that_nobody_renews_is_found() -> None:
    chat_session = builders.chat_session()
    turn = builders.turn(chat_session, builders.message(chat_session), status="running")
    past = timezone.now() - timedelta(minutes=1)
    ChatSession.objects.filter(pk=chat_session.pk).update(
        running_turn=turn.pk, lease_owner="gone", lease_expires_at=past
    )
    check = found(chat_session, "Lease")
    assert check.state == FINDING
    assert str(turn.pk) in check.found
    ChatSession.objects.filter(pk=chat_session.pk).update(running_turn=None)
    assert found(chat_session, "Lease").found == (
        "1 turn said to run, and nobody holds the session."
    )


def test_numbers_that_are_free_are_said_and_are_no_finding() -> None:
    chat_session = talk(3)
    ChatSession.objects.filter(pk=chat_session.pk).update(next_seq=9)
    assert found(chat_session, "Messages").state == OK
    last = chat_session.head
    assert last is not None
    ChatMessage.objects.filter(pk=last.pk).update(seq=8)
    check = found(chat_session, "Messages")
    assert (check.state, "2 numbers without a message" in check.found) == (NOTE, True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"is_on_path": False}, "messages follow one of another branch"),
        ({"parent": None}, "2 messages begin it"),
        ({"seq": 90}, "stand before the one that they follow"),
    ],
)
def test_a_branch_that_is_no_line_is_found(changes: dict[str, Any], said: str) -> None:
    chat_session = talk(3)
    ChatMessage.objects.filter(chat_session=chat_session, seq=3).update(**changes)
    check = found(chat_session, "Chosen branch")
    assert check.state == FINDING
    assert said in check.found


def test_two_messages_after_the_same_one_are_found() -> None:
    chat_session = talk(3)
    first = chat_session.messages.get(seq=1)
    chat_session.messages.filter(seq=4).update(parent=first)
    assert "follow the same one" in found(chat_session, "Chosen branch").found


def test_a_head_and_counters_that_are_wrong_are_found() -> None:
    chat_session = talk(2)
    first = chat_session.messages.get(seq=1)
    ChatSession.objects.filter(pk=chat_session.pk).update(
        head=first, message_count=7, path_count=1, next_seq=3, turn_count=0
    )
    assert "head is not its newest" in found(chat_session, "Chosen branch").found
    assert found(chat_session, "Counters").found == (
        "message_count is 7 and should be 4; path_count is 1 and should be 4; next_seq is 3, not"
        " beyond 4; turn_count is 0, below 2."
    )


def test_the_limits_say_who_set_them() -> None:
    chat_session = talk(max_messages=1)
    check = found(chat_session, "Window")
    assert check.state == FINDING
    assert (
        check.found
        == "At most 1 message (by the session); no limit of tokens (by the environment)."
    )


def test_memory_that_is_off_is_found_with_who_switched_it_off() -> None:
    chat_session = talk(memory_enabled=False)
    check = found(chat_session, "Switches")
    assert check.state == FINDING
    assert check.found.startswith("Off: memory (by the session)")
    assert check.settings[0] == "enabled"


def test_lines_are_said() -> None:
    chat_session = talk(3)
    ChatSession.objects.filter(pk=chat_session.pk).update(memory_starts_after=2, idle_line=4)
    assert "nothing up to message 2" in found(chat_session, "Forget line").found
    assert "behind message 4" in found(chat_session, "Pause").found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"memory_epoch": 9}, "of an earlier epoch"),
        ({"format_version": 9}, "of another version"),
        ({"policy": "x"}, "limits have changed"),
        ({"through_seq": 2}, "behind the newest message"),
        ({"messages": [{"role": "user"}]}, "cannot be read"),
    ],
)
def test_a_snapshot_that_is_not_used_says_why(changes: dict[str, Any], said: str) -> None:
    from chat.turns import policies

    chat_session = talk()
    policy = policies.memory_policy(chat_session).fingerprint()
    builders.snapshot(chat_session, **{"policy": policy, **changes})
    check = found(chat_session, "Snapshot")
    assert said in check.found
    assert check.state == (FINDING if "messages" in changes else NOTE)


def test_a_thousand_replacements_leave_one_snapshot() -> None:
    """Case 29: a snapshot is replaced whole; no history of it grows."""
    chat_session = talk()
    builders.snapshot(chat_session)
    for revision in range(2, 1_001):
        MemorySnapshot.objects.filter(pk=chat_session.pk).update(revision=revision)
    assert MemorySnapshot.objects.filter(chat_session=chat_session).count() == 1
    assert "Revision 1000 through message 4" in found(chat_session, "Snapshot").found


def test_a_summary_that_fails_is_found_with_its_error(settings: Any) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    chat_session = talk(assistant=builders.assistant(summarize=True))
    turn = chat_session.turns.get(number=2)
    builders.record(turn, left_out=[{"from": 1, "through": 2, "reason": "awaiting_summary"}])
    FollowUp.objects.create(
        kind="summary",
        subject=str(chat_session.pk),
        chat_session=chat_session,
        due_at=timezone.now(),
        attempts=3,
        last_error="bad_summary: 青云 is no summary",
    )
    assert found(chat_session, "Summary").found == "None yet."
    assert "left out 2 messages" in found(chat_session, "Not summarised").found
    check = found(chat_session, "Due: summary")
    assert check.state == FINDING
    assert check.found.startswith("Failed 3 times, lastly with bad_summary")
    assert check.detail == "bad_summary: 青云 is no summary"


def test_preferences_are_counted_by_what_they_are_worth(settings: Any) -> None:
    settings.CHAT_PREFERENCE_TOKENS = 80
    person = builders.user()
    chat_session = talk(person=person)
    builders.preference(person, "language", "English.")
    builders.preference(person, "style", "word " * 100)
    builders.preference(person, "tone", "Dry.", status="disabled")
    old = builders.preference(person, "city", "Rome.")
    UserPreference.objects.filter(pk=old.pk).update(expires_at=timezone.now())
    check = found(chat_session, "Preferences")
    assert check.found == (
        "3 active, 1 disabled, 1 expired; 2 concern this assistant, 1 of them beyond their share"
        " of a request."
    )
    assert check.state == NOTE


def test_messages_that_no_search_finds_are_counted() -> None:
    chat_session = talk()
    SearchEntry.objects.filter(chat_session=chat_session, seq__gt=1).delete()
    check = found(chat_session, "Search index")
    assert (check.state, check.found) == (FINDING, "3 messages not in the index.")
    ChatMessage.objects.filter(chat_session=chat_session, seq__gt=2).update(content=" \n\u200b")
    assert found(chat_session, "Search index").found == "1 message not in the index."


def test_a_temporary_session_whose_text_expired_is_found() -> None:
    chat_session = talk(is_temporary=True)
    assert found(chat_session, "Temporary text").found == "It has expired."
    assert found(chat_session, "Search").state == OK


def test_a_key_that_is_not_set_and_a_count_that_is_far_off_are_said(monkeypatch: Any) -> None:
    endpoint = builders.endpoint(
        api_key_env="NOWHERE_KEY", token_correction=2.0, context_window=600, max_output_tokens=100
    )
    prompt = "word " * 400
    chat_session = talk(assistant=builders.assistant(endpoint=endpoint, system_prompt=prompt))
    monkeypatch.delenv("NOWHERE_KEY", raising=False)
    assert "NOWHERE_KEY is not set" in found(chat_session, "Key").found
    assert found(chat_session, "Token count").state == NOTE
    assert found(chat_session, "Room").state == FINDING
    monkeypatch.setenv("NOWHERE_KEY", "sk-secret-value")
    assert found(chat_session, "Key").found == "Set."


def test_a_newest_request_without_any_history_is_found() -> None:
    chat_session = talk()
    record = builders.record(chat_session.turns.get(number=2))
    record.manifest["of"] = 2
    record.save()
    check = found(chat_session, "Newest request")
    assert check.state == FINDING
    assert check.found == "Turn 2 was sent 0 messages of the history, out of 2 before its input."


def test_the_number_of_queries_does_not_grow_with_the_session() -> None:
    """Case 17: a session of 5,000 messages is examined as quickly as a short one."""
    short, long = talk(2), talk(2)
    parent = long.head
    rows = []
    for seq in range(5, 5_001):
        row = ChatMessage(
            chat_session=long,
            role="user" if seq % 2 else "assistant",
            content="x",
            seq=seq,
            parent=parent,
        )
        rows.append(row)
        parent = row
    ChatMessage.objects.bulk_create(rows, batch_size=500)
    ChatSession.objects.filter(pk=long.pk).update(
        head=rows[-1], message_count=5_000, path_count=5_000, next_seq=5_001
    )
    counts = []
    for each in (short, long):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            doctor.examine(each.pk)
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] < 30
    assert found(long, "Chosen branch").state == OK
    assert found(long, "Search index").found == "at least 100 messages not in the index."


# --- The page and the command ---------------------------------------------------------------------


def test_the_page_links_each_finding_to_its_setting() -> None:
    chat_session = talk(max_messages=1)
    page = text_of(signed_in(builders.superuser()).get(doctor_url(chat_session)))
    assert "1 finding</span>" in page
    address = reverse("admin:chat_chatsession_change", args=[chat_session.pk])
    assert f'href="{address}#id_max_messages"' in page


def test_the_words_of_errors_are_for_those_who_may_read_text() -> None:
    chat_session = builders.chat_session()
    builders.exchange(chat_session, "Hi", None, status="failed", error_detail="quoted 青云")
    blind, reader = signed_in(viewer()), signed_in(viewer(READ))
    assert "quoted 青云" not in text_of(blind.get(doctor_url(chat_session)))
    assert "quoted 青云" in text_of(reader.get(doctor_url(chat_session)))
    event = AuditEvent.objects.order_by("-id")[0]
    assert (event.action, event.object_id, event.filter) == (
        "doctor.read",
        str(chat_session.pk),
        {"text": True},
    )


def test_the_session_leads_to_it_for_those_who_may_open_it() -> None:
    chat_session = talk()
    address = reverse("admin:chat_chatsession_change", args=[chat_session.pk])
    link = f'href="{doctor_url(chat_session)}"'
    assert link in text_of(signed_in(viewer()).get(address))
    home = [chat_session.tenant]
    other = builders.staff(tenants=home, permissions=["chat.view_chatsession"])
    assert link not in text_of(signed_in(other).get(address))


def test_foreign_and_unknown_sessions_end_alike() -> None:
    foreign = talk(tenant=builders.tenant("acme"))
    client = signed_in(viewer(READ))
    answers = [
        client.get(doctor_url(foreign)),
        client.get(doctor_url(ChatSession(pk=uuid.uuid4()))),
    ]
    assert [each.status_code for each in answers] == [404, 404]
    assert AuditEvent.objects.count() == 0


def test_contexts_are_a_permission_of_their_own() -> None:
    chat_session = talk()
    person = builders.staff(
        tenants=[chat_session.tenant],
        permissions=["chat.view_contextrecord", "chat.view_chatsession"],
    )
    assert signed_in(person).get(doctor_url(chat_session)).status_code == 403
    assert Client().get(doctor_url(chat_session)).status_code == 302


def test_the_command_prints_the_same_and_ends_with_one() -> None:
    chat_session = talk(max_messages=1)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", str(chat_session.pk), stdout=out)
    lines = out.getvalue().splitlines()
    assert any(line.startswith("  finding Window: At most 1 message (by") for line in lines)
    assert lines[-1].startswith("1 finding(s); ")
    with pytest.raises(CommandError, match="There is no session"):
        call_command("doctor", str(uuid.uuid4()))


def test_a_turn_that_is_running_is_no_finding() -> None:
    chat_session = talk()
    turn = builders.turn(chat_session, builders.message(chat_session), status="running")
    later = timezone.now() + timedelta(minutes=1)
    ChatSession.objects.filter(pk=chat_session.pk).update(
        running_turn=turn.pk, lease_owner="here", lease_expires_at=later
    )
    assert found(chat_session, "Lease").state == OK
    assert ChatTurn.objects.get(pk=turn.pk).status == "running"
