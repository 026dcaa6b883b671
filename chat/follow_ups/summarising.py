"""The rolling summary of a session: one chunk of older turns at a time, each saved as a version.

memory.summaries says what is due, what a version is and when it may be stored; here the model is
asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from chat import dues
from chat.dues import ANEW, Claim, Kind
from chat.follow_ups import digesting, prompts
from chat.follow_ups.answers import Rejected, json_object
from chat.follow_ups.branch import Branch, lock, session_of
from chat.follow_ups.calls import Question, ask, room_for_data
from chat.hops import hop
from chat.models import ChatSession, FollowUp
from chat.retention import copies
from chat.turns import policies
from memory import summaries
from memory.history import MemoryPolicy, SessionState, rebuild
from memory.parts import sent_tokens
from memory.summaries import Chunk, Made, Summary
from memory.summary_items import (
    Item,
    NotASummary,
    fitting,
    items_of,
    labelled,
    merged,
    outdated_in,
    text_of,
)
from memory.tokens import count_text

LEAST_CHUNK = 500  # tokens
FIRST_PAGE = 200  # messages
HISTORY_SHARE = 0.75  # of a request, beyond which history will soon be given up for its size
NOTHING = "nothing is left of it"
ASKED_AGAIN = 2  # times, before an answer that there is nothing to keep is believed
NOTHING_TEXT = "Nothing was said there that has to be known later."
ANSWER_SHARE = 4  # times CHAT_SUMMARY_MAX_TOKENS: an answer is JSON, and some models think first


@dataclass(frozen=True)
class Job:
    """What the next version is made from, as it was read."""

    chat_session: ChatSession
    newest_version: int
    base: Summary | None
    chunk: Chunk
    question: Question
    may_be_nothing: bool = False
    """The model has said often enough that nothing of this is to be kept."""

    @property
    def encoding(self) -> str:
        return str(self.chat_session.assistant.endpoint.encoding)

    @property
    def older(self) -> tuple[Item, ...]:
        return self.base.items if self.base is not None else ()


async def make(claim: Claim) -> None:
    """Cover one chunk more; what is left is due again."""
    job = await hop(_prepare, claim)
    if job is None:
        return
    made = await ask(job.question, partial(_read, job))
    if not await hop(_save, job, made):
        raise Rejected("overtaken", "The conversation changed while its summary was being made.")


# --- What is due ----------------------------------------------------------------------------------


def _prepare(claim: Claim) -> Job | None:
    """None: nothing is due, or no more."""
    chat_session = session_of(claim.session_id)
    if chat_session is None:
        return None
    policy = policies.memory_policy(chat_session)
    if not (policy.enabled and policy.summarize):
        return None
    base, before = _due(chat_session, policy, anew=claim.subject.endswith(ANEW))
    if not before:
        return None
    said_nothing = _said_nothing(claim)
    failures = 0 if said_nothing else claim.attempts
    limit = _chunk_tokens(chat_session, base, failures)
    covered = _covered(chat_session, base)
    chunk = _oldest(Branch(chat_session.pk, after=covered), before, limit, policy.encoding)
    if chunk is None:
        return None
    newest = summaries.newest_version(chat_session.pk)
    question = _question(chat_session, base, chunk, limit)
    may_be_nothing = said_nothing and claim.attempts >= ASKED_AGAIN
    return Job(chat_session, newest, base, chunk, question, may_be_nothing)


def _said_nothing(claim: Claim) -> bool:
    """Whether the last attempt failed because the model found nothing to keep."""
    return FollowUp.objects.filter(pk=claim.id, last_error__contains=NOTHING).exists()


def _due(
    chat_session: ChatSession, policy: MemoryPolicy, *, anew: bool
) -> tuple[Summary | None, int]:
    """The version to go on from, and the seq before which all is to be covered; 0: nothing is due.

    `anew`: the same coverage again, from the history alone.
    """
    line = chat_session.memory_starts_after
    branch = Branch(chat_session.pk, after=line)
    base = summaries.usable_version(chat_session.pk, forget_line=line, reader=branch)
    if anew and base is not None:
        return None, base.text.covers_through + 1
    covered = _covered(chat_session, base)
    state = SessionState(
        id=chat_session.pk,
        memory_epoch=chat_session.memory_epoch,
        forget_line=covered,
        newest_seq=branch.newest_seq(),
        idle_line=chat_session.idle_line,
    )
    limits = _limits(chat_session, policy)
    window = rebuild(Branch(chat_session.pk, after=state.floor), state, limits)
    return base, summaries.due_before(window, covered, chat_session.idle_line, limits)


def _covered(chat_session: ChatSession, base: Summary | None) -> int:
    """The newest seq that needs no summary."""
    line = chat_session.memory_starts_after
    return max(line, base.text.covers_through) if base is not None else line


def _limits(chat_session: ChatSession, policy: MemoryPolicy) -> MemoryPolicy:
    """The limits that evict turns: the policy's own, and the size of a request."""
    endpoint = chat_session.assistant.endpoint
    budget = policies.request_budget(endpoint).limit / max(endpoint.token_correction, 1.0)
    prompt = count_text(chat_session.assistant.system_prompt, policy.encoding)
    room = max(int(budget * HISTORY_SHARE) - prompt, 1)
    return replace(policy, stride=0, max_tokens=min(policy.max_tokens or room, room))


