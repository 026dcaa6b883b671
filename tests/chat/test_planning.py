"""What SQLite's planner knows after a start."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from chat import planning
from chat.admin.contexts import ContextRecordAdmin
from chat.models import ChatMessage, ContextRecord
from tests import builders

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="others gather it by themselves"),
]


def plan_of(rows: QuerySet[Any]) -> str:
    """How the first rows are looked for, in the first line of SQLite's plan."""
    planning.analyse()
    try:
        return rows.values("pk")[:10].explain().splitlines()[0]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sqlite_stat1")


def test_the_list_of_messages_walks_the_sessions_from_the_newest_on() -> None:
    for _ in range(30):
        builders.exchanges(builders.chat_session(), 2)
    listed = ChatMessage.objects.order_by("-chat_session__last_active_at", "-chat_session", "seq")
    assert plan_of(listed).endswith("USING COVERING INDEX chat_session_recent")


def test_requests_of_one_tenant_walk_its_sessions_from_the_newest_on() -> None:
    tenants = [builders.tenant(), builders.tenant()]
    for number in range(40):
        chat_session = builders.chat_session(tenant=tenants[number % 2])
        for turn in builders.exchanges(chat_session, 2):
            builders.record(turn)
    listed = ContextRecord.objects.filter(chat_session__tenant__in=[tenants[0].pk]).order_by(
        *ContextRecordAdmin.ordering
    )
    assert "USING COVERING INDEX chat_session_of_tenant" in plan_of(listed)
