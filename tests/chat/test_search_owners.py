"""Nobody finds what another person or tenant stored, however alike they look."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chat.models import ChatMessage, ChatSession, SearchEntry, Tenant
from chat.search import messages
from memory.models import UserPreference
from tests import builders
from tests.chat.api import Api

pytestmark = pytest.mark.django_db

# Ids that look alike when they are put side by side: tenant 1 and user 111, tenant 11 and user 11.
TENANTS = (9_001, 90_011)
USERS = (9_111, 91_111, 9_001, 90_011)
WORDS = st.sampled_from(
    [
        "plan", "PLAN", "ｐｌａｎ", "计划", "划", "_9001", "_9001_9111", "_90011_9001", "9001",
        "9111", "90019111", "owner", "own : plan",
        "x' OR '1'='1", 'a" OR owner : "_90011', "} UNION {",
        "_%", "*", "NEAR", "İ", "é", "e\u0301", "\x00", "😄",
    ]
)  # fmt: skip
TEXTS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


def people() -> list[ChatSession]:
    """A session of each of USERS in each of TENANTS."""
    tenants = [Tenant.objects.create(pk=pk, slug=f"t{pk}", name="T") for pk in TENANTS]
    users = [get_user_model().objects.create(pk=pk, username=f"u{pk}") for pk in USERS]
    assistant = builders.assistant()
    return [
        builders.chat_session(user, tenant=tenant, assistant=assistant)
        for tenant in tenants
        for user in users
    ]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(texts=st.lists(TEXTS, min_size=8, max_size=8), question=TEXTS)
@example(texts=["plan _9001_9111"] * 8, question="plan _9001_9111 _90011_9001")
def test_only_ones_own_messages_are_found(texts: list[str], question: str) -> None:
    with transaction.atomic():
        held = people()
        for chat_session, text in zip(held, texts, strict=True):
            builders.message(chat_session, "user", text.replace("\x00", ""))
            messages.index_session(chat_session.pk)
        for chat_session in held:
            owner: dict[str, Any] = {
                "tenant_id": chat_session.tenant_id,
                "user_id": chat_session.user_id,
            }
            for for_model in (False, True):
                found = messages.find(**owner, question=question, for_model=for_model)
                assert {each.session_id for each in found} <= {chat_session.pk}
            others = [each.pk for each in held if each.pk != chat_session.pk]
            assert messages.find(**owner, question=question, session_id=others[0]) == []
        transaction.set_rollback(True)


def test_an_entry_that_names_the_wrong_holder_shows_nothing_to_them() -> None:
    mine, other = builders.chat_session(), builders.chat_session()
    builders.message(other, "user", "a plan")
    messages.index_session(other.pk)
    SearchEntry.objects.update(user=mine.user)
    found = messages.find(tenant_id=mine.tenant_id, user_id=mine.user_id, question="plan")
    assert found == []


def test_what_others_wrote_does_not_change_a_ranking() -> None:
    mine, other = builders.chat_session(), builders.chat_session()
    for text in ("zebra walk", "order walk", "order walk", "order walk"):
        builders.message(mine, "user", text)
    messages.index_session(mine.pk)
    owner: dict[str, Any] = {"tenant_id": mine.tenant_id, "user_id": mine.user_id}
    before = messages.find(**owner, question="order zebra walk")
    for _ in range(30):
        builders.message(other, "user", "zebra zebra")
    messages.index_session(other.pk)
    assert messages.find(**owner, question="order zebra walk") == before


def test_one_persons_removal_leaves_a_bystanders_messages_found() -> None:
    mine, other = builders.chat_session(), builders.chat_session()
    for each in (mine, other):
        builders.message(each, "user", "a plan")
        messages.index_session(each.pk)
    messages.remove_session(mine.pk)
    found = messages.find(tenant_id=other.tenant_id, user_id=other.user_id, question="plan")
    assert [each.session_id for each in found] == [other.pk]
    assert ChatMessage.objects.filter(chat_session=mine).exists()
    assert not UserPreference.objects.exists()


def test_over_rest_a_foreign_session_and_an_unknown_one_answer_alike() -> None:
    mine, other = builders.chat_session(), builders.chat_session()
    builders.message(other, "user", "a plan")
    messages.index_session(other.pk)
    api = Api(mine.user)
    foreign = api.get("/search/", q="plan", session=str(other.pk))
    unknown = api.get("/search/", q="plan", session="0b0e4d2e-6a53-4f0c-9a55-0d6f7a3c1e42")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json() == unknown.json()
    assert api.get("/search/", q="plan").json()["results"] == []
