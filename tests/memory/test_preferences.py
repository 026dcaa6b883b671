from __future__ import annotations

import itertools
import threading
import unicodedata
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory import forgotten, preferences
from memory.blocks import PreferenceText
from memory.models import ForgottenPreference, UserPreference
from memory.preferences import InvalidPreference, Owner
from tests import builders

pytestmark = pytest.mark.django_db


class Person:
    """A user in a tenant, with what they may call."""

    def __init__(self) -> None:
        self.tenant = builders.tenant()
        self.user = builders.user(tenants=[self.tenant])
        self.ids: tuple[int, int] = (self.tenant.pk, self.user.pk)

    def remember(self, key: str, text: str, scope: str = "all", **fields: Any) -> UserPreference:
        fields.setdefault("origin", "user")
        return preferences.remember(*self.ids, scope, key, text, **fields)

    def propose(self, key: str, text: str, scope: str = "all", **fields: Any) -> UserPreference:
        return self.remember(key, text, scope, origin="chat", status="proposed", **fields)

    def recalled(self, scope: str = "guide", question: str = "") -> list[tuple[str, str]]:
        found = preferences.active_for(Owner(*self.ids, scope), question)
        return [(each.key, each.text) for each in found]

    def forgot(self, key: str, text: str, **said: Any) -> bool:
        """Whether a candidate that was said just now is one of those that were deleted."""
        said = {"quote": "", "source_session": None, "source_seq": None, **said}
        said.setdefault("said_at", timezone.now())
        return preferences.is_forgotten(*self.ids, key=key, text=text, **said)

    def statuses(self) -> list[tuple[str, str]]:
        rows = UserPreference.objects.filter(user=self.user).order_by("id")
        return [(row.text, row.status) for row in rows]


@pytest.fixture
def alice() -> Person:
    return Person()


@pytest.fixture
def bob() -> Person:
    return Person()


# --- Remember


def test_what_is_remembered_is_recalled_with_its_source(alice: Person) -> None:
    chat_session = builders.chat_session(alice.user, tenant=alice.tenant)
    row = alice.remember(
        " Language ", "用中文回答 ", origin="chat", source_session=chat_session.pk, source_seq=3
    )
    assert (row.key, row.text, row.source_session, row.source_seq) == (
        "Language",
        "用中文回答",
        chat_session,
        3,
    )
    assert preferences.active_for(Owner(*alice.ids, "guide")) == (
        PreferenceText(row.pk, "Language", "用中文回答", "all", "chat"),
    )


def test_a_newer_text_replaces_the_older_one(alice: Person) -> None:
    java = alice.remember("Examples", "Java")
    kotlin = alice.remember("examples", "Kotlin")
    assert alice.recalled() == [("examples", "Kotlin")]
    assert alice.statuses() == [("Java", "superseded"), ("Kotlin", "active")]
    java.refresh_from_db()
    assert java.superseded_by == kotlin


@pytest.mark.parametrize("key", ["EXAMPLES", " examples\n", "exam\x00ples"])
def test_keys_are_compared_folded(alice: Person, key: str) -> None:
    alice.remember("Examples", "Java")
    alice.remember(key, "Kotlin")
    assert [text for _, text in alice.recalled()] == ["Kotlin"]


def test_keys_that_differ_by_an_accent_or_a_width_stay_apart(alice: Person) -> None:
    for key in ("cafe", "café", "ｃafe", "cafe!"):
        alice.remember(key, "x")
    assert [key for key, _ in alice.recalled()] == ["cafe!", "ｃafe", "café", "cafe"]


def test_the_same_text_again_changes_nothing(alice: Person) -> None:
    first = alice.remember("examples", "Java")
    again = alice.remember("Examples", " Java")
    assert again.pk == first.pk
    assert alice.statuses() == [("Java", "active")]


def test_the_same_text_after_it_expired_is_remembered_anew(alice: Person) -> None:
    alice.remember("examples", "Java")
    UserPreference.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert alice.recalled() == []
    alice.remember("examples", "Java")
    assert alice.recalled() == [("examples", "Java")]


