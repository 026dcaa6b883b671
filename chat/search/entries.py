"""What the index holds of one message: its words, in the columns that they are found by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from django.utils import timezone

from memory.words import STOP_WORDS, tokens

TEXTS = ("own", "previous", "next")
COLUMNS = (*TEXTS, "day")
"""A message is found by its text, by what stands before and after it, and by its date."""

Lengths = tuple[int, int, int]
"""How many words an entry has in each of TEXTS."""

MOST_BYTES = 500_000  # of the own words of a message; PostgreSQL holds 1 MB an entry
MOST_BESIDE = 300  # words of what stands before or after it
WORD_COST = 8  # bytes that a word takes beside its letters

WEEKDAYS = (
    ("monday", "一"), ("tuesday", "二"), ("wednesday", "三"), ("thursday", "四"),
    ("friday", "五"), ("saturday", "六"), ("sunday", "日"),
)  # fmt: skip


@dataclass(frozen=True)
class Words:
    """The words of one entry, each once a column; `owner` holds what names its holder."""

    own: tuple[str, ...]
    previous: tuple[str, ...]
    next: tuple[str, ...]
    day: tuple[str, ...]
    owner: tuple[str, ...]

    @property
    def lengths(self) -> Lengths:
        return len(self.own), len(self.previous), len(self.next)


def words_of(text: str) -> list[str]:
    """The words of a text, each once, in their order."""
    return [word for word in dict.fromkeys(tokens(text)) if word not in STOP_WORDS]


def own_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a message, as far as an index takes them."""
    room = MOST_BYTES
    kept = []
    for word in words:
        room -= len(word.encode()) + WORD_COST
        if room < 0:
            break
        kept.append(word)
    return tuple(kept)


def beside_words(texts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The first words of what stands before or after a message."""
    return tuple(dict.fromkeys(chain.from_iterable(texts)))[:MOST_BESIDE]


def day_words(at: datetime) -> tuple[str, ...]:
    """How people name the day: in English, as numbers, and the day of the week in Chinese."""
    day = timezone.localtime(at, timezone.get_default_timezone())
    weekday, number = WEEKDAYS[day.weekday()]
    spelt = f"{day:%Y} {day:%B} {day.day} {day.month} {day:%m} {day:%d} {weekday}"
    pairs = [f"周{number}", f"期{number}"] + (["周天", "期天"] if number == "日" else [])
    return (*dict.fromkeys(tokens(spelt)), *pairs)


def owner_words(tenant_id: int, user_id: int) -> tuple[str, ...]:
    """What names the holder: no text has such a word, for words hold no "_"."""
    return (tenant_word(tenant_id), user_word(tenant_id, user_id))


def tenant_word(tenant_id: int) -> str:
    return f"_{tenant_id}"


def user_word(tenant_id: int, user_id: int) -> str:
    return f"_{tenant_id}_{user_id}"
