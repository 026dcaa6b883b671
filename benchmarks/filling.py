"""A table of very many indexed messages, written as fast as the database takes them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.db import connection, transaction
from django.db.models import Max

from chat.models import ChatSession, SearchEntry
from chat.search import entries
from chat.search.postgres import literal_of
from chat.search.sqlite import WRITE, row_of
from tests import builders

AT = datetime(2025, 1, 1, 12, tzinfo=UTC)
DAY = entries.day_words(AT)
POOL = 20_000  # different texts
MESSAGE = (
    "id", "chat_session_id", "seq", "is_on_path", "role", "content", "parts", "tool_calls",
    "tool_call_id", "name", "is_partial", "is_error", "token_encoding", "created_at",
)  # fmt: skip
ENTRY = ("id", "message_id", "chat_session_id", "tenant_id", "user_id", "seq")


class Vocabulary:
    """Words as often as in a language, by Zipf's law; half of the messages are Chinese."""

    def __init__(self) -> None:
        self.chance = random.Random(7)
        self.words = [f"word{number}" for number in range(60_000)]
        self.signs = [chr(0x4E00 + number) for number in range(3_000)]
        self._english = self._running_text(self.words)
        self._chinese = self._running_text(self.signs)

    def _running_text(self, words: Sequence[str]) -> list[str]:
        weights = [1 / (rank + 3) for rank in range(len(words))]
        return self.chance.choices(words, weights, k=1_000_000)

    def text(self) -> str:
        if self.chance.random() < 0.5:
            return " ".join(self._piece(self._english))
        return "".join(self._piece(self._chinese))

    def _piece(self, text: Sequence[str]) -> Sequence[str]:
        start = self.chance.randrange(len(text) - 60)
        return text[start : start + self.chance.randint(5, 60)]

    def questions(self) -> dict[str, Callable[[], str]]:
        """Kinds of questions, each with what makes one."""
        pick = self.chance.sample
        return {
            "3 rare words": lambda: " ".join(pick(self.words[20_000:], 3)),
            "5 usual words": lambda: " ".join(pick(self.words[100:5_000], 5)),
            "3 commonest words": lambda: " ".join(pick(self.words[:10], 3)),
            "4 Chinese signs": lambda: "".join(pick(self.signs[:100], 4)),
            "20 words": lambda: " ".join(pick(self.words[:5_000], 20)),
        }


class Scattered:
    """An embedder without meaning: to each text a direction of its own, the same every time."""

    name = "scattered"
    size = 512

    def embed(self, texts: list[str]) -> list[list[float]]:
        chances = [random.Random(text) for text in texts]
        return [[chance.random() - 0.5 for _ in range(self.size)] for chance in chances]


def fill(count: int, people: int, vocabulary: Vocabulary) -> list[ChatSession]:
    """`count` indexed messages in `people` sessions, one a person."""
    texts = [(text, entries.words_of(text)) for text in (vocabulary.text() for _ in range(POOL))]
    held = sessions(people)
    first = (SearchEntry.objects.aggregate(last=Max("pk"))["last"] or 0) + 1
    each = count // people
    for number, chat_session in enumerate(held):
        said = vocabulary.chance.choices(texts, k=each)
        with transaction.atomic():
            write(chat_session, said, first + number * each)
    if connection.vendor == "postgresql":
        execute(
            "SELECT setval(pg_get_serial_sequence('chat_searchentry', 'id'), %s)", [first + count]
        )
        execute("VACUUM ANALYZE")
    return held


def sessions(people: int) -> list[ChatSession]:
    password, assistant = make_password(None), builders.assistant()
    users = get_user_model().objects.bulk_create(
        get_user_model()(username=f"person-{number}", password=password) for number in range(people)
    )
    return [builders.chat_session(user, assistant=assistant) for user in users]


def write(
    chat_session: ChatSession, said: Sequence[tuple[str, list[str]]], first_entry: int
) -> None:
    """The messages of one session with their entries and words."""
    ids = [uuid.uuid4() for _ in said]
    owner = chat_session.tenant_id, chat_session.user_id
    message_rows = [
        (id_, chat_session.pk, seq, True, "user" if seq % 2 else "assistant", text, "[]", "[]",
         "", "", False, False, "", AT)
        for seq, (id_, (text, _)) in enumerate(zip(ids, said, strict=True), 1)
    ]  # fmt: skip
    entry_rows = [
        (first_entry + number, id_, chat_session.pk, *owner, number + 1)
        for number, id_ in enumerate(ids)
    ]
    words = list(words_of_each([each for _, each in said], entries.owner_words(*owner)))
    if connection.vendor == "sqlite":
        insert("chat_chatmessage", MESSAGE, message_rows)
        insert("chat_searchentry", ENTRY, entry_rows)
        with connection.cursor() as cursor:
            cursor.executemany(WRITE, [row_of(*each) for each in enumerate(words, first_entry)])
        return
    copy("chat_chatmessage", MESSAGE, message_rows)
    with_words = [(*row, literal_of(each)) for row, each in zip(entry_rows, words, strict=True)]
    copy("chat_searchentry", (*ENTRY, "words"), with_words)


def words_of_each(said: Sequence[Sequence[str]], owner: tuple[str, ...]) -> Iterator[entries.Words]:
    for number, own in enumerate(said):
        before, after = said[number - 1 : number], said[number + 1 : number + 2]
        yield entries.Words(
            entries.own_words(own),
            entries.beside_words(before),
            entries.beside_words(after),
            DAY,
            owner,
        )


def insert(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    places = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})",
            [
                [value.hex if isinstance(value, uuid.UUID) else value for value in row]
                for row in rows
            ],
        )


def copy(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as lines,
    ):
        for row in rows:
            lines.write_row(row)


def execute(statement: str, values: Sequence[Any] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