@pytest.mark.parametrize(
    ("key", "text", "scope", "origin", "says"),
    [
        (" \x00", "x", "all", "user", "key is empty"),
        ("k" * 101, "x", "all", "user", "key has 101 characters; at most 100"),
        ("ß" * 60, "x", "all", "user", "key has 120 characters; at most 100"),
        ("k", " \n", "all", "user", "text is empty"),
        ("k", "x" * 2_001, "all", "user", "text has 2001 characters; at most 2000"),
        ("k", "的" * 1_000_000, "all", "user", "text has 1000000 characters"),
        ("k", "x", "", "user", "scope is ''"),
        ("k", "x", "s" * 61, "user", "scope is 's"),
        ("k", "x", "all", "model", "origin is 'model'"),
        ("的" * 1_000_000, "x", "all", "user", "key has 1000000 characters; at most 100"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_is_superseded(
    alice: Person, key: str, text: str, scope: str, origin: str, says: str
) -> None:
    alice.remember("k", "before")
    with pytest.raises(InvalidPreference, match=says):
        alice.remember(key, text, scope, origin=origin)
    assert alice.statuses() == [("before", "active")]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("用中文 😄 עברית", "用中文 😄 עברית"),
        ("a\x00b", "ab"),
        ("\ud83d", "\ufffd"),
        ('\'; DROP TABLE "x"; -- {{ y }} %s', '\'; DROP TABLE "x"; -- {{ y }} %s'),
        ("的" * 2_000, "的" * 2_000),
    ],
)
def test_text_is_anyones(alice: Person, text: str, kept: str) -> None:
    alice.remember("k", text)
    assert alice.recalled() == [("k", kept)]


def test_the_longest_key_and_scope_fit_the_index(alice: Person) -> None:
    alice.remember("的" * 100, "x", "s" * 60)
    assert alice.recalled("s" * 60) == [("的" * 100, "x")]


# --- Recall


def test_nobody_elses_preferences_are_recalled(alice: Person, bob: Person) -> None:
    alice.remember("secret", "青云-4173")
    assert bob.recalled() == []
    other_tenant = builders.tenant()
    assert preferences.active_for(Owner(other_tenant.pk, alice.user.pk, "guide")) == ()


def test_the_assistants_own_come_first_and_beat_those_for_all(alice: Person) -> None:
    alice.remember("style", "short", "guide")
    alice.remember("language", "English")
    alice.remember("Style", "long")
    alice.remember("tone", "dry", "other")
    assert alice.recalled("guide") == [("style", "short"), ("language", "English")]
    assert alice.recalled("other") == [("tone", "dry"), ("Style", "long"), ("language", "English")]


def test_fifty_are_recalled_at_most_and_an_old_one_that_is_asked_about_is_among_them(
    alice: Person,
) -> None:
    alice.remember("boat", "She has a red kayak.")
    for n in range(51):
        alice.remember(f"key {n}", "x")
    assert [key for key, _ in alice.recalled()] == [f"key {n}" for n in range(50, 0, -1)]
    asked = alice.recalled(question="Where can I paddle my kayak?")
    assert (asked[0], len(asked)) == (("boat", "She has a red kayak."), 50)


def test_all_that_a_question_asks_about_come_first_then_the_newest(alice: Person) -> None:
    for key, text in [
        ("sister", "My sister is called Ines."),
        ("diet", "我不吃花生"),
        ("editor", "Uses Vim."),
        ("city", "Lives in Lisbon."),
        ("tone", "Be brief."),
    ]:
        alice.remember(key, text)
    found = alice.recalled(question="What should my sister cook in Lisbon? 花生可以吗?")
    assert [key for key, _ in found] == ["city", "diet", "sister", "tone", "editor"]


def test_the_assistants_own_wins_before_anything_is_ranked(alice: Person) -> None:
    alice.remember("style", "kayak kayak kayak")
    alice.remember("style", "short", "guide")
    assert alice.recalled("guide", question="kayak style") == [("style", "short")]


def test_what_was_used_says_when(alice: Person, bob: Person) -> None:
    row, other = alice.remember("k", "x"), alice.remember("l", "y")
    before = timezone.now()
    preferences.used([row.pk])
    row.refresh_from_db()
    other.refresh_from_db()
    assert row.last_used_at is not None
    assert (row.last_used_at >= before, other.last_used_at) == (True, None)


# --- Edit, disable, enable, delete


def test_an_edit_changes_the_text_and_says_who_wrote_it(alice: Person) -> None:
    row = alice.remember("k", "before", origin="chat")
    edited = preferences.edit(*alice.ids, row.pk, " after\x00 ")
    assert (edited.text, edited.origin) == ("after", "user")
    assert alice.recalled() == [("k", "after")]
    with pytest.raises(InvalidPreference):
        preferences.edit(*alice.ids, row.pk, "")
    assert alice.recalled() == [("k", "after")]


def test_a_disabled_one_is_kept_and_not_recalled_until_it_is_enabled(alice: Person) -> None:
    row = alice.remember("k", "x")
    assert preferences.disable(*alice.ids, row.pk).status == "disabled"
    assert alice.recalled() == []
    assert preferences.enable(*alice.ids, row.pk).status == "active"
    assert alice.recalled() == [("k", "x")]


def test_enabling_one_that_expired_makes_it_hold_again(alice: Person) -> None:
    old = alice.remember("city", "Berlin")
    preferences.disable(*alice.ids, old.pk)
    UserPreference.objects.filter(pk=old.pk).update(expires_at=timezone.now())
    alice.remember("city", "Lisbon")
    row = preferences.enable(*alice.ids, old.pk)
    assert (row.expires_at, alice.recalled()) == (None, [("city", "Berlin")])


def test_an_edit_forgets_the_words_that_it_takes_out_and_no_others(alice: Person) -> None:
    row = alice.remember("code", "Examples in Java with comments")
    said_at = timezone.now()
    preferences.edit(*alice.ids, row.pk, "Examples in Kotlin with comments")
    assert alice.forgot("code", "examples in Java, with comments", said_at=said_at)
    assert alice.forgot("programming", "Likes Java", said_at=said_at)
    assert not alice.forgot("programming", "Likes Java")  # said again
    assert not alice.forgot("programming", "Comments in Kotlin", said_at=said_at)
    count = ForgottenPreference.objects.count()
    preferences.edit(*alice.ids, row.pk, "examples in Kotlin, with comments!")
    assert ForgottenPreference.objects.count() == count


def test_enabling_an_older_one_supersedes_the_newer(alice: Person) -> None:
    java = alice.remember("k", "Java")
    preferences.disable(*alice.ids, java.pk)
    alice.remember("k", "Kotlin")
    preferences.enable(*alice.ids, java.pk)
    assert alice.statuses() == [("Java", "active"), ("Kotlin", "superseded")]
    assert preferences.enable(*alice.ids, java.pk).superseded_by is None


def test_deleting_takes_what_it_superseded_along_and_nothing_else(
    alice: Person, bob: Person
) -> None:
    bob.remember("k", "bob's")
    alice.remember("k", "for guide", "guide")
    alice.remember("k", "old")
    row = alice.remember("K", "new")
    alice.remember("other", "stays")
    assert preferences.delete(*alice.ids, row.pk) == 2
    assert alice.statuses() == [("for guide", "active"), ("stays", "active")]
    assert bob.statuses() == [("bob's", "active")]


def test_one_holds_until_it_expires_and_again_when_its_time_is_moved(alice: Person) -> None:
    row = alice.remember("diet", "no sugar")
    week = timezone.now() + timedelta(days=7)
    assert preferences.set_expiry(*alice.ids, row.pk, week).expires_at == week
    UserPreference.objects.update(expires_at=timezone.now())
    assert alice.recalled() == []
    preferences.set_expiry(*alice.ids, row.pk, week)
    assert alice.recalled() == [("diet", "no sugar")]
    with pytest.raises(InvalidPreference, match="which is past"):
        preferences.set_expiry(*alice.ids, row.pk, timezone.now())
    assert preferences.set_expiry(*alice.ids, row.pk, None).expires_at is None


ACTS: dict[str, Callable[[int, int, int], object]] = {
    "edit": lambda tenant, user, row: preferences.edit(tenant, user, row, "hacked"),
    "set_expiry": lambda tenant, user, row: preferences.set_expiry(tenant, user, row, None),
    "disable": preferences.disable,
    "enable": preferences.enable,
    "delete": preferences.delete,
    "answer": lambda tenant, user, row: preferences.answer(tenant, user, row, keep=False),
}


@pytest.mark.parametrize("act", ACTS)
def test_somebody_elses_id_is_as_unknown_as_any(alice: Person, bob: Person, act: str) -> None:
    row = alice.remember("k", "x")
    tenant, user = alice.ids
    owners: list[tuple[int, int]] = [bob.ids, (bob.tenant.pk, user), (tenant, bob.user.pk)]
    for owner in owners:
        with pytest.raises(UserPreference.DoesNotExist):
            ACTS[act](*owner, row.pk)
    with pytest.raises(UserPreference.DoesNotExist):
        ACTS[act](tenant, user, row.pk + 1_000)
    assert alice.statuses() == [("x", "active")]


def test_the_list_holds_all_but_what_was_replaced_newest_first(alice: Person, bob: Person) -> None:
    chat_session = builders.chat_session(alice.user, tenant=alice.tenant)
    bob.remember("k", "bob's")
    alice.remember("k", "superseded")
    first = alice.remember("k", "first", source_session=chat_session.pk)
    second = alice.remember("l", "second")
    preferences.disable(*alice.ids, second.pk)
    third = alice.propose("m", "third")
    rows = preferences.listed(*alice.ids)
    assert [row.pk for row in rows] == [third.pk, second.pk, first.pk]
    from_here = preferences.listed(*alice.ids, source_session=chat_session.pk)
    assert [row.pk for row in from_here] == [first.pk]
    assert not preferences.listed(*alice.ids, source_session=uuid.uuid4()).exists()


# --- Proposals


def test_what_is_proposed_keeps_its_quote_and_is_not_recalled(alice: Person) -> None:
    chat_session = builders.chat_session(alice.user, tenant=alice.tenant)
    until = timezone.now() + timedelta(days=7)
    row = alice.propose(
        "city",
        "Lives in Lisbon.",
        source_session=chat_session.pk,
        source_seq=3,
        quote=" I moved\x00 to Lisbon ",
        confidence=0.8,
        expires_at=until,
    )
    row.refresh_from_db()
    assert (row.status, row.quote, row.confidence, row.expires_at, row.source_seq) == (
        "proposed",
        "I moved to Lisbon",
        0.8,
        until,
        3,
    )
    assert alice.recalled() == []


def test_several_may_be_proposed_for_one_key(alice: Person) -> None:
    alice.remember("city", "Berlin")
    alice.propose("city", "Lisbon")
    alice.propose("city", "Porto")
    assert alice.recalled() == [("city", "Berlin")]
    assert alice.statuses() == [
        ("Berlin", "active"),
        ("Lisbon", "proposed"),
        ("Porto", "proposed"),
    ]


def test_keeping_a_proposal_supersedes_the_active_one_in_the_same_step(alice: Person) -> None:
    berlin = alice.remember("city", "Berlin")
    lisbon = alice.propose("City", "Lisbon")
    kept = preferences.answer(*alice.ids, lisbon.pk, keep=True)
    berlin.refresh_from_db()
    assert kept is not None
    assert (kept.pk, kept.status, kept.is_current) == (lisbon.pk, "active", True)
    assert (berlin.status, berlin.superseded_by) == ("superseded", lisbon)
    assert alice.recalled() == [("City", "Lisbon")]


def test_refusing_a_proposal_deletes_it_alone_and_remembers_the_refusal(alice: Person) -> None:
    alice.remember("city", "Berlin")
    alice.remember("city", "Hamburg")
    row = alice.propose("city", "Lisbon", quote="I love Lisbon")
    said_at = timezone.now()
    assert preferences.answer(*alice.ids, row.pk, keep=False) is None
    assert alice.statuses() == [("Berlin", "superseded"), ("Hamburg", "active")]
    assert alice.forgot("town", "lisbon!", said_at=said_at)
    assert not alice.forgot("town", "Lisbon")  # said again


def test_refusing_what_was_active_once_takes_along_what_it_had_superseded(alice: Person) -> None:
    alice.remember("city", "Bonn")
    berlin = alice.remember("city", "Berlin")
    preferences.delete(*alice.ids, alice.remember("city", "Lisbon").pk, offer_older=True)
    preferences.answer(*alice.ids, berlin.pk, keep=False)
    assert alice.statuses() == []


@pytest.mark.parametrize("keep", [True, False])
def test_an_answer_that_comes_twice_changes_nothing_more(alice: Person, keep: bool) -> None:
    row = alice.propose("city", "Lisbon")
    preferences.answer(*alice.ids, row.pk, keep=True)
    again = preferences.answer(*alice.ids, row.pk, keep=keep)
    assert again is not None
    assert (again.pk, alice.statuses()) == (row.pk, [("Lisbon", "active")])


def test_a_refusal_that_comes_twice_finds_nothing(alice: Person) -> None:
    row = alice.propose("city", "Lisbon")
    preferences.answer(*alice.ids, row.pk, keep=False)
    with pytest.raises(UserPreference.DoesNotExist):
        preferences.answer(*alice.ids, row.pk, keep=False)


def test_a_proposal_that_expired_is_neither_listed_nor_kept(alice: Person) -> None:
    row = alice.propose("city", "Lisbon")
    UserPreference.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert not preferences.listed(*alice.ids).exists()
    with pytest.raises(UserPreference.DoesNotExist):
        preferences.answer(*alice.ids, row.pk, keep=True)


def test_what_is_active_proposed_or_disabled_is_not_proposed_again(alice: Person) -> None:
    active, off = alice.remember("a", "Uses Vim."), alice.remember("b", "No tabs.")
    preferences.disable(*alice.ids, off.pk)
    proposed = alice.propose("c", "Lisbon")
    assert alice.propose("A", "uses  vim.").pk == active.pk
    assert alice.propose("b", "no tabs.").pk == off.pk
    assert alice.propose("c", "LISBON").pk == proposed.pk
    assert [status for _, status in alice.statuses()] == ["active", "disabled", "proposed"]


@pytest.mark.parametrize("before", ["proposed", "disabled"])
def test_what_is_said_in_full_while_it_waits_becomes_active_and_stays_one_row(
    alice: Person, before: str
) -> None:
    row = alice.propose("city", "lisbon")
    if before == "disabled":
        preferences.disable(*alice.ids, row.pk)
    again = alice.remember("City", "Lisbon")
    assert (again.pk, alice.statuses()) == (row.pk, [("Lisbon", "active")])


def test_a_new_statement_takes_the_key_of_the_one_that_it_replaces(alice: Person) -> None:
    alice.remember("home town", "Berlin")
    row = alice.propose("city", "Lisbon", replaces=" Home Town")
    assert row.key == "home town"
    preferences.answer(*alice.ids, row.pk, keep=True)
    assert alice.recalled() == [("home town", "Lisbon")]


def test_one_that_replaces_two_supersedes_both(alice: Person) -> None:
    alice.remember("home town", "Berlin")
    alice.remember("city", "Hamburg")
    row = alice.remember("city", "Lisbon", origin="chat", replaces="home town")
    assert alice.recalled() == [("city", "Lisbon")]
    assert preferences.delete(*alice.ids, row.pk) == 3


@pytest.mark.parametrize("named", ["nothing", "", None])
def test_a_replaced_key_that_nobody_has_is_let_be(alice: Person, named: str | None) -> None:
    alice.remember("tone", "dry")
    alice.remember("city", "Lisbon", replaces=named)
    assert alice.recalled() == [("city", "Lisbon"), ("tone", "dry")]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("quote", "的" * 1_000_000, "quote has 1000000 characters; at most 2000"),
        ("confidence", 1.5, "confidence is 1.5; use a number from 0 to 1"),
        ("confidence", float("nan"), "confidence is nan"),
        ("expires_at", datetime(2999, 1, 1), "without a time zone"),
        ("expires_at", timezone.now(), "which is past"),
        ("status", "superseded", "status is 'superseded'; use active or proposed"),
    ],
)
def test_a_field_that_cannot_be_stored_is_named(
    alice: Person, field: str, value: Any, says: str
) -> None:
    with pytest.raises(InvalidPreference, match=says) as refused:
        alice.remember("k", "x", **{field: value})
    assert (refused.value.field, alice.statuses()) == (field, [])


