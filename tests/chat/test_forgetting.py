"""A word is planted in every place; whatever is forgotten, nothing of it is left anywhere."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.files.storage import default_storage
from django.db import connections, models

from chat import dues, leases, records, retention, temporary
from chat.models import (
    AuditEvent,
    ChatMessage,
    ChatSession,
    ContextPart,
    ContextRecord,
    DeletionReceipt,
    DerivedText,
    ExportJob,
    FollowUp,
    PendingRemoval,
    ReviewNote,
    SearchEntry,
)
from chat.retention import pairs, people, removals
from chat.retention.people import CONTENT_PLACES, Person, account_places
from chat.transfer.messages import import_messages
from memory import digests, preferences
from memory.messages import Message
from memory.models import (
    ConversationSummary,
    ForgottenPreference,
    MemorySnapshot,
    UserDigest,
    UserPreference,
)
from tests import builders
from tests.planting import (
    WORD,
    Planted,
    places,
    plant,
    plant_account,
    plant_export,
    plant_temporary,
)

pytestmark = pytest.mark.django_db(transaction=True)

OTHER = "zqbystander88"
OF_SESSION = {
    "chat_attachment.name",
    "chat_auditevent.reason",
    "chat_chatmessage.content",
    "chat_chatsession.title",
    "chat_chatturn.error_detail",
    "chat_contextpart.text",
    "chat_feedback.comment",
    "chat_followup.last_error",
    "chat_reviewnote.text",
    "chat_reviewscore.name",
    "files",
    "memory_conversationsummary.items",
    "memory_conversationsummary.text",
    "memory_memorysnapshot.messages",
    "memory_userdigest.text",
    "memory_userpreference.quote",
}
OF_PREFERENCE = {"memory_userpreference.key", "memory_userpreference.text"}


@pytest.fixture(autouse=True)
def _media_of_its_own(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"


@pytest.fixture
def alice() -> Planted:
    builders.tenant("default")
    return plant("alice")


@pytest.fixture
def bob() -> Planted:
    """Somebody else, with another word in the same places."""
    builders.tenant("default")
    return plant("bob", OTHER)


def in_index(found: set[str]) -> set[str]:
    """Places of the index of words, which engines name in their own ways."""
    return {each for each in found if each.startswith(("chat_search_words", "chat_searchentry"))}


def everything_of(planted: Planted) -> dict[str, int]:
    """How many rows there are of a person, by model."""
    sessions = list(ChatSession.objects.filter(user=planted.user).values_list("pk", flat=True))
    return {
        model._meta.label: model._default_manager.filter(**{f"{field}__in": sessions}).count()
        for model in apps.get_models()
        for field in ("chat_session",)
        if any(each.name == field for each in model._meta.fields)
    }


# --- A session ------------------------------------------------------------------------------------


def test_a_forgotten_session_leaves_its_words_nowhere(alice: Planted) -> None:
    before = places()
    assert before - in_index(before) == OF_SESSION | OF_PREFERENCE
    assert SearchEntry.objects.filter(chat_session=alice.session).count() == 4
    receipt = retention.forget_session(alice.session.pk, actor=alice.user)
    assert places() == OF_PREFERENCE
    removals.retry()
    assert receipt.is_complete
    assert receipt.counts == {
        "attachments": 1,
        "audit_reasons": 1,
        "context_parts": 3,
        "context_records": 2,
        "derived_texts": 3,
        "digests": 1,
        "exports": 1,
        "feedback": 1,
        "files": 2,
        "follow_ups": 1,
        "messages": 4,
        "quotes": 1,
        "redacted_messages": 1,
        "review_notes": 1,
        "review_scores": 1,
        "review_tags": 1,
        "search_entries": 4,
        "sessions": 1,
        "snapshots": 2,
        "summaries": 1,
        "turns": 2,
    }


def test_a_tool_that_quoted_it_elsewhere_is_emptied_and_keeps_its_place(alice: Planted) -> None:
    retention.forget_session(alice.session.pk)
    alice.quote.refresh_from_db()
    alice.quoting.refresh_from_db()
    assert (alice.quote.content, alice.quote.redacted_at is not None) == ("", True)
    assert (alice.quote.tool_call_id, alice.quoting.message_count) == ("c1", 4)
    assert alice.quoting.memory_epoch == 1
    assert not MemorySnapshot.objects.filter(pk=alice.quoting.pk).exists()


@pytest.mark.parametrize("what", ["session", "pair"])
def test_an_export_of_the_conversation_that_quoted_it_goes_too(alice: Planted, what: str) -> None:
    job = plant_export(alice.quoting, WORD)
    forget(alice, what)
    removals.retry()
    job.refresh_from_db()
    assert (job.status, job.file) == ("expired", "")
    assert "files" not in places()


def test_the_digest_is_emptied_and_another_is_due(alice: Planted) -> None:
    retention.forget_session(alice.session.pk)
    row = UserDigest.objects.get()
    assert (row.text, row.sources, row.made_after) == ("", [], None)
    due = FollowUp.objects.get(kind="digest")
    assert due.subject == f"{row.tenant_id}:{alice.user.pk}"


def test_a_digest_of_other_sessions_stays(alice: Planted) -> None:
    UserDigest.objects.update(sources=[str(alice.quoting.pk)])
    retention.forget_session(alice.session.pk)
    assert WORD in UserDigest.objects.get().text


def test_what_it_only_proposed_goes_and_what_was_kept_stays_without_its_source(
    alice: Planted,
) -> None:
    owner = alice.session.tenant_id, alice.user.pk
    preferences.remember(
        *owner, "all", "x", "y", origin="chat", status="proposed", source_session=alice.session.pk
    )
    retention.forget_session(alice.session.pk)
    row = UserPreference.objects.get()
    assert (row.pk, row.source_session_id, row.quote) == (alice.preference.pk, None, "")


def offered_again(alice: Planted) -> UserPreference:
    """The planted preference, which was sent to models, as a proposal: what replaced it went."""
    owner, row = (alice.session.tenant_id, alice.user.pk), alice.preference
    part = ContextPart.objects.create(chat_session=alice.quoting, text=f"Is called {WORD}")
    DerivedText.objects.create(chat_session=alice.quoting, part=part, source_preference=row.pk)
    newer = preferences.remember(
        *owner,
        row.scope,
        row.key,
        "Is called Ines.",
        origin="chat",
        source_session=alice.session.pk,
    )
    retention.forget_preference(*owner, newer.pk, offer_older=True)
    row.refresh_from_db()
    assert row.status == "proposed"
    return row


def test_a_proposal_that_was_active_once_goes_with_the_session_and_with_what_was_sent_of_it(
    alice: Planted,
) -> None:
    row = offered_again(alice)
    retention.forget_session(alice.session.pk)
    assert not UserPreference.objects.exists()
    assert not DerivedText.objects.filter(source_preference=row.pk).exists()
    assert places(WORD) == set()


def test_a_proposal_that_was_active_once_is_refused_with_what_was_sent_of_it(
    alice: Planted,
) -> None:
    row = offered_again(alice)
    owner = alice.session.tenant_id, alice.user.pk
    assert retention.answer_preference(*owner, row.pk, keep=False) is None
    assert not UserPreference.objects.exists()
    assert not DerivedText.objects.filter(source_preference=row.pk).exists()


def test_a_proposal_is_kept_with_what_was_sent_of_it(alice: Planted) -> None:
    row = offered_again(alice)
    sent = DerivedText.objects.filter(source_preference=row.pk).count()
    owner = alice.session.tenant_id, alice.user.pk
    kept = retention.answer_preference(*owner, row.pk, keep=True)
    assert kept is not None
    assert kept.status == "active"
    assert DerivedText.objects.filter(source_preference=row.pk).count() == sent > 0
    assert retention.answer_preference(*owner, row.pk, keep=False) == kept  # was answered before
    assert DerivedText.objects.filter(source_preference=row.pk).count() == sent


@pytest.mark.parametrize("what", ["session", "pair", "preference", "memory", "user"])
def test_a_bystander_keeps_everything(alice: Planted, bob: Planted, what: str) -> None:
    plant_account(bob.user)
    rows, where = everything_of(bob), places(OTHER)
    forget(alice, what)
    assert (everything_of(bob), places(OTHER)) == (rows, where - {"files"} | files_of(what))
    bob.preference.refresh_from_db()
    bob.session.refresh_from_db()
    assert (bob.preference.status, bob.session.memory_epoch) == ("active", 0)
    assert default_storage.exists(str(bob.session.attachments.get().file))


def files_of(what: str) -> set[str]:
    """Exports of the tenant go with a person: their rows name people."""
    return set() if what == "user" else {"files"}


def forget(planted: Planted, what: str) -> DeletionReceipt:
    owner = planted.session.tenant_id, planted.user.pk
    acts: dict[str, Callable[[], DeletionReceipt]] = {
        "session": lambda: retention.forget_session(planted.session.pk),
        "pair": lambda: retention.forget_pair(planted.session.pk, planted.turn.input_id),
        "preference": lambda: retention.forget_preference(*owner, planted.preference.pk),
        "memory": lambda: retention.forget_memory(*owner),
        "user": lambda: retention.forget_user(planted.user.pk),
    }
    return acts[what]()


# --- A preference ---------------------------------------------------------------------------------


def test_a_forgotten_preference_leaves_what_was_sent_of_it_too(alice: Planted) -> None:
    key = f"name {WORD}"
    record = ContextRecord.objects.filter(turn=alice.turn).get()
    record.manifest["preferences"] = [{"id": alice.preference.pk, "key": key}]
    record.manifest["preferences_left_out"] = [{"id": 99, "key": "other", "reason": "share"}]
    record.save(update_fields=["manifest"])
    part = sent_block(alice.quoting, alice.preference, f"- {key}: Is called {WORD}.")
    receipt = retention.forget_preference(
        alice.session.tenant_id, alice.user.pk, alice.preference.pk
    )
    assert not OF_PREFERENCE & places()
    assert (receipt.by, receipt.counts) == (
        "owner",
        {"context_parts": 1, "derived_texts": 1, "manifests": 1, "preferences": 1},
    )
    assert not type(part)._default_manager.filter(pk=part.pk).exists()
    record.refresh_from_db()
    assert record.manifest["preferences"] == [{"id": alice.preference.pk, "key": ""}]
    assert record.manifest["preferences_left_out"][0]["key"] == "other"
    kinds = ForgottenPreference.objects.values_list("kind", flat=True)
    assert sorted(set(kinds)) == ["key", "quote", "source", "text"]


def sent_block(holder: ChatSession, preference: UserPreference, text: str) -> Any:
    from chat.models import ContextPart

    part = ContextPart.objects.create(chat_session=holder, text=text)
    DerivedText.objects.create(chat_session=holder, part=part, source_preference=preference.pk)
    return part


def test_what_it_had_replaced_goes_along_with_its_copies(alice: Planted) -> None:
    owner = alice.session.tenant_id, alice.user.pk
    sent_block(alice.quoting, alice.preference, f"older {WORD}")
    newer = preferences.remember(*owner, "all", f"name {WORD}", "Is called Ines.", origin="user")
    receipt = retention.forget_preference(*owner, newer.pk)
    assert (receipt.counts["preferences"], receipt.counts["context_parts"]) == (2, 1)
    assert not OF_PREFERENCE & places()


@pytest.mark.parametrize("whose", ["nobody's", "somebody else's"])
def test_a_preference_of_another_is_unknown_and_stays(
    alice: Planted, bob: Planted, whose: str
) -> None:
    wanted = bob.preference.pk if whose == "somebody else's" else bob.preference.pk + 1000
    with pytest.raises(UserPreference.DoesNotExist):
        retention.forget_preference(alice.session.tenant_id, alice.user.pk, wanted)
    assert UserPreference.objects.count() == 2
    assert not DeletionReceipt.objects.exists()


# --- A message with its answers -------------------------------------------------------------------


def test_a_forgotten_pair_leaves_its_words_nowhere_and_the_rest_goes_on(alice: Planted) -> None:
    AuditEvent.objects.all().delete()  # a reason about the whole session is not the message's
    FollowUp.objects.all().delete()
    receipt = retention.forget_pair(alice.session.pk, alice.turn.input_id, actor=alice.user)
    removals.retry()
    assert places() == set()
    assert receipt.is_complete
    assert (receipt.kind, receipt.by) == ("message", "owner")
    counts = receipt.counts
    assert (counts["messages"], counts["turns"], counts["preferences"]) == (2, 1, 1)
    assert (counts["summaries"], counts["redacted_messages"], counts["files"]) == (1, 1, 2)
    alice.session.refresh_from_db()
    rows = list(alice.session.messages.order_by("seq").values_list("seq", "parent", "content"))
    assert rows == [
        (3, None, "And then?"),
        (4, alice.session.messages.get(seq=3).pk, "Nothing more."),
    ]
    assert (alice.session.message_count, alice.session.path_count) == (2, 2)
    assert (alice.session.memory_epoch, alice.session.title) == (2, "And then?")


def test_a_later_request_that_held_the_pair_says_what_is_missing(alice: Planted) -> None:
    later = ContextRecord.objects.exclude(turn=alice.turn).get()
    retention.forget_pair(alice.session.pk, alice.turn.input_id)
    later.refresh_from_db()
    assert (later.proof, records.rebuild(later).proof) == ("", "missing")


def tree() -> tuple[ChatSession, dict[str, ChatMessage]]:
    """Q1 with answers A and B; under B, on the chosen branch, Q2 with C; under A, Q3 with D."""
    chat_session = builders.chat_session()
    made: dict[str, ChatMessage] = {}

    def say(name: str, parent: str | None, role: str = "user", answers: str = "") -> None:
        turn = builders.turn(chat_session, made[answers]) if answers else None
        above = made[parent] if parent else None
        made[name] = builders.message(chat_session, role, name, parent=above, turn=turn)

    say("Q1", None)
    say("A", "Q1", "assistant", "Q1")
    say("Q3", "A")
    say("D", "Q3", "assistant", "Q3")
    ChatMessage.objects.update(is_on_path=False)
    say("B", "Q1", "assistant", "Q1")
    say("Q2", "B")
    say("C", "Q2", "assistant", "Q2")
    made["Q1"].is_on_path = True
    made["Q1"].save()
    ChatSession.objects.filter(pk=chat_session.pk).update(path_count=4)
    chat_session.refresh_from_db()
    return chat_session, made


def shape(chat_session: ChatSession) -> dict[str, tuple[str | None, bool]]:
    """By name: what each message hangs on, and whether it is shown."""
    names = dict(chat_session.messages.values_list("pk", "content"))
    rows = chat_session.messages.order_by("seq").values_list("content", "parent", "is_on_path")
    return {
        str(name): (names.get(parent) if parent else None, shown) for name, parent, shown in rows
    }


def assert_sound(chat_session: ChatSession) -> None:
    """The shown branch is one chain from a root to the head, and the counters say so."""
    chat_session.refresh_from_db()
    shown = list(chat_session.messages.filter(is_on_path=True).order_by("seq"))
    assert [each.parent_id for each in shown] == [None, *(each.pk for each in shown)][
        :-1
    ] or not shown
    assert chat_session.head_id == (shown[-1].pk if shown else None)
    assert chat_session.path_count == len(shown)
    assert chat_session.message_count == chat_session.messages.count()


def test_children_of_every_answer_hang_on_what_stood_before() -> None:
    chat_session, made = tree()
    retention.forget_pair(chat_session.pk, made["Q1"].pk)
    assert shape(chat_session) == {
        "Q3": (None, False),
        "D": ("Q3", False),
        "Q2": (None, True),
        "C": ("Q2", True),
    }
    assert_sound(chat_session)


def test_the_last_pair_of_a_branch_gives_way_to_the_newest_one_beside_it() -> None:
    chat_session, made = tree()
    retention.forget_pair(chat_session.pk, made["Q2"].pk)
    assert_sound(chat_session)
    assert chat_session.head_id == made["B"].pk
    retention.forget_pair(chat_session.pk, made["Q1"].pk)
    assert shape(chat_session) == {"Q3": (None, True), "D": ("Q3", True)}
    assert_sound(chat_session)
    retention.forget_pair(chat_session.pk, made["Q3"].pk)
    assert_sound(chat_session)
    assert (chat_session.head, chat_session.message_count) == (None, 0)


def test_numbers_of_messages_and_turns_are_never_given_twice() -> None:
    chat_session, made = tree()
    retention.forget_pair(chat_session.pk, made["Q2"].pk)
    turn = builders.exchange(chat_session, "Q4", "E")
    assert (turn.input.seq, turn.number) == (8, 5)
    assert_sound(chat_session)


def test_an_imported_pair_goes_down_to_the_next_question() -> None:
    chat_session = builders.chat_session()
    import_messages(
        chat_session.pk,
        [Message.user("one"), Message.assistant("1"), Message.assistant("1b"), Message.user("two")],
    )
    first = chat_session.messages.get(seq=1)
    receipt = retention.forget_pair(chat_session.pk, first.pk)
    assert receipt.counts["messages"] == 3
    assert shape(chat_session) == {"two": (None, True)}
    assert_sound(chat_session)


def test_an_image_that_another_wording_shows_stays_with_it(alice: Planted) -> None:
    from chat import attachments

    image = alice.session.attachments.get()
    edited = builders.message(
        alice.session, "user", "other", parts=[attachments.message_part(image)]
    )
    ChatMessage.objects.filter(pk=edited.pk).update(parent=None, is_on_path=False)
    ChatSession.objects.filter(pk=alice.session.pk).update(
        head=alice.session.messages.get(seq=4).pk
    )
    retention.forget_pair(alice.session.pk, alice.turn.input_id)
    image.refresh_from_db()
    assert (image.message_id, default_storage.exists(str(image.file))) == (edited.pk, True)


def test_what_the_newer_preference_replaced_is_offered_again(alice: Planted) -> None:
    UserPreference.objects.filter(pk=alice.preference.pk).update(
        source_session=alice.quoting.pk, quote=""
    )
    owner = alice.session.tenant_id, alice.user.pk
    preferences.remember(
        *owner,
        "all",
        f"name {WORD}",
        "Is called Ines.",
        origin="chat",
        source_session=alice.session.pk,
        source_seq=1,
    )
    retention.forget_pair(alice.session.pk, alice.turn.input_id)
    row = UserPreference.objects.get()
    assert (row.pk, row.status, row.superseded_by) == (alice.preference.pk, "proposed", None)


def languages(chat_session: ChatSession, elsewhere: ChatSession) -> list[UserPreference]:
    """Python was said elsewhere, then Java and Kotlin in the session: each replaced the other."""
    said = ((elsewhere, 1, "Python"), (chat_session, 1, "Java"), (chat_session, 3, "Kotlin"))
    return [
        preferences.remember(
            chat_session.tenant_id,
            chat_session.user_id,
            "all",
            "code",
            name,
            origin="chat",
            source_session=where.pk,
            source_seq=seq,
        )
        for where, seq, name in said
    ]


def statuses() -> list[tuple[str, str]]:
    rows = UserPreference.objects.filter(key="code").order_by("pk")
    return list(rows.values_list("text", "status"))


def test_two_deletions_at_once_that_reach_into_each_others_sessions_are_both_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builders.tenant("default")
    person = builders.user()
    sessions = [builders.chat_session(person) for _ in range(2)]
    for number, each in enumerate(sessions):
        builders.exchange(each, "Remember this.", "Yes.")
        made = builders.preference(
            person, f"key {number}", "x", origin="chat", source_session=each.pk, source_seq=1
        )
        for holder in sessions:
            sent_block(holder, made, "- x")

    def find_slowly(session_id: uuid.UUID, message_id: uuid.UUID) -> Any:
        found = find(session_id, message_id)
        time.sleep(0.5)  # the other one has begun by now
        return found

    find = pairs.find
    monkeypatch.setattr(pairs, "find", find_slowly)
    problems: list[Exception] = []

    def delete(chat_session: ChatSession) -> None:
        try:
            retention.forget_pair(chat_session.pk, chat_session.messages.get(seq=1).pk)
        except Exception as error:
            problems.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=delete, args=[each]) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert problems == []
    assert not UserPreference.objects.exists()
    assert not ChatMessage.objects.exists()


@pytest.mark.parametrize("how", ["pair", "clear"])
def test_what_an_endpoint_quoted_when_a_follow_up_failed_goes_along(
    alice: Planted, how: str
) -> None:
    error = f"bad_request: {WORD} is not allowed"
    FollowUp.objects.filter(chat_session=alice.session).update(last_error=error)
    subject = f"{alice.session.tenant_id}:{alice.user.pk}"
    FollowUp.objects.create(
        kind="digest", subject=subject, due_at=alice.turn.started_at, last_error=error
    )
    if how == "pair":
        retention.forget_pair(alice.session.pk, alice.turn.input_id)
    else:
        retention.clear_memory(alice.session.pk)
    assert not FollowUp.objects.exclude(last_error="").exists()


@pytest.mark.parametrize("title_source", ["auto", "model", "user"])
def test_a_quotation_of_another_message_goes_too_when_it_names_the_title_that_nobody_gave(
    alice: Planted, title_source: str
) -> None:
    """`search_history` says with each message how its conversation is called."""
    ChatSession.objects.filter(pk=alice.session.pk).update(title_source=title_source)
    text = f"[2026-11-30 · user · About {WORD}, message 3]\nAnd then?"
    ChatMessage.objects.filter(pk=alice.quote.pk).update(content=text)
    DerivedText.objects.filter(message=alice.quote).update(source_seq=3)
    retention.forget_pair(alice.session.pk, alice.turn.input_id)
    alice.quote.refresh_from_db()
    assert alice.quote.content == (text if title_source == "user" else "")


def test_what_was_replaced_twice_is_not_offered_while_the_newest_holds(alice: Planted) -> None:
    languages(alice.session, alice.quoting)
    retention.forget_pair(alice.session.pk, alice.turn.input_id)
    assert statuses() == [("Python", "superseded"), ("Kotlin", "active")]


def test_clearing_offers_nothing_again_that_came_from_the_cleared_session(alice: Planted) -> None:
    *_, kotlin = languages(alice.session, alice.quoting)
    retention.clear_memory(alice.session.pk, delete_preferences=[kotlin.pk])
    assert statuses() == [("Python", "proposed")]


@pytest.mark.parametrize("what", ["an answer", "another session's", "nothing"])
def test_only_a_message_that_a_person_wrote_here_can_be_named(
    alice: Planted, bob: Planted, what: str
) -> None:
    named = {
        "an answer": alice.session.messages.get(seq=2).pk,
        "another session's": bob.turn.input_id,
        "nothing": uuid.uuid4(),
    }
    with pytest.raises(retention.NoSuchMessage):
        retention.forget_pair(alice.session.pk, named[what])
    alice.session.refresh_from_db()
    assert (alice.session.message_count, alice.session.memory_epoch) == (4, 0)


def test_nothing_is_taken_out_while_a_turn_runs(alice: Planted) -> None:
    leases.take(alice.session.pk, uuid.uuid4())
    with pytest.raises(leases.Busy):
        retention.forget_pair(alice.session.pk, alice.turn.input_id)
    assert alice.session.messages.count() == 4


def test_a_pair_of_a_temporary_session_leaves_the_cache_alone_but_for_itself() -> None:
    chat_session = plant_temporary(builders.user())
    kept = builders.message(chat_session, "user", "")
    temporary.keep(chat_session.pk, kept.pk, "stays")
    retention.forget_pair(chat_session.pk, chat_session.messages.get(seq=1).pk)
    assert temporary.texts_of(chat_session.pk) == {str(kept.pk): "stays"}
    assert places() == set()


# --- Memory ---------------------------------------------------------------------------------------


def test_clearing_memory_drops_summaries_and_the_digest_that_was_made_of_them(
    alice: Planted,
) -> None:
    retention.clear_memory(alice.session.pk)
    assert not ConversationSummary.objects.exists()
    assert UserDigest.objects.get().text == ""
    assert MemorySnapshot.objects.get().pk == alice.quoting.pk
    assert alice.session.messages.count() == 4


def test_forgetting_all_memory_leaves_transcripts_and_nothing_that_is_remembered(
    alice: Planted,
) -> None:
    receipt = forget(alice, "memory")
    remembered = {each for each in places() if each.startswith("memory_")}
    assert (remembered, receipt.kind) == (set(), "memory")
    assert alice.session.messages.count() == 4
    for chat_session in (alice.session, alice.quoting):
        chat_session.refresh_from_db()
        assert chat_session.memory_starts_after == 4
    assert digests.of(alice.session.tenant_id, alice.user.pk) is None


# --- A person -------------------------------------------------------------------------------------


def test_every_table_that_names_a_person_is_in_a_list() -> None:
    """What points at a person is deleted by us, or set to nobody with the account."""
    person = Person.of(builders.user())
    listed = {place.rows(person).model for place in (*CONTENT_PLACES, *account_places())}
    links = (each.remote_field.through for each in get_user_model()._meta.many_to_many)
    of_account = {ExportJob, *links}
    by_session = {ChatSession}
    nobody = {AuditEvent, DeletionReceipt, ReviewNote}
    assert models_that_name_a_person() - listed == of_account | by_session | nobody
    for model in nobody:
        fields = [each for each in model._meta.fields if each.related_model is get_user_model()]
        deletes = [getattr(each.remote_field, "on_delete", None) for each in fields]
        assert deletes == [models.SET_NULL]


def models_that_name_a_person() -> set[Any]:
    return {
        model
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.fields
        if field.related_model is get_user_model()
    }


def test_a_forgotten_person_leaves_their_words_and_name_nowhere(alice: Planted) -> None:
    temporary_one = plant_temporary(alice.user)
    plant_account(alice.user)
    names = {*places("alice"), *places("ALICE"), *places("alice@example.org"), *places("Alice")}
    assert {
        "auth_user.username",
        "axes_accesslog.username",
        "django_admin_log.object_repr",
    } <= names
    assert "cache" in places()
    receipt = retention.forget_user(alice.user.pk)
    removals.retry()
    for word in (WORD, "alice", "ALICE", "Alice", "alice@example.org"):
        assert places(word) == set(), word
    assert receipt.is_complete
    assert not ChatSession.objects.exists()
    assert not get_user_model()._default_manager.filter(pk=alice.user.pk).exists()
    assert (receipt.owner, receipt.by, receipt.counts["accounts"]) == (None, "command", 1)
    assert temporary.texts_of(temporary_one.pk) == {}
    counts = receipt.counts
    assert (counts["sessions"], counts["browser_sessions"], counts["admin_log"]) == (3, 1, 2)
    assert (counts["accessattempt"], counts["accessfailurelog"], counts["accesslog"]) == (1, 1, 2)


def test_events_stay_and_name_the_person_by_a_hash_alone(alice: Planted) -> None:
    plant_account(alice.user)
    retention.forget_user(alice.user.pk)
    subject = receipt_subject(alice)
    events = {each.action: each for each in AuditEvent.objects.order_by("pk")}
    assert (events["user.change"].object_id, events["user.forget"].object_id) == (subject, subject)
    assert events["preference.edit"].filter == {"user": subject, "n": 1}
    assert events["preference.edit"].reason == ""
    assert (events["x.list"].filter, events["x.list"].actor) == ({"q": ""}, None)


def receipt_subject(planted: Planted) -> str:
    receipt = DeletionReceipt.objects.get(kind="user")
    assert planted.user.get_username() not in receipt.subject
    return receipt.subject


def test_a_name_is_taken_out_where_it_is_a_word_of_its_own() -> None:
    person = builders.user("ann")
    for reason in ("annual review", "Ann asked", "by ann.", "Hannah"):
        AuditEvent.objects.create(action="x", reason=reason)
    retention.forget_user(person.pk)
    kept = AuditEvent.objects.filter(action="x").order_by("pk").values_list("reason", flat=True)
    assert list(kept) == ["annual review", "", "", "Hannah"]


@pytest.mark.parametrize("name", ["青云", "zoë@x", "a%b_c", "O'Neil"])
def test_any_name_is_found_in_filters_too(name: str) -> None:
    person = builders.user(name)
    AuditEvent.objects.create(action="x", filter={"q": [f"by {name}"], "n": 1})
    retention.forget_user(person.pk)
    assert AuditEvent.objects.get(action="x").filter == {"q": [""], "n": 1}


def test_an_account_that_is_kept_can_go_on_and_has_nothing_left(alice: Planted) -> None:
    plant_account(alice.user)
    receipt = retention.forget_user(alice.user.pk, keep_account=True)
    removals.retry()
    assert places() == set()
    alice.user.refresh_from_db()
    assert (alice.user.is_active, receipt.owner) == (True, alice.user)
    assert "accounts" not in receipt.counts
    assert not ForgottenPreference.objects.exists()
    builders.exchange(builders.chat_session(alice.user))


def test_a_session_that_is_begun_meanwhile_goes_too(
    alice: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_sessions = people.forget_sessions
    begun: list[ChatSession] = []

    def begin_another(*args: Any) -> Any:
        taken = forget_sessions(*args)
        if not begun:
            begun.append(builders.chat_session(alice.user))
        return taken

    monkeypatch.setattr(people, "forget_sessions", begin_another)
    receipt = retention.forget_user(alice.user.pk)
    assert (receipt.counts["sessions"], ChatSession.objects.count()) == (3, 0)


def test_a_run_that_was_cut_short_is_finished_by_the_next(
    alice: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(people, "forget_rest", cut_short)
        with pytest.raises(KeyboardInterrupt):
            retention.forget_user(alice.user.pk)
    assert not DeletionReceipt.objects.exists()
    alice.user.refresh_from_db()
    assert (ChatSession.objects.count(), alice.user.is_active) == (0, False)
    assert retention.forget_user(alice.user.pk).counts["accounts"] == 1
    removals.retry()
    assert places() == set()


def cut_short(*args: Any, **options: Any) -> None:
    raise KeyboardInterrupt


# --- Other stores that are away -------------------------------------------------------------------


@pytest.mark.parametrize("what", ["session", "user"])
def test_what_the_cache_cannot_remove_now_keeps_the_receipt_open_until_it_can(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builders.tenant("default")
    person = builders.user("alice")
    chat_session = plant_temporary(person)
    with monkeypatch.context() as away:
        away.setattr(removals, "cache", Away())
        if what == "session":
            receipt = retention.forget_session(chat_session.pk)
        else:
            receipt = retention.forget_user(person.pk)
    assert not receipt.is_complete
    assert "cache" in places()
    assert FollowUp.objects.filter(kind="removals", subject="all").exists()
    waiting = PendingRemoval.objects.filter(name=temporary.key_of(chat_session.pk)).get()
    assert (waiting.receipt, waiting.attempts > 0) == (receipt, True)
    assert removals.retry()[1] == 0
    assert (receipt.is_complete, places()) == (True, set())


class Away:
    def delete(self, key: str) -> None:
        raise ConnectionError("the cache is away")


def test_a_window_in_the_cache_goes_with_its_session(settings: Any) -> None:
    from memory.stores import CacheStore

    settings.CHAT_MEMORY_STORE = "memory.stores.CacheStore"
    builders.tenant("default")
    chat_session = builders.chat_session()
    CacheStore().replace(str(chat_session.pk), [Message.user(WORD)])
    assert "cache" in places()
    receipt = retention.forget_session(chat_session.pk)
    assert (places(), receipt.counts["cache"], receipt.is_complete) == (set(), 1, True)
    assert CacheStore().load(str(chat_session.pk)) is None


# --- Late writers ---------------------------------------------------------------------------------


def test_nothing_that_is_done_afterwards_brings_anything_back(alice: Planted) -> None:
    """Follow-ups that were claimed, an extraction, a digest and an import come too late."""
    owner = alice.session.tenant_id, alice.user.pk
    UserDigest.objects.all().delete()
    plan = digests.plan(*owner)
    assert plan is not None
    claims = [each for each in dues.claim(10) if each.session_id == alice.session.pk]
    assert [each.kind for each in claims] == ["title"]
    retention.forget_session(alice.session.pk)
    dues.failed(claims[0], WORD)
    assert not digests.save(*owner, plan, WORD)
    with pytest.raises(Exception, match=r"(?i)foreign key|integrity"):
        preferences.remember(
            *owner, "all", "k", WORD, origin="chat", source_session=alice.session.pk
        )
    with pytest.raises(leases.Gone):
        import_messages(alice.session.pk, [Message.user(WORD)])
    assert places() == OF_PREFERENCE