def _chunk_tokens(chat_session: ChatSession, base: Summary | None, failures: int) -> int:
    """Half as much after each failure: it may have been too much for the endpoint."""
    endpoint = chat_session.assistant.endpoint
    room = room_for_data(endpoint, prompts.SUMMARY, _answer_tokens())
    if base is not None:
        room -= base.tokens * 2  # its items stand there as JSON
    wanted = min(settings.CHAT_SUMMARY_CHUNK_TOKENS, room)
    return max(wanted >> min(failures, 8), LEAST_CHUNK)


def _answer_tokens() -> int:
    return int(settings.CHAT_SUMMARY_MAX_TOKENS * ANSWER_SHARE)


def _oldest(branch: Branch, before: int, limit: int, encoding: str) -> Chunk | None:
    size = FIRST_PAGE
    while True:
        rows = branch.oldest(size)
        is_end = len(rows) < size
        found = summaries.chunk(rows, before, limit, encoding, is_end=is_end)
        if found is not None or is_end or rows[-1].seq >= before:
            return found
        size *= 4  # one exchange, or turns without any answer, fill the page


# --- What is asked, and what the answer is made into ----------------------------------------------


def _question(
    chat_session: ChatSession, base: Summary | None, chunk: Chunk, limit: int
) -> Question:
    endpoint = chat_session.assistant.endpoint
    older = labelled(base.items) if base is not None else []
    data = {
        "task": "summary",
        "previous": [{"id": label, "kind": item.kind, "text": item.text} for label, item in older],
        "messages": summaries.entries(chunk.sent, limit, endpoint.encoding),
    }
    return Question(
        kind=Kind.SUMMARY,
        tenant_id=chat_session.tenant_id,
        session_id=chat_session.pk,
        endpoint=endpoint,
        prompt=prompts.SUMMARY,
        data=data,
        max_tokens=_answer_tokens(),
        form=prompts.SUMMARY_FORM,
    )


def _read(job: Job, answer: str) -> Made:
    try:
        return _made(job, json_object(answer))
    except NotASummary as problem:
        raise Rejected("bad_summary", f"The model's answer is no summary: {problem}.") from None


def _made(job: Job, answer: Mapping[str, Any]) -> Made:
    known = {each.seq for each in job.chunk.sent} | {item.seq for item in job.older}
    newer = items_of(answer, known)
    items = merged(job.older, newer, outdated_in(answer, job.older))
    items = fitting(items, settings.CHAT_SUMMARY_MAX_TOKENS, job.encoding)
    text = text_of(items) or (NOTHING_TEXT if job.may_be_nothing else "")
    if not text:
        raise NotASummary(NOTHING)
    source = sum(sent_tokens(each, job.encoding) for each in job.chunk.sent)
    tokens = count_text(text, job.encoding)
    if tokens > source + (job.base.tokens if job.base is not None else 0):
        raise NotASummary(f"it has {tokens} tokens, more than what it was made from")
    covered = job.chunk.covered
    endpoint = job.chat_session.assistant.endpoint
    return Made(
        newest_version=job.newest_version,
        memory_epoch=job.chat_session.memory_epoch,
        text=text,
        items=tuple(items),
        covers_from=job.base.text.covers_from if job.base is not None else covered[0].seq,
        covers_through=covered[-1].seq,
        last_message=covered[-1].id,
        turns=tuple(dict.fromkeys(each.turn for each in covered if each.turn)),
        endpoint_name=endpoint.name,
        model_name=endpoint.model,
        tokens=tokens,
        encoding=job.encoding,
        source_tokens=source + (job.base.source_tokens if job.base is not None else 0),
    )


# --- What is stored -------------------------------------------------------------------------------


def _save(job: Job, made: Made) -> bool:
    """Under the epoch and on the branch that were read, while summaries are still wanted."""
    with transaction.atomic():
        if not lock(job.chat_session):
            return False
        chat_session = session_of(job.chat_session.pk)
        if chat_session is None:
            return False
        policy = policies.memory_policy(chat_session)
        branch = Branch(chat_session.pk, after=chat_session.memory_starts_after)
        wanted = policy.enabled and policy.summarize
        if not wanted or summaries.save(chat_session.pk, made, branch) is None:
            return False
        dues.mark_session(Kind.SUMMARY, chat_session.pk)  # whatever is not covered yet
        digesting.mark(chat_session.tenant_id, chat_session.user_id)
    return True


# --- For staff ------------------------------------------------------------------------------------


def regenerate(session_id: uuid.UUID) -> None:
    """Make the next version from the history alone, as far as the one in use reaches."""
    dues.mark(Kind.SUMMARY, f"{session_id}{ANEW}", session_id)


def delete(session_id: uuid.UUID) -> int:
    """Delete every version of a session; how many there were.

    The next request is sent what they stood for word for word, as far as it fits. Raises the
    memory epoch, so that nothing that was made from them is saved. A digest that was made of them
    goes as well, and another is due.
    """
    with transaction.atomic():
        row = ChatSession.objects.filter(pk=session_id)
        if not row.update(memory_epoch=F("memory_epoch") + 1):
            return 0
        copies.empty_digest(session_id)
        return summaries.drop(session_id)