def test_what_is_said_again_lasts_as_long_as_the_longer_statement(alice: Person) -> None:
    week, month = (timezone.now() + timedelta(days=days) for days in (7, 30))
    row = alice.remember("diet", "no sugar", expires_at=week)
    alice.remember("diet", "no sugar", expires_at=month)
    alice.remember("diet", "no sugar", expires_at=week)
    row.refresh_from_db()
    assert row.expires_at == month
    assert alice.remember("diet", "no sugar").expires_at is None


def test_a_longest_text_can_be_written_anew_for_ever(alice: Person) -> None:
    row = alice.remember("k", "a" * 2_000)
    for letter in "bcd":
        preferences.edit(*alice.ids, row.pk, letter * 2_000)
        alice.remember("l", letter * 2_000)
    assert alice.recalled() == [("l", "d" * 2_000), ("k", "d" * 2_000)]


# --- Forgetting


def test_a_deleted_one_is_known_by_its_key_text_and_quote_until_it_is_said_anew(
    alice: Person,
) -> None:
    said_at = timezone.now()
    row = alice.remember("Diet", "Eats no peanuts.", quote="I can't eat peanuts, sorry")
    preferences.delete(*alice.ids, row.pk)
    for key, text, quote in [
        (" diet", "something else", ""),
        ("food", "eats NO peanuts", ""),
        ("food", "Allergic to peanuts.", "i can't eat peanuts; sorry!"),
    ]:
        assert alice.forgot(key, text, quote=quote, said_at=said_at), key
        assert not alice.forgot(key, text, quote=quote), key
        assert alice.forgot(key, text, quote=quote, said_at=None), key  # it was imported
    assert not alice.forgot("music", "Likes jazz.", quote="jazz", said_at=said_at)


