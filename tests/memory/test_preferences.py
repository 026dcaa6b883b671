from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from memory import preferences
from memory.blocks import PreferenceText
from memory.models import UserPreference
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

    def recalled(self, scope: str = "guide") -> list[tuple[str, str]]:
        found = preferences.active_for(Owner(*self.ids, scope))
        return [(each.key, each.text) for each in found]

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


def test_only_the_newest_fifty_are_looked_at(alice: Person) -> None:
    for n in range(51):
        alice.remember(f"key {n}", "x")
    assert [key for key, _ in alice.recalled()] == [f"key {n}" for n in range(50, 0, -1)]


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


ACTS: dict[str, Callable[[int, int, int], object]] = {
    "edit": lambda tenant, user, row: preferences.edit(tenant, user, row, "hacked"),
    "disable": preferences.disable,
    "enable": preferences.enable,
    "delete": preferences.delete,
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


def test_the_list_holds_active_and_disabled_newest_first(alice: Person, bob: Person) -> None:
    chat_session = builders.chat_session(alice.user, tenant=alice.tenant)
    bob.remember("k", "bob's")
    alice.remember("k", "superseded")
    first = alice.remember("k", "first", source_session=chat_session.pk)
    second = alice.remember("l", "second")
    preferences.disable(*alice.ids, second.pk)
    assert [row.pk for row in preferences.listed(*alice.ids)] == [second.pk, first.pk]
    from_here = preferences.listed(*alice.ids, source_session=chat_session.pk)
    assert [row.pk for row in from_here] == [first.pk]
    assert not preferences.listed(*alice.ids, source_session=uuid.uuid4()).exists()


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
