"""What the benchmark of recall reads, and how much the index as it is shipped finds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from benchmarks.conversations import Conversation, Question, Said, dialogues, locomo
from chat.models import ChatMessage
from chat.search import messages
from chat.search.pieces import WordIndex
from tests import builders
from tests.databases import Databases, manage
from tests.environment import ROOT, process_environment

Find = Callable[[str], set[str]]
LIMIT = 10
COUNT_PEOPLE = "from django.contrib.auth.models import User; print(User.objects.count())"
SAMPLE: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bo",
        "session_2_date_time": "10:04 am on 9 June, 2023",
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "Hi!", "blip_caption": "a cat"}],
        "session_10_date_time": "1:56 pm on 8 Jul, 2023",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Bye."}],
        "session_11_date_time": "1:56 pm on 9 Jul, 2023",
    },
    "qa": [
        {"question": "What did Bo show?", "answer": "a cat", "evidence": ["D2:1"], "category": 4},
        {"question": "Both?", "evidence": ["D2:1; D10:1", "D2:1"], "category": 1},
        {"question": "No evidence?", "evidence": [], "category": 5, "adversarial_answer": "x"},
        {"question": "Evidence that is not there?", "evidence": ["D7:1"], "category": 2},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def conversation() -> Conversation:
    return dialogues()


def test_a_locomo_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    (read,) = locomo(path)
    assert read.sessions == (
        (Said("D2:1", "Bo", "Bo: Hi! a cat", datetime(2023, 6, 9, 10, 4, tzinfo=UTC)),),
        (Said("D10:1", "Ann", "Ann: Bye.", datetime(2023, 7, 8, 13, 56, tzinfo=UTC)),),
    )
    assert read.questions == (
        Question("What did Bo show?", ("D2:1",), "single-hop"),
        Question("Both?", ("D2:1", "D10:1"), "multi-hop"),
    )


def test_a_time_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    broken = {"conversation": {**SAMPLE["conversation"], "session_2_date_time": "once"}, "qa": []}
    path.write_text(json.dumps([broken]), encoding="utf-8")
    with pytest.raises(ValueError, match="'once' is not a time as in the LoCoMo set"):
        locomo(path)


def test_the_dialogues_are_whole(conversation: Conversation) -> None:
    ids = [each.id for each in conversation.messages]
    assert len(ids) == len(set(ids)) >= 400
    assert len(conversation.questions) >= 100
    assert {each.kind for each in conversation.questions} == {"en", "zh"}
    assert {id_ for each in conversation.questions for id_ in each.evidence} <= set(ids)
    assert all(
        each.role == ("user", "assistant")[number % 2]
        for session in conversation.sessions
        for number, each in enumerate(session)
    )


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor == "mysql", reason="MariaDB has no index of words")
def test_a_message_with_its_neighbours_is_found_more_often_than_by_itself(
    conversation: Conversation,
) -> None:
    own = WordIndex([each.text for each in conversation.messages])
    by_itself = share(
        conversation,
        lambda question: {
            conversation.messages[hit.piece].id for hit in own.search(question, LIMIT)
        },
    )
    assert share(conversation, shipped(conversation)) >= by_itself + 0.3


def test_the_benchmark_leaves_a_database_alone_that_is_in_use(databases: Databases) -> None:
    url = databases.seeded("sqlite")
    count = ("shell", "--no-imports", "--command", COUNT_PEOPLE)
    people = manage(url, *count)
    done = subprocess.run(
        [sys.executable, "benchmarks/recall.py"],
        cwd=ROOT,
        env=process_environment(DATABASE_URL=url, MESSAGES="0"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "The database is in use already" in done.stderr
    assert int(people) > 0
    assert manage(url, *count) == people


def shipped(conversation: Conversation) -> Find:
    person = builders.user()
    ids = {}
    for said in conversation.sessions:
        chat_session = builders.chat_session(person)
        for each in said:
            row = builders.message(chat_session, each.role, each.text)
            ids[row.pk] = each.id
            ChatMessage.objects.filter(pk=row.pk).update(created_at=each.at)
        messages.index_session(chat_session.pk)
    owner = {"tenant_id": chat_session.tenant_id, "user_id": person.pk}
    return lambda question: {
        ids[each.message_id] for each in messages.find(**owner, question=question, limit=LIMIT)
    }


def share(conversation: Conversation, find: Find) -> float:
    """Recall@10: the mean share of a question's evidence that is found."""
    shares = [
        len(find(each.text) & set(each.evidence)) / len(each.evidence)
        for each in conversation.questions
    ]
    return sum(shares) / len(shares)
