"""What the turns of a conversation sent, and what memory kept of it.

Every turn of the product has a record; sample data has those of the newest two of each session,
since records would otherwise be the larger part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Model

from chat import records
from chat.demo_data import phrases
from chat.demo_data.conversations import Conversation
from chat.demo_data.orders import new_id
from chat.models import ChatMessage, ChatTurn, ContextPart, ContextRecord
from chat.turns import policies
from chat.turns.history import history_message
from memory import context
from memory.context import ContextMessage, HistoryMessage, LeftOut, Window
from memory.messages import to_data
from memory.models import ConversationSummary, MemorySnapshot
from memory.summary_items import Item, as_data, text_of
from memory.tokens import count_text

NEWEST = 2  # turns of a session whose requests are recorded
WINDOW = 20
SUMMARISED_FROM = 60  # messages on the branch


@dataclass
class Contexts:
    """Makes the records; operator's prompts are shared between all of them."""

    prompts: dict[str, str] = field(default_factory=dict)
    """Id of the part that holds it, by prompt."""

    def of(self, made: Conversation) -> Iterator[Model]:
        """Parts before the records that name them."""
        inputs = {each.pk: each for each in made.path}
        recorded = [turn for turn in made.turns if turn.input_id in inputs][-NEWEST:]
        for turn in recorded:
            yield from self._record(made, turn, inputs[turn.input_id])
        if made.chance.random() < 0.5:
            yield _snapshot(made)
        if len(made.path) >= SUMMARISED_FROM:
            yield _summary(made)

    def _record(self, made: Conversation, turn: ChatTurn, asked: ChatMessage) -> Iterator[Model]:
        assistant = made.session.assistant
        assembled = context.assemble(
            prompt=assistant.system_prompt,
            window=_window(made, asked),
            current=history_message(asked),
            budget=policies.request_budget(assistant.endpoint),
            encoding=assistant.endpoint.encoding,
        )
        parameters = policies.request_parameters(assistant)
        wires = [records.wire_message(each) for each in assembled.messages]
        parts: list[ContextPart] = []
        layout = [self._place(made, each, parts) for each in assembled.messages]
        yield from parts
        yield ContextRecord(
            pk=new_id(made.chance),
            chat_session_id=made.session.pk,
            turn_id=turn.pk,
            manifest=assembled.manifest,
            layout=layout,
            parameters=json.dumps(parameters),
            token_count=assembled.tokens,
            token_encoding=assistant.endpoint.encoding,
            input_tokens=turn.input_tokens,
            cached_input_tokens=turn.cached_input_tokens,
            output_tokens=turn.output_tokens,
            proof=records.prove({**parameters, "messages": wires}),
            created_at=turn.started_at,
        )

    def _place(
        self, made: Conversation, message: ContextMessage, parts: list[ContextPart]
    ) -> list[str]:
        """Where the text of a message of the request stands; what has no row gets a part."""
        if message.owner == "operator":
            return [message.role, records.PART, self._prompt(message.content)]
        if message.source is not None:
            return [message.role, records.MESSAGE, message.source]
        wire = records.wire_message(message)
        is_plain = set(wire) == {"role", "content"}
        text = message.content if is_plain else json.dumps(wire, ensure_ascii=False)
        part = ContextPart(pk=new_id(made.chance), chat_session_id=made.session.pk, text=text)
        parts.append(part)
        return [message.role, records.PART if is_plain else records.WHOLE, str(part.pk)]

    def _prompt(self, text: str) -> str:
        if text not in self.prompts:
            digest = hashlib.sha256(text.encode()).hexdigest()
            part, _ = ContextPart.objects.get_or_create(digest=digest, defaults={"text": text})
            self.prompts[text] = str(part.pk)
        return self.prompts[text]


def _newest(rows: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """The newest WINDOW messages, from a user's on."""
    rows = rows[-WINDOW:]
    start = next((place for place, row in enumerate(rows) if row.role == "user"), len(rows))
    return rows[start:]


def _window(made: Conversation, asked: ChatMessage) -> Window:
    before = made.path[: made.path.index(asked)]
    policy = policies.memory_policy(made.session)
    if not policy.enabled:
        left_out = (LeftOut(1, asked.seq - 1, context.MEMORY_OFF),) if before else ()
        return Window((), left_out, "rebuild", 0, policy.described())
    rows = _newest(before)
    messages = tuple(history_message(each) for each in rows)
    return Window(messages, _left_out(before, rows), "rebuild", 0, policy.described())


def _left_out(all_rows: Sequence[ChatMessage], rows: Sequence[ChatMessage]) -> tuple[LeftOut, ...]:
    if len(rows) == len(all_rows):
        return ()
    last = all_rows[len(all_rows) - len(rows) - 1].seq
    return (LeftOut(1, last, "max_messages"),)


def _snapshot(made: Conversation) -> MemorySnapshot:
    rows = _newest(made.path)
    left_out = _left_out(made.path, rows)
    earlier = [each.seq for each in made.path[: len(made.path) - len(rows)] if each.role == "user"]
    return MemorySnapshot(
        chat_session_id=made.session.pk,
        through_seq=made.session.next_seq - 1,
        before_seq=earlier[-1] if earlier else 0,
        policy=policies.memory_policy(made.session).fingerprint(),
        messages=[_data(history_message(each)) for each in rows],
        left_out=[[each.from_seq, each.through_seq, each.reason] for each in left_out],
        updated_at=made.session.last_active_at,
    )


def _data(message: HistoryMessage) -> dict[str, Any]:
    """A message as snapshots keep it."""
    return {
        **to_data(message.message),
        "seq": message.seq,
        "id": message.id,
        "turn": message.turn,
        "is_partial": message.is_partial,
        "tokens": message.tokens,
        "encoding": message.encoding,
    }


def _summary(made: Conversation) -> ConversationSummary:
    """Of the older half of the branch, in whole exchanges."""
    half = len(made.path) // 2
    later = (at for at, row in enumerate(made.path) if at >= half and row.role == "user")
    covered = made.path[: next(later, len(made.path))]
    endpoint = made.session.assistant.endpoint
    said = phrases.fill(made.chance, made.language, phrases.SUMMARIES[made.language])
    items = [Item("facts", said, covered[0].seq)]
    text = text_of(items)
    return ConversationSummary(
        chat_session_id=made.session.pk,
        version=1,
        text=text,
        items=as_data(items),
        covers_from=covered[0].seq,
        covers_through=covered[-1].seq,
        last_message=covered[-1].pk,
        turns=sorted({str(each.turn_id) for each in covered if each.turn_id}),
        memory_epoch=0,
        endpoint_name=endpoint.name,
        model_name=endpoint.model,
        token_count=count_text(text, endpoint.encoding),
        token_encoding=endpoint.encoding,
        source_tokens=sum(each.token_count or 0 for each in covered),
        created_at=made.session.last_active_at,
    )
