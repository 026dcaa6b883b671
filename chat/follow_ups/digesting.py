"""The digest of a person in a tenant, made by a model from the newest summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from chat import dues
from chat.dues import Claim, Kind
from chat.follow_ups import prompts
from chat.follow_ups.answers import Rejected, json_object
from chat.follow_ups.branch import session_of
from chat.follow_ups.calls import Question, ask, room_for_data
from chat.hops import hop
from chat.models import ChatSession
from memory import digests
from memory.summary_items import REASONING
from memory.summary_plan import shortened
from memory.text import one_line
from memory.tokens import count_text

ANSWER_TOKENS = 2_000
MOST_LINES = 8
LINE_LENGTH = 240


@dataclass(frozen=True)
class Job:
    tenant_id: int
    user_id: int
    plan: digests.Plan
    question: Question


def mark(tenant_id: int, user_id: int) -> None:
    """A summary of this person was stored: their digest is due, where digests are wanted."""
    if settings.CHAT_DIGEST_ENABLED:
        dues.mark(Kind.DIGEST, f"{tenant_id}:{user_id}")


async def make(claim: Claim) -> None:
    job = await hop(_prepare, claim)
    if job is None:
        return
    text = await ask(job.question, partial(_read, job))
    if not await hop(_save, job, text):
        raise Rejected("overtaken", "The digest or its summaries changed while it was being made.")


def _prepare(claim: Claim) -> Job | None:
    if not (settings.CHAT_DIGEST_ENABLED and settings.CHAT_MEMORY_ENABLED):
        return None
    tenant_id, user_id = (int(part) for part in claim.subject.split(":"))
    plan = digests.plan(tenant_id, user_id)
    newest = session_of(plan.sources[0].session_id) if plan is not None else None
    if plan is None or newest is None:
        return None
    endpoint = newest.assistant.endpoint
    room = min(
        settings.CHAT_SUMMARY_CHUNK_TOKENS, room_for_data(endpoint, prompts.DIGEST, ANSWER_TOKENS)
    )
    share = max(room // len(plan.sources), 100)
    texts = [
        shortened(each.text, share, endpoint.encoding) if each.tokens > share else each.text
        for each in plan.sources
    ]
    question = Question(
        kind=Kind.DIGEST,
        tenant_id=tenant_id,
        session_id=None,
        endpoint=endpoint,
        prompt=prompts.DIGEST,
        data={"task": "digest", "conversations": texts},
        max_tokens=ANSWER_TOKENS,
        form=prompts.DIGEST_FORM,
    )
    return Job(tenant_id, user_id, plan, question)


def _read(job: Job, answer: str) -> str:
    text = "\n".join(_lines(json_object(answer)))[: digests.LENGTH].strip()
    encoding = job.question.endpoint.encoding
    source = sum(each.tokens for each in job.plan.sources)
    if count_text(text, encoding) > source:
        raise Rejected(
            "bad_digest", "The digest is longer than the summaries that it is made from."
        )
    return text


def _lines(answer: Mapping[str, Any]) -> list[str]:
    listed = answer.get("lines")
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise Rejected("bad_digest", "The model's answer has no list of lines.")
    lines = [one_line(each)[:LINE_LENGTH] for each in listed]
    lines = [each for each in lines if each][:MOST_LINES]
    if not lines or any(REASONING.search(each) for each in lines):
        raise Rejected("bad_digest", "The model's answer has no line that can be used.")
    return lines


def _save(job: Job, text: str) -> bool:
    """While every session that it comes from is there: their deletion waits, or is seen."""
    sessions = {each.session_id for each in job.plan.sources}
    with transaction.atomic():
        for each in sorted(sessions):  # in the order of everybody who locks several
            row = ChatSession.objects.filter(pk=each)
            if not row.update(memory_epoch=F("memory_epoch")):
                return False
        return digests.save(job.tenant_id, job.user_id, job.plan, text)
