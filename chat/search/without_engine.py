"""Search where the database has no index of words, as on MariaDB: the newest messages are read."""

from __future__ import annotations

from itertools import takewhile

from django.db import connection

from chat.search.scopes import Scope
from memory.words import question_words, stem

MOST_MESSAGES = 5_000  # that are looked through, the newest ones
MOST_WORDS = 10  # of a question
NOTICE = (
    f"This database has no index of words: only the newest {MOST_MESSAGES:,} messages are searched,"
    " for those that hold every word of the question."
)


def newest_with(scope: Scope, question: str, limit: int) -> dict[int, float]:
    """The newest entries whose message holds every word of `question`, each with a score of 1."""
    condition, values = scope.condition()
    words = [_written_part(word) for word in question_words(question)[:MOST_WORDS]]
    oldest = scope.entries().order_by("-pk").values_list("pk", flat=True)[MOST_MESSAGES - 1 :]
    holds = " AND ".join(["LOWER(t.content) LIKE %s"] * len(words))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.id FROM chat_searchentry e JOIN chat_chatmessage t ON t.id = e.message_id"
            f" WHERE {condition} AND e.id >= %s AND {holds} ORDER BY e.id DESC LIMIT %s",
            [*values, oldest.first() or 0, *(f"%{word}%" for word in words), limit],
        )
        return {entry: 1.0 for (entry,) in cursor.fetchall()}


def _written_part(word: str) -> str:
    """What an English word has in common with its other forms; no word holds "%" or "_"."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(word, stem(word), strict=False))
    return "".join(letter for letter, _ in alike)