@pytest.mark.parametrize(
    ("deleted", "other_words", "something_else"),
    [
        ("Code examples in Java", "All snippets shall be written in java.", "Answers in French"),
        ("代码示例用 Java。", "例子都用java写", "用中文回答"),
        ("以后代码示例都要短", "示例短一点", "用中文回答"),
        ("לענות בעברית", "תשובות בעברית", "קוד בפייתון"),
    ],
)
def test_a_deleted_one_is_known_by_its_words_under_another_key_in_old_messages_alone(
    alice: Person, deleted: str, other_words: str, something_else: str
) -> None:
    said_at = timezone.now()
    preferences.delete(*alice.ids, alice.remember("code", deleted).pk)
    assert alice.forgot("another name", other_words, said_at=said_at)
    assert not alice.forgot("another name", something_else, said_at=said_at)
    assert not alice.forgot("another name", other_words)  # said anew


def test_the_message_that_a_deleted_one_came_from_never_gives_it_again(alice: Person) -> None:
    chat_session = builders.chat_session(alice.user, tenant=alice.tenant)
    row = alice.remember("diet", "vegan", source_session=chat_session.pk, source_seq=3)
    preferences.delete(*alice.ids, row.pk)
    later = timezone.now() + timedelta(days=1)
    assert alice.forgot("x", "y", source_session=chat_session.pk, source_seq=3, said_at=later)
    assert not alice.forgot("x", "y", source_session=chat_session.pk, source_seq=5)
    assert not alice.forgot("x", "y", source_session=uuid.uuid4(), source_seq=3)


