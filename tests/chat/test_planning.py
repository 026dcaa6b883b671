"""What SQLite's planner knows after a start."""

from __future__ import annotations

import pytest
from django.db import connection

from chat import planning
from chat.models import ChatMessage
from tests import builders

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="others gather it by themselves"),
]


def test_the_list_of_messages_walks_the_sessions_from_the_newest_on() -> None:
    for _ in range(30):
        builders.exchanges(builders.chat_session(), 2)
    listed = ChatMessage.objects.order_by("-chat_session__last_active_at", "-chat_session", "seq")
    planning.analyse()
    try:
        plan = listed.values("pk")[:10].explain()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sqlite_stat1")
    assert plan.splitlines()[0].endswith("USING COVERING INDEX chat_session_recent")
