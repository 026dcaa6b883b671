"""Where a pasted text was said: in the session, in the request of a turn, or in another session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chat import records
from chat.models import ChatMessage, ChatSession
from chat.search import messages
from chat.search.messages import Found
from memory.text import clean
from memory.words import question_tokens, tokens

LONGEST = 2_000  # characters of a pasted text that are looked for
FEW, MANY = 5, 20
EXACT, BY_WORDS, IN_PART = "exact", "words", "part"
RUN = 4  # words in a row that are no chance
HALF = 0.5  # of the words: a place that has fewer is about something else


@dataclass(frozen=True)
class Place:
    """A message of the session that holds the text, most of its words, or a part of it."""

    message: ChatMessage
    how: str


@dataclass(frozen=True)
class InRequest:
    """A message of the request whose text holds the pasted one."""

    number: int
    role: str
    kind: str
    seq: int | None
    holds: str
    """What of it does: "summary", "digest", "preferences", "passages", or "" for its own words."""


def asked(text: str) -> str:
    """A pasted text as it is looked for."""
    return clean(text).strip()[:LONGEST]


def in_session(chat_session: ChatSession, text: str) -> list[Place]:
    """Messages that hold `text` as it stands, the newest first; else those with its words, and
    those with the rest of it, when it goes over several messages."""
    if not text:
        return []
    rows = ChatMessage.objects.filter(chat_session=chat_session)
    exact = rows.filter(content__icontains=text).order_by("-is_on_path", "-seq")
    if found := list(exact[:FEW]):
        return [Place(each, EXACT) for each in found]
    likely = messages.find(
        tenant_id=chat_session.tenant_id,
        user_id=chat_session.user_id,
        question=text,
        session_id=chat_session.pk,
        limit=MANY,
    )
    whole = [each for each in likely if holds_words(each.text, text)][:FEW]
    chosen = [(each.message_id, BY_WORDS) for each in whole]
    chosen += [(each.message_id, IN_PART) for each in _rest(text, likely, whole)[:FEW]]
    by_id = rows.in_bulk([message_id for message_id, _ in chosen])
    return [Place(by_id[message_id], how) for message_id, how in chosen if message_id in by_id]


def _rest(text: str, likely: Sequence[Found], whole: Sequence[Found]) -> list[Found]:
    """Messages with words in a row that no other message before them has: a text that was copied
    over several messages is in none of them."""
    left = _runs(text).difference(*(_runs(each.text) for each in whole))
    parts = []
    for each in likely:
        if left and each not in whole and (held := left & _runs(each.text)):
            parts.append(each)
            left -= held
    return parts


def _runs(text: str) -> set[tuple[str, ...]]:
    words = list(tokens(text))
    return set(zip(*(words[start:] for start in range(RUN)), strict=False))


def elsewhere(chat_session: ChatSession, text: str) -> list[Found]:
    """What the same person said in other sessions of the same tenant."""
    if not text:
        return []
    found = messages.find(
        tenant_id=chat_session.tenant_id, user_id=chat_session.user_id, question=text, limit=20
    )
    others = [each for each in found if each.session_id != chat_session.pk]
    return [each for each in others if holds_words(each.text, text)][:FEW]


def holds_words(text: str, wanted: str) -> bool:
    """Whether `text` holds `wanted`, or at least half of the words that count in it."""
    if wanted.casefold() in text.casefold():
        return True
    words = question_tokens(wanted)
    if not words:
        return False
    known = set(tokens(text))
    return sum(word in known for word in words) >= max(1, len(words) * HALF)


def in_request(rebuilt: records.Rebuilt, manifest: Mapping[str, Any], text: str) -> list[InRequest]:
    """Every message of a request that holds `text` as it stands, whoever wrote it."""
    if not text:
        return []
    parts = manifest.get("parts") or ()
    found = []
    for index, wire in enumerate(rebuilt.request["messages"]):
        sent = records.text_of(wire) or ""
        if text.casefold() not in sent.casefold():
            continue
        part = parts[index] if index < len(parts) else {}
        found.append(
            InRequest(
                number=index + 1,
                role=wire["role"],
                kind=part.get("kind", ""),
                seq=part.get("seq"),
                holds=_block_with(sent, text),
            )
        )
    return found


BLOCKS = {
    "summary": ("<conversation_summary>", "</conversation_summary>"),
    "digest": ("<about_the_user>", "</about_the_user>"),
    "preferences": ("<saved_preferences>", "</saved_preferences>"),
    "passages": ("<references>", "</references>"),
}


def _block_with(sent: str, text: str) -> str:
    """Which block of a message holds `text`; "" where its own words do."""
    folded, wanted = sent.casefold(), text.casefold()
    for name, (opens, closes) in BLOCKS.items():
        start, end = folded.find(opens), folded.find(closes)
        is_inside = 0 <= start < end and wanted in folded[start:end]
        if is_inside and wanted not in folded[:start] + folded[end:]:
            return name
    return ""
