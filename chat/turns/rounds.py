"""A round of tools: the calls that an answer asks for, carried out, stored, and sent on.

The calls and their results are stored in one transaction, so that neither is ever alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chat import events
from chat.hops import hop
from chat.models import ChatMessage, ChatSession, ContextRecord, DerivedText
from chat.turns import policies, still_there, tools
from chat.turns.answers import Emit
from chat.turns.endings import answer_row
from chat.turns.history import history_message
from chat.turns.orders import Begun, Outcome
from chat.turns.tools import Result
from memory import tokens
from memory.messages import Message, ToolCall

NOT_REACHED = "The turn ended before this call was carried out."
MEMORY_OFF = "Memory is switched off in this conversation; nothing was read or written."
NO_MORE_ROUNDS = "No further tools can be used in this turn; answer with what is known."


@dataclass(frozen=True)
class Round:
    """What one answer asked for, and what came of each call, in the same order."""

    outcome: Outcome
    calls: tuple[ToolCall, ...]
    results: tuple[Result, ...]


def is_over(begun: Begun) -> bool:
    """Whether this turn has had all the rounds of tools that it may have."""
    return begun.rounds >= settings.CHAT_TOOL_ROUNDS


async def carry_out(
    begun: Begun, calls: Sequence[ToolCall], results: list[Result], emit: Emit
) -> None:
    """Carry out `calls` one after another; each result is appended to `results` as it comes."""
    for number, asked in enumerate(calls):
        emit(events.tool_used(begun.turn_id, asked))
        if is_over(begun):
            result = tools.failure(NO_MORE_ROUNDS)
        elif number >= tools.CALLS_AT_ONCE:
            result = tools.failure(f"At most {tools.CALLS_AT_ONCE} calls are carried out at once.")
        else:
            result = await _called(begun, asked)
        results.append(result)
        emit(events.tool_used(begun.turn_id, asked, result.text, result.is_error))
        for frame in result.frames:
            emit(frame)


async def _called(begun: Begun, asked: ToolCall) -> Result:
    """What memory is switched off for may be switched off while the model was answering."""
    uses_memory = any(each.name == asked.name and each.uses_memory for each in begun.tools)
    if uses_memory and not await hop(_remembers, begun.session_id):
        return tools.failure(MEMORY_OFF)
    return await tools.call(begun.tools, asked, begun.caller)


def _remembers(session_id: uuid.UUID) -> bool:
    row = ChatSession.objects.select_related("assistant__endpoint").filter(pk=session_id).first()
    return row is not None and policies.memory_policy(row).enabled


def completed(calls: Sequence[ToolCall], results: Sequence[Result]) -> tuple[Result, ...]:
    """A result for every call, whatever ended the round."""
    missing = len(calls) - len(results)
    return (*results, *[tools.failure(NOT_REACHED)] * missing)


def store(begun: Begun, used: Round) -> Begun:
    """Store the calls and their results under the turn's lease; the turn as it then stands."""
    with transaction.atomic():
        sources = [source for result in used.results for source in result.sources]
        still_there.hold_with_sources(
            begun, sources, token_count=F("token_count") + used.outcome.spent.total
        )
        ContextRecord.objects.filter(pk=begun.record_id).update(
            input_tokens=used.outcome.input_tokens,
            cached_input_tokens=used.outcome.cached_input_tokens,
            output_tokens=used.outcome.output_tokens,
        )
        rows = _store_rows(begun, used)
    added = tuple(history_message(row) for row in rows)
    memory = replace(begun.memory, running=(*begun.memory.running, *added))
    return replace(
        begun, memory=memory, rounds=begun.rounds + 1, spent=begun.spent + used.outcome.spent
    )


def _store_rows(begun: Begun, used: Round) -> list[ChatMessage]:
    session = ChatSession.objects.filter(pk=begun.session_id)
    next_seq = session.values_list("next_seq", flat=True).get()
    partial = answer_row(begun)
    first = _calling(begun, used, partial or _row(begun, next_seq))
    next_seq += partial is None
    first.save()
    rows = [first]
    for asked, result in zip(used.calls, used.results, strict=True):
        row = _answered(_row(begun, next_seq), asked, result, rows[-1].pk)
        if not still_there.are_there(result.sources):
            row.content, row.token_count, row.redacted_at = "", None, timezone.now()
        row.save(force_insert=True)
        if row.redacted_at is None:
            _note_sources(row, result)
        rows.append(row)
        next_seq += 1
    new = len(rows) - (partial is not None)
    session.update(
        next_seq=next_seq,
        message_count=F("message_count") + new,
        path_count=F("path_count") + new,
        head=rows[-1].pk,
    )
    return rows


def _row(begun: Begun, seq: int) -> ChatMessage:
    return ChatMessage(
        chat_session_id=begun.session_id,
        turn_id=begun.turn_id,
        parent_id=begun.memory.last_id,
        seq=seq,
        token_encoding=begun.memory.policy.encoding,
    )


def _calling(begun: Begun, used: Round, row: ChatMessage) -> ChatMessage:
    """The row of an answer that asks for tools: text that was there is kept, no text is none."""
    text = used.outcome.text or None
    row.role = ChatMessage.Role.ASSISTANT
    row.content = text
    row.is_partial = False
    row.tool_calls = [
        {"id": each.id, "name": each.name, "arguments": each.arguments} for each in used.calls
    ]
    row.token_encoding = begun.memory.policy.encoding
    row.token_count = _count(row.token_encoding, Message.assistant(text, used.calls))
    return row


def _answered(
    row: ChatMessage, asked: ToolCall, result: Result, parent_id: uuid.UUID
) -> ChatMessage:
    row.role = ChatMessage.Role.TOOL
    row.parent_id = parent_id
    row.content = result.text
    row.tool_call_id = asked.id
    row.name = asked.name[:100]
    row.is_error = result.is_error
    row.token_count = _count(row.token_encoding, Message.tool(asked.id, result.text, asked.name))
    return row


def _count(encoding: str, message: Message) -> int:
    return tokens.counter_for(encoding)(message)


def _note_sources(row: ChatMessage, result: Result) -> None:
    """Which messages of which sessions the result quotes, so that forgetting them finds it."""
    DerivedText.objects.bulk_create(
        DerivedText(
            chat_session_id=row.chat_session_id,
            message=row,
            source_session=each.session_id,
            source_seq=each.seq,
        )
        for each in result.sources
    )
