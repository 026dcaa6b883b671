"""A title for a session, made once by the model from its first exchange.

A title that a person gave always wins, also one that is given while the model writes.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from chat import events
from chat.dues import Claim, Kind
from chat.follow_ups import prompts
from chat.follow_ups.answers import Rejected
from chat.follow_ups.branch import Branch, lock, session_of
from chat.follow_ups.calls import Question, ask
from chat.follow_ups.refusals import is_refusal
from chat.hops import hop
from chat.models import ChatMessage, ChatSession
from chat.turns.inputs import first_title
from memory.summary_plan import shortened
from memory.text import is_blank, one_line

LENGTH = 60
TEXT_TOKENS = 600  # of each of the two messages that a title is made from
ANSWER_TOKENS = 1_000  # most models need 20; those that think first need more

_THOUGHTS = re.compile(r"<\s*(think|thinking|reasoning|thought)\b[^>]*>.*?</\s*\1\s*>", re.I | re.S)
_ANY_THOUGHT = re.compile(r"</?\s*(?:think|thinking|reasoning|thought)\b[^>]*>", re.I)
_PREFIX = re.compile(
    r"^(?:(?:chat|conversation|suggested|the)\s+)*"
    r"(?:title|标题|標題|题目|タイトル|제목|titel|titre|t[íi]tulo|titolo|заголовок)\s*[:：]\s*",
    re.I,
)
_ANNOUNCED = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok)\b[\s!,.]*)?"
    r"here(?:'s|’s| is)\b[^:]{0,40}\b(?:title|name)\b[^:]{0,20}:\s*"
    r"|^(?:好的|当然|没问题)?[，。！,! ]*(?:以下|这)是[^：:]{0,20}标题[^：:]{0,5}[：:]\s*",
    re.I,
)
_LEADING_MARKS = re.compile(r"^(?:#{1,6}\s+|[-*+>]\s+|\d{1,2}[.)]\s+)+")
_PAIRED_MARKS = re.compile(r"(\*\*|__|\*|_|`|~~)(?=\S)(.+?)(?<=\S)\1")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_QUOTES = "\"'“”„‟‘’«»‹›「」『』《》`"


@dataclass(frozen=True)
class Wanted:
    """A session that has no title of its own yet, and what to ask for it."""

    chat_session: ChatSession
    said: tuple[uuid.UUID, ...]
    """The messages that it is made from."""
    first_line: str
    """Of the question: its title where the model will give none."""
    question: Question


async def make(claim: Claim) -> None:
    wanted = await hop(_prepare, claim)
    if wanted is None:
        return
    title = await ask(wanted.question, partial(_read, wanted))
    if await hop(_save, wanted, title):
        frame = events.session_updated(wanted.chat_session, title=title)
        await events.publish(wanted.chat_session.pk, frame)
    elif await hop(_prepare, claim) is not None:
        raise Rejected("overtaken", "The conversation changed while its title was being made.")


def _prepare(claim: Claim) -> Wanted | None:
    """None: nothing is due, or no more."""
    chat_session = session_of(claim.session_id)
    is_wanted = (
        settings.CHAT_TITLES_ENABLED
        and chat_session is not None
        and chat_session.title_source == ChatSession.TitleSource.AUTO
    )
    if not is_wanted or chat_session is None:
        return None
    said = _first_exchange(chat_session)
    if not said:
        return None
    asked = said[0].content if said[0].role == ChatMessage.Role.USER else ""
    endpoint = chat_session.assistant.endpoint
    messages = [
        {"role": each.role, "text": _excerpt(each.content or "", endpoint.encoding)}
        for each in said
    ]
    question = Question(
        kind=Kind.TITLE,
        tenant_id=chat_session.tenant_id,
        session_id=chat_session.pk,
        endpoint=endpoint,
        prompt=settings.CHAT_TITLE_PROMPT or prompts.TITLE,
        data={"task": "title", "messages": messages},
        max_tokens=ANSWER_TOKENS,
    )
    first_line = first_title(asked or "") or chat_session.title
    return Wanted(chat_session, _ids(said), first_line, question)


def _ids(messages: Sequence[ChatMessage]) -> tuple[uuid.UUID, ...]:
    return tuple(each.pk for each in messages)


def _first_exchange(chat_session: ChatSession) -> list[ChatMessage]:
    """The first answer that is whole, and the question before it; empty: there is none yet."""
    rows = Branch(chat_session.pk, after=chat_session.memory_starts_after).rows
    rows = rows.filter(redacted_at=None).exclude(content=None).exclude(content="")
    answers = rows.filter(role=ChatMessage.Role.ASSISTANT, is_partial=False).order_by("seq")
    answer = answers.first()
    if answer is None:
        return []
    questions = rows.filter(role=ChatMessage.Role.USER, seq__lt=answer.seq).order_by("-seq")
    return [*questions[:1], answer]


def _excerpt(text: str, encoding: str) -> str:
    head = text[: TEXT_TOKENS * 20]
    return shortened(head, TEXT_TOKENS, encoding) if len(head) > TEXT_TOKENS else head


def _read(wanted: Wanted, answer: str) -> str:
    """The model's title; the first line of the question where the model refused to give one."""
    title = clean_title(answer)
    return wanted.first_line if wanted.first_line and is_refusal(title) else title


