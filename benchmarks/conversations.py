"""Conversations with questions about them: those of this project, and files of the LoCoMo set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DIALOGUES = Path(__file__).resolve().parent / "dialogues"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
DATES = ("%I:%M %p on %d %B, %Y", "%I:%M %p on %d %b, %Y")


@dataclass(frozen=True)
class Said:
    """One message of a conversation."""

    id: str
    role: str
    text: str
    at: datetime


@dataclass(frozen=True)
class Question:
    """A question, and the messages that answer it."""

    text: str
    evidence: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Conversation:
    """What one person said and was told, in sessions, and questions about it."""

    sessions: tuple[tuple[Said, ...], ...]
    questions: tuple[Question, ...]

    @property
    def messages(self) -> list[Said]:
        return [each for session in self.sessions for each in session]


def dialogues(folder: Path = DIALOGUES) -> Conversation:
    """Every file of `folder` as one conversation of one person."""
    sessions: list[tuple[Said, ...]] = []
    questions: list[Question] = []
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        sessions += [_session(each) for each in data["sessions"]]
        questions += [
            Question(each["question"], tuple(each["evidence"]), data["language"])
            for each in data["questions"]
        ]
    return Conversation(tuple(sessions), tuple(questions))


def _session(data: Mapping[str, Any]) -> tuple[Said, ...]:
    start = datetime.fromisoformat(data["date"]).replace(hour=12, tzinfo=UTC)
    return tuple(
        Said(each["id"], each["role"], each["text"], start + timedelta(minutes=number))
        for number, each in enumerate(data["messages"])
    )


# --- LoCoMo ---------------------------------------------------------------------------------------


def locomo(path: Path) -> list[Conversation]:
    """The samples of a LoCoMo file. Questions without evidence that can be found are left out."""
    samples = json.loads(path.read_text(encoding="utf-8"))
    return [_sample(each) for each in samples]


def _sample(data: Mapping[str, Any]) -> Conversation:
    sessions = tuple(_locomo_sessions(data["conversation"]))
    known = {each.id for session in sessions for each in session}
    questions = []
    for each in data["qa"]:
        evidence = tuple(dict.fromkeys(_ids(each.get("evidence") or [])))
        if found := tuple(id_ for id_ in evidence if id_ in known):
            kind = CATEGORIES.get(each.get("category"), "other")
            questions.append(Question(each["question"], found, kind))
    return Conversation(sessions, tuple(questions))


def _locomo_sessions(conversation: Mapping[str, Any]) -> Iterator[tuple[Said, ...]]:
    numbers = (re.fullmatch(r"session_(\d+)", key) for key in conversation)
    for number in sorted(int(match.group(1)) for match in numbers if match):
        at = _date(conversation[f"session_{number}_date_time"])
        turns: Sequence[Mapping[str, Any]] = conversation[f"session_{number}"]
        yield tuple(
            Said(turn["dia_id"], turn["speaker"], f"{turn['speaker']}: {_text(turn)}", at)
            for turn in turns
        )


def _text(turn: Mapping[str, Any]) -> str:
    """What was said, and what an image that was shown with it is described as."""
    return " ".join(filter(None, (turn.get("text"), turn.get("blip_caption"))))


def _ids(evidence: Sequence[str]) -> Iterator[str]:
    """The ids in a list of evidence; some entries of the set name several at once."""
    for entry in evidence:
        yield from re.findall(r"D\d+:\d+", entry)


def _date(text: str) -> datetime:
    """ "1:56 pm on 8 May, 2023" """
    for pattern in DATES:
        try:
            return datetime.strptime(text.strip(), pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise ValueError(
        f"{text!r} is not a time as in the LoCoMo set, such as '1:56 pm on 8 May, 2023'"
    )
