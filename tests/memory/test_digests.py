"""Digests: what they are made from, who may write them, and what deletion leaves."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from memory import digests
from memory.models import ConversationSummary, UserDigest
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def person() -> Any:
    return builders.user("alice")


def owner(person: Any) -> tuple[int, int]:
    return builders.tenant("default").pk, person.pk


def summary(person: Any, text: str = "Facts:\n- x", **fields: Any) -> ConversationSummary:
    chat_session = fields.pop("chat_session", None) or builders.chat_session(person)
    version = ConversationSummary.objects.filter(chat_session=chat_session).count() + 1
    return ConversationSummary.objects.create(
        chat_session=chat_session,
        version=version,
        text=text,
        items=[],
        covers_from=1,
        covers_through=2,
        last_message=uuid.uuid4(),
        memory_epoch=0,
        token_count=5,
        token_encoding="o200k_base",
        source_tokens=50,
        **fields,
    )


def made(person: Any, text: str = "Alice plans a trip.") -> bool:
    plan = digests.plan(*owner(person))
    return plan is not None and digests.save(*owner(person), plan, text)


def text_of(person: Any) -> str:
    found = digests.of(*owner(person))
    return found.text if found is not None else ""


def test_it_is_made_from_the_newest_version_of_each_session_newest_first(person: Any) -> None:
    first = summary(person, "one")
    summary(person, "two")
    summary(person, "three", chat_session=first.chat_session)
    plan = digests.plan(*owner(person))
    assert plan is not None
    assert [each.text for each in plan.sources] == ["three", "two"]
    assert made(person)
    found = digests.of(*owner(person))
    assert found is not None
    assert found.text == "Alice plans a trip."
    assert found.sources == tuple(str(each.session_id) for each in plan.sources)


def test_only_so_many_sessions_of_this_person_in_this_tenant_count(person: Any) -> None:
    summary(builders.user())
    summary(person, chat_session=builders.chat_session(person, tenant=builders.tenant()))
    summary(person, chat_session=builders.chat_session(person, is_temporary=True))
    summary(person, chat_session=builders.chat_session(person, memory_enabled=False))
    without = builders.assistant(memory_enabled=False)
    summary(person, chat_session=builders.chat_session(person, assistant=without))
    assert digests.plan(*owner(person)) is None
    for number in range(digests.SOURCES + 3):
        summary(person, str(number))
    plan = digests.plan(*owner(person))
    assert plan is not None
    assert [each.text for each in plan.sources] == [str(n) for n in range(12, 2, -1)]


def test_a_session_that_remembers_although_its_assistant_does_not_counts(person: Any) -> None:
    without = builders.assistant(memory_enabled=False)
    summary(
        person, chat_session=builders.chat_session(person, assistant=without, memory_enabled=True)
    )
    assert digests.plan(*owner(person)) is not None


def test_nothing_is_due_until_there_is_a_newer_summary(person: Any) -> None:
    first = summary(person)
    assert made(person)
    assert digests.plan(*owner(person)) is None
    summary(person, "newer", chat_session=first.chat_session)
    assert digests.plan(*owner(person)) is not None


def test_what_a_person_wrote_is_never_overwritten(person: Any) -> None:
    summary(person)
    plan = digests.plan(*owner(person))
    assert plan is not None
    digests.edit(*owner(person), " I am a nurse. ")
    assert not digests.save(*owner(person), plan, "She is a pilot.")
    assert digests.plan(*owner(person)) is None
    assert text_of(person) == "I am a nurse."
    assert UserDigest.objects.get().origin == "user"
    digests.edit(*owner(person), "A nurse.", origin="admin")
    assert UserDigest.objects.get().origin == "admin"
    assert digests.plan(*owner(person)) is None


def test_an_edit_between_reading_and_writing_wins_also_over_an_existing_row(person: Any) -> None:
    first = summary(person)
    assert made(person)
    summary(person, "newer", chat_session=first.chat_session)
    plan = digests.plan(*owner(person))
    assert plan is not None
    digests.edit(*owner(person), "Mine")
    assert not digests.save(*owner(person), plan, "The model's")
    assert text_of(person) == "Mine"


def test_after_deletion_only_newer_summaries_count(person: Any) -> None:
    summary(person, "old")
    assert made(person)
    assert digests.delete(*owner(person))
    assert text_of(person) == ""
    row = UserDigest.objects.get()
    assert (row.text, row.sources, row.origin) == ("", [], "model")
    assert row.made_after is not None
    assert digests.plan(*owner(person)) is None
    summary(person, "new")
    plan = digests.plan(*owner(person))
    assert plan is not None
    assert [each.text for each in plan.sources] == ["new"]
    assert not digests.delete(*owner(person))


def test_a_deletion_between_reading_and_writing_wins(person: Any) -> None:
    first = summary(person)
    assert made(person)
    summary(person, "newer", chat_session=first.chat_session)
    plan = digests.plan(*owner(person))
    assert plan is not None
    digests.delete(*owner(person))
    assert not digests.save(*owner(person), plan, "Back again")
    assert text_of(person) == ""


def test_one_that_is_switched_off_is_neither_used_nor_made(person: Any) -> None:
    assert digests.set_enabled(*owner(person), False) is None
    first = summary(person)
    assert made(person)
    digests.set_enabled(*owner(person), False)
    summary(person, chat_session=first.chat_session)
    assert text_of(person) == ""
    assert digests.plan(*owner(person)) is None
    digests.set_enabled(*owner(person), True)
    assert text_of(person) == "Alice plans a trip."


def test_a_summary_that_is_gone_takes_what_was_made_of_it_along(person: Any) -> None:
    gone = summary(person)
    plan = digests.plan(*owner(person))
    assert plan is not None
    gone.delete()
    assert not digests.save(*owner(person), plan, "Words of what is gone")
    assert not UserDigest.objects.exists()


def test_a_source_that_is_forgotten_empties_what_was_made_of_it(person: Any) -> None:
    first, second = summary(person, "one"), summary(person, "two")
    assert made(person)
    assert not digests.forget_source(*owner(person), uuid.uuid4())
    first.chat_session.summaries.all().delete()
    assert digests.forget_source(*owner(person), first.chat_session_id)
    assert text_of(person) == ""
    plan = digests.plan(*owner(person))
    assert plan is not None
    assert [each.session_id for each in plan.sources] == [second.chat_session_id]
    digests.edit(*owner(person), "Mine")
    assert not digests.forget_source(*owner(person), second.chat_session_id)


@pytest.mark.parametrize("text", ["", " \n", "\x00", "x" * 2_001])
def test_what_cannot_be_stored_is_refused_with_the_reason(person: Any, text: str) -> None:
    with pytest.raises(digests.InvalidDigest):
        digests.edit(*owner(person), text)
    assert not UserDigest.objects.exists()


def test_any_text_is_kept_as_it_can_be(person: Any) -> None:
    assert digests.edit(*owner(person), "我是护士 😄\ud800 עברית").text == "我是护士 😄\ufffd עברית"
