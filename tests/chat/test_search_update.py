"""What an update from an earlier version leaves of the index."""

from __future__ import annotations

import json

import pytest

from tests.databases import Databases, manage

ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]

BACK_AND_THERE = """
import json
from django.core.management import call_command
from django.db import connection
from chat.models import SearchEntry
from chat.search import messages
from tests import builders

chat_session = builders.chat_session()
texts = ("Is it so?", "去北京吗？", "Tell me all about quokkas, please.", "去。")
for number, text in enumerate(texts):
    builders.message(chat_session, ("user", "assistant")[number % 2], text)
messages.index_session(chat_session.pk)
owner = {"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id}

def found():
    questions = ("quokkas", "北京", "京 quokka")
    return [[(f.seq, f.score) for f in messages.find(question=q, **owner)] for q in questions]

def left():
    table = {"sqlite": "chat_search_words", "postgresql": "chat_searchentry"}[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {table}")
        return cursor.fetchone()[0]

before = found()
call_command("migrate", "chat", "0015", verbosity=0)
call_command("migrate", verbosity=0)
after = found()
SearchEntry.objects.all().delete()
print("FOUND", json.dumps([before, after, left()]))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_indexed_without_lengths_is_found_with_the_same_figures(
    engine: str, databases: Databases
) -> None:
    url = databases.empty(engine)
    manage(url, "migrate", "--verbosity", "0")
    output = manage(url, "shell", "--no-imports", "--command", BACK_AND_THERE)
    before, after, left = json.loads(output.split("FOUND", 1)[1])
    assert [seq for seq, _ in before[0]] == [3, 4, 2]
    assert all(before)
    assert after == before
    assert left == 0
