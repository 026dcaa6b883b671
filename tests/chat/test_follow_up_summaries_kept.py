"""Rolling summaries: saved under what was read, sent in place of what they cover, made once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.db.models.functions import Now

from chat import dues, llm, retention
from chat.follow_ups import summarising
from chat.follow_ups.branch import Branch
from chat.models import Assistant, ChatMessage, ChatSession
from chat.turns import branches
from memory import digests, summaries
from tests import builders
from tests.chat.minutes import FILLER, body_seq, long_session, minutes, summarise, talk, versions
from tests.fakes import FakeEndpoint
from tests.follow_ups import (
    Meanwhile,
    again,
    asked_last,
    due_rows,
    follow,
    saying,
    waiting,
    work_off,
)
from tests.orders import say, sent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_clients() -> AsyncIterator[None]:
    yield
    await llm.aclose()


@pytest.fixture(autouse=True)
def _summaries_are_on(settings: LazySettings) -> None:
    settings.CHAT_MEMORY_SUMMARIZE_ENABLED = True
    settings.CHAT_DIGEST_ENABLED = False


@pytest.fixture
def chat_session(fake_endpoint: FakeEndpoint) -> ChatSession:
    return long_session(fake_endpoint)


# --- The truth late -------------------------------------------------------------------------------


async def clear(chat_session: ChatSession) -> None:
    await sync_to_async(retention.clear_memory)(chat_session.pk)


async def remove(chat_session: ChatSession) -> None:
    await sync_to_async(retention.forget_session)(chat_session.pk)


async def switch_off(chat_session: ChatSession) -> None:
    await ChatSession.objects.filter(pk=chat_session.pk).aupdate(memory_enabled=False)


async def stop_summarising(chat_session: ChatSession) -> None:
    await Assistant.objects.aupdate(summarize=False)


async def leave_branch(chat_session: ChatSession) -> None:
    """As an edit of the second question: what it covers leaves the branch, under the same epoch."""
    await ChatMessage.objects.filter(seq__gte=3).aupdate(is_on_path=False)


async def choose_branch(chat_session: ChatSession) -> None:
    first = await ChatMessage.objects.aget(seq=1)
    await sync_to_async(branches.select)(chat_session.pk, first.pk)


@pytest.mark.parametrize(
    "happening", [clear, remove, switch_off, stop_summarising, leave_branch, choose_branch]
)
async def test_a_summary_that_comes_after_its_reason_has_gone_is_not_saved(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint, happening: Any
) -> None:
    meanwhile = Meanwhile(fake_endpoint, saying(minutes(1)))
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await meanwhile.do(lambda: happening(chat_session))
    assert await sync_to_async(versions)() == []


async def test_a_summary_that_staff_delete_while_the_next_is_made_does_not_come_back(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, text="Secret {}")))
    await sync_to_async(talk)(chat_session, 5, 6)
    meanwhile = Meanwhile(fake_endpoint, saying(minutes(5)))
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await meanwhile.do(lambda: sync_to_async(summarising.delete)(chat_session.pk))
    assert await sync_to_async(versions)() == []
    fake_endpoint.replies(saying(minutes(3)))
    await again()
    assert await sync_to_async(versions)() == [(1, 1, 8, "Facts:\n- Fact 3")]


async def test_temporary_sessions_and_sessions_without_memory_are_never_summarised(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    for change in ({"is_temporary": True}, {"is_temporary": False, "memory_enabled": False}):
        await ChatSession.objects.aupdate(**change)
        await follow(chat_session, "summary")
    assert fake_endpoint.requests == []


# --- Used -----------------------------------------------------------------------------------------


async def test_the_next_request_holds_the_summary_for_what_it_covers_and_the_rest_word_for_word(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    await say(chat_session, "And now?")
    contents = sent(fake_endpoint)
    assert contents[0] == builders.PROMPT
    assert "Summary of messages 1 to 4" in contents[1]
    assert "- Fact 1" in contents[1]
    assert contents[1].endswith(f"Question 3 {FILLER}")
    assert contents[2:] == [
        f"Answer 3 {FILLER}",
        f"Question 4 {FILLER}",
        f"Answer 4 {FILLER}",
        "And now?",
    ]
    assert await ChatMessage.objects.acount() == 10  # nothing was deleted


async def test_another_branch_uses_the_version_that_is_on_it(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    await sync_to_async(talk)(chat_session, 5, 6)
    await summarise(chat_session, fake_endpoint, saying(minutes(5)))
    branch = Branch(chat_session.pk, after=0)

    def in_use() -> int:
        found = summaries.usable(chat_session.pk, forget_line=0, reader=branch)
        return found.version if found is not None else 0

    assert await sync_to_async(in_use)() == 2
    await ChatMessage.objects.filter(seq__gte=7).aupdate(is_on_path=False)
    assert await sync_to_async(in_use)() == 1
    await ChatMessage.objects.filter(seq__gte=3).aupdate(is_on_path=False)
    assert await sync_to_async(in_use)() == 0


async def test_deleting_brings_the_history_back_word_for_word(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1)))
    assert await sync_to_async(summarising.delete)(chat_session.pk) == 1
    await say(chat_session, "And now?")
    contents = sent(fake_endpoint)
    assert "Summary" not in str(contents)
    assert contents[1] == f"Question 1 {FILLER}"
    assert len(contents) == 10


async def test_deleting_takes_the_digest_that_was_made_of_it_along(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, text="Wrong {}")))
    owner = chat_session.tenant_id, chat_session.user_id

    def digested() -> bool:
        plan = digests.plan(*owner)
        return plan is not None and digests.save(*owner, plan, "Something wrong.")

    assert await sync_to_async(digested)()
    await sync_to_async(summarising.delete)(chat_session.pk)
    assert await sync_to_async(digests.of)(*owner) is None
    assert "digest" in [kind for kind, *_ in await sync_to_async(due_rows)()]


async def test_regenerating_makes_the_same_coverage_anew_from_the_history_alone(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    await summarise(chat_session, fake_endpoint, saying(minutes(1, text="Wrong {}")))
    await sync_to_async(summarising.regenerate)(chat_session.pk)
    fake_endpoint.replies(saying(minutes(3, text="Right {}")))
    await work_off()
    assert asked_last(fake_endpoint)["previous"] == []
    assert await sync_to_async(versions)() == [
        (1, 1, 4, "Facts:\n- Wrong 1"),
        (2, 1, 4, "Facts:\n- Right 3"),
    ]
    assert await sync_to_async(due_rows)() == []


# --- Workers --------------------------------------------------------------------------------------


async def test_two_workers_at_once_make_one_summary(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    fake_endpoint.default = lambda body: saying(minutes(body_seq(body)), delay=0.05)
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)
    await asyncio.gather(work_off(), work_off(), work_off())
    assert len(await sync_to_async(versions)()) == 1
    assert len(fake_endpoint.requests) == 1


async def test_a_claim_that_expired_is_taken_over_and_the_late_worker_saves_nothing(
    chat_session: ChatSession, fake_endpoint: FakeEndpoint
) -> None:
    meanwhile = Meanwhile(fake_endpoint, saying(minutes(1, text="Late {}")))
    await sync_to_async(dues.mark_session)("summary", chat_session.pk)

    async def another_worker() -> None:
        await waiting().aupdate(claimed_until=Now())
        fake_endpoint.replies(saying(minutes(1, text="In time {}")))
        assert (await work_off())["failed"] == 0

    await meanwhile.do(another_worker)
    assert [row[3] for row in await sync_to_async(versions)()] == ["Facts:\n- In time 1"]
    assert await sync_to_async(due_rows)() == []
