"""What the demo model answers to the product's own requests: titles, minutes, preferences, digests.

Each is made from the texts in the request and from nothing else, in their language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chat.demo_model.facts import EDGES, NAME, SENTENCE_END, Fact, facts_in
from chat.demo_model.statements import (
    DONE,
    IN_ENGLISH,
    kind_of,
    sentences,
    subject,
    wishes_in,
)
from memory.text import CHINESE

TITLE_WORDS, TITLE_CHARACTERS = 6, 18
ITEM_LENGTH = 160
DIGEST_LINES = 5
POLITE = re.compile(
    r"^(?:(?:please|hi|hello|hey|thanks|can you|could you|would you|i want you to|tell me|help me)"
    r"\b[\s,!]*"
    r"|(?:你好|您好|请问|请你|请|麻烦|帮我)[，,！!\s]*)+",
    re.I,
)


def task_in(text: str) -> dict[str, Any] | None:
    """The task that a message holds as JSON, at its end or alone."""
    start = text.find('{"task":')
    if start < 0:
        return None
    try:
        data = json.loads(text[start:])
    except (ValueError, RecursionError):
        return None
    return data if data.get("task") in ANSWERS else None


def answer(task: Mapping[str, Any]) -> str:
    return ANSWERS[task["task"]](task)


def listed(task: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list in the task; what is none is left out."""
    values = task.get(name)
    return (
        [each for each in values if isinstance(each, Mapping)] if isinstance(values, list) else []
    )


def said_by_user(task: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Seq and text of each message of the user."""
    for message in listed(task, "messages"):
        if message.get("role", "user") == "user":
            yield int(message.get("seq") or 0), str(message.get("text") or "")


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- Titles ---------------------------------------------------------------------------------------


def title(task: Mapping[str, Any]) -> str:
    """The first words of the first question, without what is said to be polite."""
    text = next((text for _, text in said_by_user(task)), "")[:2000]
    for said in (*(POLITE.sub("", each.strip(EDGES)) for each in SENTENCE_END.split(text)), text):
        clause = re.split(r"[，,：:（(“\"]", said.strip(EDGES), maxsplit=1)[0].strip(EDGES)
        if clause:
            return clause[:TITLE_CHARACTERS] if CHINESE.search(clause) else capital(clause)
    return "Conversation"


def capital(clause: str) -> str:
    words = " ".join(clause.split()[:TITLE_WORDS])
    words = re.sub(r"(?: (?:a|an|the|to|of|for|in|on|and|or|with|from|my|is|are))+$", "", words)
    return words[:1].upper() + words[1:]


# --- Minutes --------------------------------------------------------------------------------------


def summary(task: Mapping[str, Any]) -> str:
    """What the user stated, decided, demanded and left open, each with its message."""
    found: dict[str, list[dict[str, Any]]] = {
        "decisions": [],
        "constraints": [],
        "open_tasks": [],
        "facts": [],
    }
    known = {str(item.get("text")) for item in listed(task, "previous")}
    for seq, text in said_by_user(task):
        for kind, words in items_in(text):
            if words not in known:
                known.add(words)
                found[kind].append({"text": words, "seq": seq})
    if not any(found.values()) and not known:
        found["facts"] = [asked(*each) for each in list(said_by_user(task))[:1]]
    return as_json({**found, "outdated": done_in(task)})


def items_in(text: str) -> Iterator[tuple[str, str]]:
    for fact in facts_in(text):
        yield "facts", noted(fact, text)
    for sentence in sentences(text):
        if (kind := kind_of(sentence)) and not facts_in(sentence):
            yield kind, sentence.strip(EDGES)[:ITEM_LENGTH]


def noted(fact: Fact, text: str) -> str:
    """A fact as a line that is found again: `verification phrase: Qingyun-4173`."""
    is_chinese = bool(CHINESE.search(text))
    label = ("姓名" if is_chinese else "name") if fact.key == NAME else fact.label
    note = "备忘" if is_chinese else "note"
    return f"{label or note}: {fact.value}"[:ITEM_LENGTH]


def asked(seq: int, text: str) -> dict[str, Any]:
    """Where nothing was stated: what the conversation began with."""
    words = " ".join(text.split())[:60] or "…"
    return {"text": f"问过：{words}" if CHINESE.search(words) else f"Asked: {words}", "seq": seq}


def done_in(task: Mapping[str, Any]) -> list[str]:
    """Open tasks that a later sentence says are done, by a word that both have."""
    spoken = [each for _, text in said_by_user(task) for each in sentences(text)]
    finished = " ".join(each for each in spoken if DONE.search(each)).lower()
    return [
        str(item.get("id"))
        for item in listed(task, "previous")
        if item.get("kind") == "open_tasks" and shares_a_word(str(item.get("text")), finished)
    ]


def shares_a_word(text: str, others: str) -> bool:
    words = re.findall(r"[a-z]{5,}|[\u3400-\u9fff]{3,}", text.lower())
    return any(word in others for word in words)


# --- Preferences ----------------------------------------------------------------------------------


def preferences(task: Mapping[str, Any]) -> str:
    """The lasting wishes of the user's messages; one of a subject takes the place of another."""
    active = listed(task, "active")
    found = []
    for seq, text in said_by_user(task):
        for wish in wishes_in(text):
            meant = IN_ENGLISH.get(wish.key, wish.key)
            replaced = next((each for each in active if about(each) == meant), None)
            if replaced is not None and replaced.get("text") == wish.text:
                continue
            found.append(
                {
                    "key": wish.key,
                    "text": wish.text,
                    "quote": wish.text,
                    "seq": seq,
                    "replaces": replaced.get("key") if replaced is not None else None,
                    "confidence": 0.9,
                }
            )
    return as_json({"preferences": found})


def about(preference: Mapping[str, Any]) -> str:
    """The subject of what is known: by its words, where its key or language is another."""
    found = subject(f"{preference.get('text')}")
    return IN_ENGLISH.get(found, found)


# --- Digests --------------------------------------------------------------------------------------


def digest(task: Mapping[str, Any]) -> str:
    """The first lines of the minutes, the newest conversation first, each thing once."""
    texts = task.get("conversations")
    lines = [
        line.removeprefix("- ")
        for text in (texts if isinstance(texts, list) else [])
        for line in str(text).splitlines()
        if line.startswith("- ")
    ]
    return as_json({"lines": list(dict.fromkeys(lines))[:DIGEST_LINES]})


ANSWERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "title": title,
    "summary": summary,
    "preferences": preferences,
    "digest": digest,
}