def test_what_it_had_superseded_is_forgotten_too(alice: Person) -> None:
    alice.remember("city", "Berlin")
    row = alice.remember("city", "Lisbon")
    said_at = timezone.now()
    preferences.delete(*alice.ids, row.pk)
    assert alice.forgot("home", "Berlin", said_at=said_at)


def test_forgetting_the_same_again_moves_the_time_forward(alice: Person) -> None:
    preferences.delete(*alice.ids, alice.remember("city", "Lisbon").pk)
    said_at = timezone.now()
    preferences.delete(*alice.ids, alice.remember("city", "Lisbon").pk)
    assert alice.forgot("city", "Lisbon", said_at=said_at)
    assert ForgottenPreference.objects.count() == 3  # its key, its text, its one word


def test_forgetting_a_long_text_takes_as_many_queries_as_a_short_one(alice: Person) -> None:
    counts = []
    for text in ("short", " ".join(f"word{number}" for number in range(200))):
        row = alice.remember("k", text)
        with CaptureQueriesContext(connection) as queries:
            preferences.delete(*alice.ids, row.pk)
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert ForgottenPreference.objects.count() == 1 + 2 + 1 + forgotten.MOST_WORDS


def test_hashes_hold_no_words_and_are_of_one_person_and_one_server_key(
    alice: Person, bob: Person, settings: LazySettings
) -> None:
    said_at = timezone.now()
    for person in (alice, bob):
        preferences.delete(*person.ids, person.remember("city", "Lisbon").pk)
    digests = list(ForgottenPreference.objects.values_list("digest", flat=True))
    assert len(set(digests)) == 6
    assert alice.forgot("city", "Lisbon", said_at=said_at)
    settings.CHAT_PROOF_KEY = "another"
    assert not alice.forgot("city", "Lisbon", said_at=said_at)


