"""Preferences that a user stated, found by a model in the user's own messages and nowhere else.

Each stands on a quote that is really in the message that it names. They are proposed or saved, by
CHAT_PREFERENCES_MODE; what the person had deleted does not come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from chat import dues, events
from chat.dues import Claim, Kind
from chat.follow_ups import prompts
from chat.follow_ups.answers import Rejected, json_object
from chat.follow_ups.branch import Branch, lock, session_of
from chat.follow_ups.calls import Question, ask, room_for_data
from chat.hops import hop
from chat.models import ChatMessage, ChatSession, ChatTurn
from chat.turns import policies
from memory import preferences
from memory.blocks import PreferenceText
from memory.models import UserPreference
from memory.preferences import InvalidPreference
from memory.secret_words import holds_secret
from memory.summary_items import REASONING
from memory.summary_plan import ENTRY_TOKENS, shortened
from memory.text import clean, folded_key, one_line
from memory.tokens import count_text

OFF, AUTO = "off", "auto"
PAGE = 50  # messages that are looked at in one call, at most
MOST_FOUND = 20
ANSWER_TOKENS = 2_000
LEAST_ROOM = 200  # tokens
KNOWN_LENGTH = 300  # characters of what is active that are told


@dataclass(frozen=True)
class Said:
    """A message of the user."""

    seq: int
    text: str
    at: datetime | None
    """None: it was imported, and was said at some time before."""


@dataclass(frozen=True)
class Job:
    """The messages that are searched, and what is known already."""

    chat_session: ChatSession
    said: tuple[Said, ...]
    active: tuple[PreferenceText, ...]
    question: Question


@dataclass(frozen=True)
class Candidate:
    """A preference that stands in a message, as far as the message itself can tell."""

    key: str
    text: str
    quote: str
    said: Said
    replaces: PreferenceText | None
    confidence: float | None


async def make(claim: Claim) -> None:
    job = await hop(_prepare, claim)
    if job is None:
        return
    found = await ask(job.question, partial(_read, job))
    written = await hop(_save, job, found)
    if written is None:
        raise Rejected("overtaken", "The conversation changed while it was being searched.")
    for row in written:
        kind = "proposed" if row.status == UserPreference.Status.PROPOSED else "saved"
        await events.publish(job.chat_session.pk, events.preference_told(kind, row))


def _may_write(chat_session: ChatSession) -> bool:
    """Read anew before the call and again before anything is written."""
    policy = policies.memory_policy(chat_session)
    return policy.enabled and policy.use_preferences and settings.CHAT_PREFERENCES_MODE != OFF


# --- What is searched -----------------------------------------------------------------------------


def _prepare(claim: Claim) -> Job | None:
    """None: nothing is due, or no more."""
    chat_session = session_of(claim.session_id)
    if chat_session is None or not _may_write(chat_session):
        return None
    active = preferences.active_for(policies.owner_of(chat_session))
    endpoint = chat_session.assistant.endpoint
    room = room_for_data(endpoint, prompts.PREFERENCES, ANSWER_TOKENS)
    known = _known(active, room // 2, endpoint.encoding)
    room -= count_text(str(known), endpoint.encoding)
    limit = max(min(settings.CHAT_SUMMARY_CHUNK_TOKENS, room), LEAST_ROOM)
    said, told = _messages(chat_session, limit)
    if not said:
        return None
    question = Question(
        kind=Kind.PREFERENCES,
        tenant_id=chat_session.tenant_id,
        session_id=chat_session.pk,
        endpoint=endpoint,
        prompt=prompts.PREFERENCES,
        data={"task": "preferences", "active": known, "messages": told},
        max_tokens=ANSWER_TOKENS,
        form=prompts.PREFERENCES_FORM,
    )
    return Job(chat_session, said, active, question)


def _known(active: Sequence[PreferenceText], limit: int, encoding: str) -> list[dict[str, str]]:
    """What is active as it is told, cut, the newest first: as many as about `limit` tokens hold."""
    told: list[dict[str, str]] = []
    for each in active:
        entry = {"key": each.key, "text": each.text[:KNOWN_LENGTH]}
        limit -= count_text(str(entry), encoding)
        if limit < 0:
            break
        told.append(entry)
    return told


def _messages(
    chat_session: ChatSession, limit: int
) -> tuple[tuple[Said, ...], list[dict[str, Any]]]:
    """The oldest messages that were not searched yet, of about `limit` tokens; one at least."""
    after = max(chat_session.extracted_through, chat_session.memory_starts_after)
    rows = Branch(chat_session.pk, after=after).rows.filter(
        role=ChatMessage.Role.USER, redacted_at=None
    )
    encoding = chat_session.assistant.endpoint.encoding
    said: list[Said] = []
    told: list[dict[str, Any]] = []
    left = limit
    asked = ChatTurn.objects.filter(input=OuterRef("pk"))
    rows = rows.exclude(content="").annotate(was_said_here=Exists(asked))
    for row in rows.order_by("seq")[:PAGE]:
        text = row.content or ""
        cost = count_text(text, encoding) + ENTRY_TOKENS
        if said and cost > left:
            break
        shown = shortened(text, limit, encoding) if cost > limit else text
        said.append(Said(row.seq, text, row.created_at if row.was_said_here else None))
        told.append({"seq": row.seq, "text": shown})
        left -= cost
    return tuple(said), told


# --- What was found -------------------------------------------------------------------------------


def _read(job: Job, answer: str) -> list[Candidate]:
    """What stands in the messages; an entry that does not is left out by itself."""
    listed = json_object(answer).get("preferences")
    if not isinstance(listed, list):
        raise Rejected("bad_preferences", "The model's answer has no list of preferences.")
    by_seq = {each.seq: each for each in job.said}
    found = (_candidate(each, by_seq, job.active) for each in listed[:MOST_FOUND])
    return [each for each in found if each is not None]


def _candidate(
    value: Any, by_seq: Mapping[int, Said], active: Sequence[PreferenceText]
) -> Candidate | None:
    if not isinstance(value, Mapping):
        return None
    key, text, quote = (_text(value.get(name)) for name in ("key", "text", "quote"))
    seq = value.get("seq")
    said = by_seq.get(seq) if isinstance(seq, int) and not isinstance(seq, bool) else None
    if said is None or not (key and text and quote) or _blanks(quote) not in _blanks(said.text):
        return None
    if any(holds_secret(each) or REASONING.search(each) for each in (key, text, quote)):
        return None
    replaced = _known_as(_text(value.get("replaces")), active) or _known_as(key, active)
    return Candidate(
        key=replaced.key if replaced is not None else key,
        text=text,
        quote=quote,
        said=said,
        replaces=replaced,
        confidence=_confidence(value.get("confidence")),
    )


def _known_as(key: str, active: Sequence[PreferenceText]) -> PreferenceText | None:
    """What is active under a key, in whichever scope: the new statement takes its place there."""
    return next((each for each in active if folded_key(each.key) == folded_key(key)), None)


def _text(value: Any) -> str:
    return one_line(value) if isinstance(value, str) else ""


def _blanks(text: str) -> str:
    """A text as quotes are compared: each run of blanks as one."""
    return " ".join(clean(text).split())


def _confidence(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


# --- What is stored -------------------------------------------------------------------------------


def _save(job: Job, found: Sequence[Candidate]) -> list[UserPreference] | None:
    """Write what is new, and how far was searched, in one step; None: it may not be written."""
    with transaction.atomic():
        if not lock(job.chat_session):
            return None
        chat_session = session_of(job.chat_session.pk)
        if chat_session is None or not _may_write(chat_session) or not _stands(job, chat_session):
            return None
        row = ChatSession.objects.filter(pk=chat_session.pk)
        row.update(extracted_through=job.said[-1].seq)
        dues.mark_session(Kind.PREFERENCES, chat_session.pk)  # the messages after these
        new = [each for each in found if not _was_taken(chat_session, each)]
        written = (_write(chat_session, each, job.active) for each in new)
        return [each for each in written if each is not None]


def _stands(job: Job, chat_session: ChatSession) -> bool:
    """Whether nobody else has searched these messages, and all of them are on the branch still."""
    if chat_session.extracted_through != job.chat_session.extracted_through:
        return False
    seqs = [each.seq for each in job.said]
    return Branch(chat_session.pk, after=0).rows.filter(seq__in=seqs).count() == len(seqs)


def _was_taken(chat_session: ChatSession, found: Candidate) -> bool:
    """Whether the model remembered it in the turn itself, in its own words."""
    owner = chat_session.tenant_id, chat_session.user_id
    return preferences.is_taken_from(*owner, found.key, chat_session.pk, found.said.seq)


def _write(
    chat_session: ChatSession, found: Candidate, active: Sequence[PreferenceText]
) -> UserPreference | None:
    """None: it is known already, was deleted or disabled by its person, or cannot be stored."""
    if any(
        folded_key(each.key) == folded_key(found.key) and _blanks(each.text) == _blanks(found.text)
        for each in active
    ):
        return None
    owner = chat_session.tenant_id, chat_session.user_id
    source: dict[str, Any] = {
        "source_session": chat_session.pk,
        "source_seq": found.said.seq,
        "quote": found.quote,
    }
    if preferences.is_forgotten(
        *owner, key=found.key, text=found.text, said_at=found.said.at, **source
    ):
        return None
    if preferences.is_switched_off(*owner, found.key, found.said.at):
        return None
    status = UserPreference.Status
    known = set(UserPreference.objects.filter(tenant=owner[0], user=owner[1]).values_list("pk"))
    try:
        row = preferences.remember(
            *owner,
            found.replaces.scope if found.replaces is not None else preferences.ALL,
            found.key,
            found.text,
            origin=UserPreference.Origin.CHAT,
            confidence=found.confidence,
            status=status.ACTIVE if settings.CHAT_PREFERENCES_MODE == AUTO else status.PROPOSED,
            replaces=found.replaces.key if found.replaces is not None else None,
            **source,
        )
    except InvalidPreference:
        return None
    return row if (row.pk,) not in known else None
