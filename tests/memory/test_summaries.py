"""Rows of summaries: which version is in use, and under what a new one may be stored."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pytest
from pytest_django import DjangoAssertNumQueries

from chat.models import ChatSession
from memory import summaries
from memory.models import ConversationSummary
from memory.summaries import Made
from memory.summary_items import Item
from tests import builders

pytestmark = pytest.mark.django_db


@dataclass
class Branch:
    """A branch that holds these messages."""

    ids: set[str]

    def holds(self, message_id: str) -> bool:
        return message_id in self.ids


def made(through: int, newest: int = 0, **fields: object) -> Made:
    values = Made(
        newest_version=newest,
        memory_epoch=0,
        text=f"Facts:\n- through {through}",
        items=(Item("facts", f"through {through}", through),),
        covers_from=1,
        covers_through=through,
        last_message=str(uuid.UUID(int=through)),
        turns=(),
        endpoint_name="e",
        model_name="m",
        tokens=5,
        encoding="o200k_base",
        source_tokens=50,
    )
    return replace(values, **fields)  # type: ignore[arg-type]


@pytest.fixture
def chat_session() -> ChatSession:
    return builders.chat_session()


EVERYTHING = Branch({str(uuid.UUID(int=number)) for number in range(100)})


def in_use(chat_session: ChatSession, branch: Branch = EVERYTHING, line: int = 0) -> int:
    found = summaries.usable(chat_session.pk, forget_line=line, reader=branch)
    return found.version if found is not None else 0


def test_the_newest_version_on_the_branch_after_the_line_is_in_use(
    chat_session: ChatSession,
) -> None:
    for number, through in enumerate((4, 8, 12)):
        assert summaries.save(chat_session.pk, made(through, number), EVERYTHING)
    assert summaries.newest_version(chat_session.pk) == 3
    assert in_use(chat_session) == 3
    assert in_use(chat_session, Branch({str(uuid.UUID(int=8)), str(uuid.UUID(int=4))})) == 2
    assert in_use(chat_session, Branch(set())) == 0
    assert in_use(chat_session, line=1) == 0
    found = summaries.usable_version(chat_session.pk, forget_line=0, reader=EVERYTHING)
    assert found is not None
    assert found.items == (Item("facts", "through 12", 12),)
    assert (found.tokens, found.source_tokens) == (5, 50)


def test_a_version_is_stored_only_while_all_that_it_was_made_from_stands(
    chat_session: ChatSession,
) -> None:
    off_branch = Branch(set())
    assert summaries.save(chat_session.pk, made(4), off_branch) is None
    assert summaries.save(chat_session.pk, made(4, memory_epoch=1), EVERYTHING) is None
    assert summaries.save(chat_session.pk, made(4, newest=1), EVERYTHING) is None
    assert summaries.save(uuid.uuid4(), made(4), EVERYTHING) is None
    assert not ConversationSummary.objects.exists()
    assert summaries.save(chat_session.pk, made(4), EVERYTHING)
    assert summaries.save(chat_session.pk, made(8), EVERYTHING) is None  # somebody was faster


def test_versions_that_hold_words_of_a_message_are_dropped_with_it(
    chat_session: ChatSession, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number, through in enumerate((4, 8, 12)):
        summaries.save(chat_session.pk, made(through, number), EVERYTHING)
    assert summaries.drop_covering(chat_session.pk, [0, 20]) == 0
    with django_assert_num_queries(2):
        assert summaries.drop_covering(chat_session.pk, [6, 0, 20]) == 2
    assert in_use(chat_session) == 1
    assert summaries.drop(chat_session.pk) == 1
    assert in_use(chat_session) == 0
