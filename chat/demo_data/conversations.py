"""One conversation of the sample data: its session, messages and turns, as the product makes them.

Questions and answers, tools, errors and retries, answers that were stopped or cut off, edited
questions and regenerated answers. `seq`, parents, the chosen branch and the counters are right by
construction: every message goes through `Conversation.tell`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chat.demo_data import phrases
from chat.demo_data.orders import Order, new_id
from chat.demo_data.people import Cast, Person
from chat.models import ChatMessage, ChatSession, ChatTurn
from memory.messages import Message, ToolCall
from memory.tokens import counter_for

GIANT = 200_000  # characters of one message of the first session
MONTHS = timedelta(days=180)
MILLION = Decimal(1_000_000)
ERRORS = {
    "timeout": "The model sent nothing for 60 seconds.",
    "rate_limited": "The model answered with the status 429.",
    "connect_failed": "The model could not be reached.",
    "context_length": "The request is too long for the model.",
}


@dataclass
class Conversation:
    """A session that grows; `path` is its chosen branch."""

    chance: random.Random
    person: Person
    session: ChatSession
    topic: phrases.Topic
    now: datetime
    messages: list[ChatMessage] = field(default_factory=list)
    turns: list[ChatTurn] = field(default_factory=list)
    path: list[ChatMessage] = field(default_factory=list)

    @property
    def language(self) -> str:
        return self.person.language

    def wait(self, least: float, most: float) -> datetime:
        self.now += timedelta(seconds=self.chance.uniform(least, most))
        return self.now

    def tell(self, role: str, content: str | None, **fields: Any) -> ChatMessage:
        """The next message, at the end of the chosen branch."""
        encoding = self.session.assistant.endpoint.encoding
        made = ChatMessage(
            pk=new_id(self.chance),
            chat_session_id=self.session.pk,
            parent_id=self.path[-1].pk if self.path else None,
            seq=len(self.messages) + 1,
            role=role,
            content=content,
            token_encoding=encoding,
            created_at=self.now,
            **fields,
        )
        calls = tuple(
            ToolCall(each["id"], each["name"], each["arguments"]) for each in made.tool_calls
        )
        made.token_count = counter_for(encoding)(
            Message(role, content, (), calls, made.tool_call_id, made.name)  # type: ignore[arg-type]
        )
        self.messages.append(made)
        self.path.append(made)
        return made

    def leave_from(self, message: ChatMessage) -> None:
        """Another branch is chosen: `message` and what follows it are no longer on it."""
        place = self.path.index(message)
        for each in self.path[place:]:
            each.is_on_path = False
        del self.path[place:]

    def begin_turn(self, asked: ChatMessage, status: str, **fields: Any) -> ChatTurn:
        endpoint = self.session.assistant.endpoint
        made = ChatTurn(
            pk=new_id(self.chance),
            chat_session_id=self.session.pk,
            input_id=asked.pk,
            number=len(self.turns) + 1,
            client_id=new_id(self.chance),
            status=status,
            endpoint_name=endpoint.name,
            model_name=endpoint.model,
            started_at=self.now,
            **fields,
        )
        self.turns.append(made)
        return made

    def end_turn(self, turn: ChatTurn, output_tokens: int) -> None:
        """What it used: the newest twenty messages, and what was written."""
        endpoint = self.session.assistant.endpoint
        turn.input_tokens = 60 + sum(each.token_count or 0 for each in self.path[-20:])
        turn.cached_input_tokens = turn.input_tokens // 2 if self.chance.random() < 0.3 else 0
        turn.output_tokens = output_tokens
        cached = turn.cached_input_tokens
        turn.cost = (
            endpoint.price_input * (turn.input_tokens - cached)
            + endpoint.price_cached_input * cached
            + endpoint.price_output * output_tokens
        ) / MILLION
        turn.finished_at = self.wait(0.5, 9)

    # --- Turns: each says how many messages it takes ---------------------------------------------

    def ask(self) -> ChatMessage:
        self.wait(20, 900)
        text = phrases.question(self.chance, self.language, self.topic)
        return self.tell("user", text)

    def reply(self, asked: ChatMessage, status: str = "completed", **fields: Any) -> ChatTurn:
        """A turn with an answer, whole or cut off."""
        turn = self.begin_turn(asked, status, **fields)
        self.answer_of(turn)
        return turn

    def answer_of(self, turn: ChatTurn) -> None:
        if turn.status == "completed":
            turn.finish_reason = "stop"
        turn.first_token_at = turn.first_token_at or self.wait(0.2, 2.5)
        text = self.answer_text()
        is_partial = turn.status != "completed"
        if is_partial:
            text = text[: max(1, len(text) // 2)]
        answer = self.tell("assistant", text, turn_id=turn.pk, is_partial=is_partial)
        self.end_turn(turn, answer.token_count or 0)

    def answer_text(self) -> str:
        draw = self.chance.random()
        if draw < 0.002:
            length = self.chance.randint(8_000, 40_000)
            return phrases.long_text(self.chance, self.language, self.topic, length)
        return phrases.answer(self.chance, self.language, self.topic)

    def plain(self) -> None:
        self.reply(self.ask())

    def stopped(self) -> None:
        turn = self.reply(self.ask(), "stopped", stop_requested=True)
        turn.stop_seen = len(self.path[-1].content or "")

    def interrupted(self) -> None:
        self.reply(
            self.ask(),
            "interrupted",
            error_code="interrupted",
            error_detail="The server that was answering went away.",
        )

    def failed(self) -> None:
        """An error, and nothing of an answer."""
        self.fail(self.ask())

    def fail(self, asked: ChatMessage) -> None:
        code = self.chance.choice(list(ERRORS))
        turn = self.begin_turn(asked, "failed", error_code=code, error_detail=ERRORS[code])
        turn.finished_at = self.wait(1, 60)

    def retried(self) -> None:
        """An error, then the same question answered."""
        asked = self.ask()
        self.fail(asked)
        self.reply(asked)

    def regenerated(self) -> None:
        """Two answers beside each other under one question."""
        asked = self.ask()
        self.reply(asked)
        self.leave_from(self.path[-1])
        self.wait(5, 60)
        self.reply(asked)

    def edited(self) -> None:
        """The question is asked anew beside the first one, which keeps its answer."""
        asked = self.ask()
        self.reply(asked)
        self.leave_from(asked)
        self.plain()

    def with_tool(self) -> None:
        self.use_tools(1)

    def with_tools(self) -> None:
        self.use_tools(2)

    def use_tools(self, count: int) -> None:
        asked = self.ask()
        turn = self.begin_turn(asked, "completed")
        turn.first_token_at = self.wait(0.2, 2.5)
        chosen = [self.chance.choice(phrases.CALLS) for _ in range(count)]
        calls = [
            {
                "id": f"call_{new_id(self.chance).hex[:16]}",
                "name": name,
                "arguments": _json(self.chance, self.language, arguments),
            }
            for name, arguments, _ in chosen
        ]
        self.tell("assistant", None, turn_id=turn.pk, tool_calls=calls)
        for call, (name, _, result) in zip(calls, chosen, strict=True):
            self.wait(0.05, 3)
            has_failed = self.chance.random() < 0.05
            text = phrases.FAILED_RESULT if has_failed else result
            self.tell(
                "tool",
                phrases.fill(self.chance, self.language, text),
                turn_id=turn.pk,
                tool_call_id=call["id"],
                name=name,
                is_error=has_failed,
            )
        self.answer_of(turn)

    def close(self, until: datetime) -> None:
        """Set what the session's row says of its messages and turns, none of them after `until`."""
        if self.now > until:
            self.move(until - self.now)
        row = self.session
        row.next_seq = len(self.messages) + 1
        row.head_id = self.path[-1].pk
        row.message_count = len(self.messages)
        row.path_count = len(self.path)
        row.turn_count = len(self.turns)
        row.token_count = sum(
            (each.input_tokens or 0) + (each.output_tokens or 0) for each in self.turns
        )
        row.created_at = self.messages[0].created_at
        row.last_active_at = self.now

    def move(self, by: timedelta) -> None:
        """Everything at another time."""
        self.now += by
        for message in self.messages:
            message.created_at += by
        for turn in self.turns:
            for name in ("started_at", "first_token_at", "finished_at"):
                if (when := getattr(turn, name)) is not None:
                    setattr(turn, name, when + by)