def test_nobody_elses_deletion_forgets_anything(alice: Person, bob: Person) -> None:
    said_at = timezone.now()
    preferences.delete(*alice.ids, alice.remember("city", "Lisbon").pk)
    assert not bob.forgot("city", "Lisbon", said_at=said_at)


def test_an_older_one_is_offered_again_when_the_source_of_the_newer_goes(alice: Person) -> None:
    alice.remember("city", "Bonn")
    berlin = alice.remember("city", "Berlin")
    lisbon = alice.remember("city", "Lisbon")
    assert preferences.delete(*alice.ids, lisbon.pk, offer_older=True) == 1
    assert alice.statuses() == [("Bonn", "superseded"), ("Berlin", "proposed")]
    preferences.answer(*alice.ids, berlin.pk, keep=True)
    assert alice.recalled() == [("city", "Berlin")]


def test_what_a_replaced_one_had_replaced_is_not_offered_while_a_newer_one_holds(
    alice: Person,
) -> None:
    alice.remember("city", "Bonn")
    berlin = alice.remember("city", "Berlin")
    lisbon = alice.remember("city", "Lisbon")
    assert preferences.delete(*alice.ids, berlin.pk, offer_older=True) == 1
    assert alice.statuses() == [("Bonn", "superseded"), ("Lisbon", "active")]
    assert preferences.delete(*alice.ids, lisbon.pk, offer_older=True) == 1
    assert alice.statuses() == [("Bonn", "proposed")]