def _save(wanted: Wanted, title: str) -> bool:
    """Under the epoch and on the branch that were read, and only where nobody has given a title
    meanwhile."""
    chat_session, source = wanted.chat_session, ChatSession.TitleSource
    with transaction.atomic():
        if not lock(chat_session) or _ids(_first_exchange(chat_session)) != wanted.said:
            return False
        row = ChatSession.objects.filter(pk=chat_session.pk, title_source=source.AUTO)
        return bool(row.update(title=title, title_source=source.MODEL))


# --- What a model makes of it ---------------------------------------------------------------------


def clean_title(text: str) -> str:
    """A title out of a model's answer, at most LENGTH characters; `Rejected` when there is none."""
    text = _THOUGHTS.sub("", text)
    if _ANY_THOUGHT.search(text):
        raise Rejected("reasoning", "The model's answer holds its reasoning alone.")
    line = _unmarked(_from_json(text))
    if is_blank(line) or not any(each.isalnum() for each in line):
        raise Rejected("bad_title", "The model's answer holds no title.")
    return _cut(line)


def _from_json(text: str) -> str:
    """The title of a JSON answer, else the first line that says something."""
    plain = re.sub(r"```[\w-]*", "", text).strip()
    try:
        value: Any = json.loads(plain)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        value = next((each for key, each in value.items() if key.lower() == "title"), {})
    if value is not None and not isinstance(value, int | float):
        return value if isinstance(value, str) else ""
    if plain.startswith(("{", "[{")):
        return ""  # JSON that was cut off, or is none
    lines = [each for each in plain.splitlines() if any(c.isalnum() for c in each)]
    if len(lines) > 1 and lines[0].rstrip().endswith((":", "：")):
        lines = lines[1:]  # "Here is a title:"
    return lines[0] if lines else ""


def _unmarked(line: str) -> str:
    """Without what announces it, markdown, a prefix such as `Title:`, quotation marks and a full
    stop."""
    line = one_line(line)
    before = None
    while line != before:
        before = line
        line = _LEADING_MARKS.sub("", line)
        line = _LINK.sub(r"\1", _PAIRED_MARKS.sub(r"\2", line))
        line = _PREFIX.sub("", _ANNOUNCED.sub("", line)).strip()
        if len(line) > 1 and line[0] in _QUOTES and line[-1] in _QUOTES:
            line = line[1:-1].strip()
        line = re.sub(r"(?<!\.)[.。]$", "", line).strip()
    return line


def _cut(line: str) -> str:
    if len(line) <= LENGTH:
        return line
    cut = line[: LENGTH - 1]
    words = cut.rsplit(" ", 1)
    return (words[0] if len(words) == 2 and len(words[0]) > LENGTH // 2 else cut).rstrip() + "…"