SHAPES: tuple[tuple[Callable[[Conversation], None], int, int], ...] = (
    # what happens, how many messages it takes, how often
    (Conversation.plain, 2, 70),
    (Conversation.with_tool, 4, 6),
    (Conversation.with_tools, 5, 3),
    (Conversation.stopped, 2, 4),
    (Conversation.interrupted, 2, 2),
    (Conversation.retried, 2, 2),
    (Conversation.regenerated, 3, 4),
    (Conversation.edited, 4, 3),
    (Conversation.failed, 1, 2),
)


def hold(order: Order, cast: Cast, number: int, size: int) -> Conversation:
    """The conversation with this number, of exactly `size` messages."""
    chance = order.chance("session", number)
    made = _begin(order, cast, chance)
    if number == 0 and size > 4:
        made.plain()
        giant = phrases.long_text(chance, made.language, made.topic, GIANT)
        made.wait(20, 900)
        made.reply(made.tell("user", giant))
    while left := size - len(made.messages):
        happening = [each for each in SHAPES if each[1] <= left and left - each[1] != 1]
        happening = happening or [each for each in SHAPES if each[1] <= left]
        weights = [often for _, _, often in happening]
        (happens, _, _) = chance.choices(happening, weights)[0]
        happens(made)
    made.close(order.until)
    return made


def _begin(order: Order, cast: Cast, chance: random.Random) -> Conversation:
    identifier = new_id(chance)
    person = cast.somebody(chance)
    topic = chance.choice(phrases.TOPICS[person.language])
    assistant = chance.choices(cast.assistants, (6, 2, 2))[0]
    session = ChatSession(
        pk=identifier,
        tenant_id=person.tenant.pk,
        user_id=person.user.pk,
        assistant=assistant,
        title=phrases.fill(chance, person.language, topic.title),
        title_source=chance.choice(("auto", "model", "user")),
        is_pinned=chance.random() < 0.02,
        is_archived=chance.random() < 0.08,
        is_held=chance.random() < 0.01,
        memory_enabled=False if chance.random() < 0.02 else None,
    )
    start = order.until - MONTHS * chance.random()
    return Conversation(chance, person, session, topic, start)


def _json(chance: random.Random, language: str, arguments: Any) -> str:
    filled = {name: phrases.fill(chance, language, text) for name, text in arguments.items()}
    return json.dumps(filled, ensure_ascii=False)