def test_an_older_one_that_expired_is_not_offered(alice: Person) -> None:
    old = alice.remember("city", "Berlin")
    row = alice.remember("city", "Lisbon")
    UserPreference.objects.filter(pk=old.pk).update(expires_at=timezone.now())
    preferences.delete(*alice.ids, row.pk, offer_older=True)
    assert alice.statuses() == [("Berlin", "superseded")]


# --- Nobody ever gets another's anything

LOOK_ALIKES = ["all", "A", "a", "café", unicodedata.normalize("NFD", "café"), "ａ", "а", "语言"]
names = st.sampled_from(LOOK_ALIKES)
deeds = st.lists(
    st.tuples(
        st.sampled_from(["remember", "propose", "keep", "refuse", "disable", "delete", "edit"]),
        st.integers(0, 3),  # who
        st.integers(0, 3),  # whose row they try
        names,
        names,
    ),
    max_size=25,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(deeds)
def test_whatever_is_done_nobody_gets_anothers_anything(
    db: None, done: list[tuple[str, int, int, str, str]]
) -> None:
    """Two people in each of two tenants, one of them the same person in both."""
    with transaction.atomic():
        one, two = Person(), Person()
        pairs = list(itertools.product((one.ids[0], two.ids[0]), (one.ids[1], two.ids[1])))
        for number, (deed, who, whose, scope, key) in enumerate(done):
            act(pairs[who], pairs[whose], deed, scope, key, f"{who}: {number} {key}")
            for index, pair in enumerate(pairs):
                assert_alone(pair, index)
        transaction.set_rollback(True)


def act(
    me: tuple[int, int], other: tuple[int, int], deed: str, scope: str, key: str, text: str
) -> None:
    if deed in ("remember", "propose"):
        status = "active" if deed == "remember" else "proposed"
        preferences.remember(*me, scope, key, text, origin="chat", status=status, replaces="all")
        return
    tenant, user = other
    theirs = UserPreference.objects.filter(tenant_id=tenant, user_id=user).order_by("-pk").first()
    if theirs is None:
        return
    acts: dict[str, Callable[[], object]] = {
        "keep": lambda: preferences.answer(*me, theirs.pk, keep=True),
        "refuse": lambda: preferences.answer(*me, theirs.pk, keep=False),
        "disable": lambda: preferences.disable(*me, theirs.pk),
        "delete": lambda: preferences.delete(*me, theirs.pk),
        "edit": lambda: preferences.edit(*me, theirs.pk, text),
    }
    if me == other:
        acts[deed]()
        return
    before = UserPreference.objects.filter(pk=theirs.pk).values().get()
    with pytest.raises(UserPreference.DoesNotExist):
        acts[deed]()
    assert UserPreference.objects.filter(pk=theirs.pk).values().get() == before


def assert_alone(pair: tuple[int, int], index: int) -> None:
    """All that a person gets is their own, and of the scope that was asked for."""
    tenant, user = pair
    for scope in LOOK_ALIKES:
        found = preferences.active_for(Owner(tenant, user, scope), "all A a café 语言")
        for each in found:
            assert each.text.startswith(f"{index}: ")
            assert each.scope in ("all", scope)
        keys = [each.key for each in found]
        assert len(set(keys)) == len(keys)
    assert all(row.text.startswith(f"{index}: ") for row in preferences.listed(tenant, user))
    active = UserPreference.objects.filter(tenant_id=tenant, user_id=user, status="active")
    rows = list(active.values_list("scope", "key_digest"))
    assert len(set(rows)) == len(rows)


# --- One active row a key, whatever writes


def test_the_database_refuses_a_second_active_row(alice: Person) -> None:
    row = alice.remember("Key", "x")
    with pytest.raises(IntegrityError), transaction.atomic():
        UserPreference.objects.create(tenant=alice.tenant, user=alice.user, key=" kEy", text="y")
    for status in ("disabled", "superseded", "proposed", "disabled"):
        UserPreference.objects.create(
            tenant=alice.tenant, user=alice.user, key="key", text="y", status=status
        )
    assert alice.recalled() == [("Key", "x")]
    with pytest.raises(IntegrityError), transaction.atomic():
        UserPreference.objects.filter(pk=row.pk).update(status="disabled")


def test_a_preference_outlives_the_session_that_it_came_from(alice: Person) -> None:
    chat_session = builders.chat_session(alice.user, tenant=alice.tenant)
    row = alice.remember("k", "x", source_session=chat_session.pk)
    chat_session.delete()
    row.refresh_from_db()
    assert row.source_session is None
    assert alice.recalled() == [("k", "x")]


@pytest.mark.django_db(transaction=True)
def test_writers_at_the_same_time_leave_one_active_row(alice: Person) -> None:
    barrier = threading.Barrier(4)
    errors: list[Exception] = []

    def write(name: str) -> None:
        try:
            barrier.wait()
            for n in range(5):
                alice.remember("k", f"{name}{n}")
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    rows = UserPreference.objects.filter(user=alice.user)
    assert rows.count() == 20
    assert rows.filter(status="active", is_current=True).count() == 1
    assert rows.filter(status="superseded", superseded_by__isnull=False).count() == 19


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_turn_does_not_wait_for_one_that_is_being_deleted(alice: Person) -> None:
    """Whoever deletes waits for records that the end of the turn has changed."""
    if not connection.features.has_select_for_update_skip_locked:
        pytest.skip("this database locks no rows")
    going, staying = alice.remember("city", "Berlin"), alice.remember("diet", "Vegan")
    deleted, over = threading.Event(), threading.Event()

    def delete() -> None:
        with transaction.atomic():
            preferences.delete(*alice.ids, going.pk)
            deleted.set()
            over.wait(10)
        connection.close()

    thread = threading.Thread(target=delete)
    thread.start()
    assert deleted.wait(10)
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL lock_timeout = '2s'")
        preferences.used([going.pk, staying.pk])
    over.set()
    thread.join()
    staying.refresh_from_db()
    assert staying.last_used_at is not None
    assert not UserPreference.objects.filter(pk=going.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_what_a_request_holds_is_deleted_only_when_it_is_written(alice: Person) -> None:
    row = alice.remember("city", "Berlin")
    if not connection.features.has_select_for_update:
        assert preferences.hold([row.pk, row.pk + 1]) == {row.pk}
        return
    deleted = threading.Event()

    def delete() -> None:
        preferences.delete(*alice.ids, row.pk)
        deleted.set()
        connection.close()

    thread = threading.Thread(target=delete)
    with transaction.atomic():
        assert preferences.hold([row.pk, row.pk + 1]) == {row.pk}
        thread.start()
        assert not deleted.wait(0.5)
    thread.join()
    assert preferences.hold([row.pk]) == set()
