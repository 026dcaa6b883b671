"""How much of a request did the provider see in the request before it?

A provider's prompt cache hits as far as two requests begin with the same tokens. When a full window
moves on by one exchange, everything behind the prompt changes its place. With a stride the window
stays where it is for some turns and then gives up several exchanges at once: more of each request
is unchanged, and less history is in it.

Simulated: conversations of 200 turns, at most 20 historical messages, requests as the product
assembles them. "unchanged": the share of all input tokens in the messages that both requests begin
with. "cached": the same in steps of 128 tokens from 1,024 on, as OpenAI's cache has it. "cost":
input tokens when a cached one costs a quarter, against stride 0.
"""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from memory.blocks import PreferenceText  # noqa: E402
from memory.context import Assembled, Budget, HistoryMessage, Window, assemble  # noqa: E402
from memory.history import MemoryPolicy, SessionState, extend  # noqa: E402
from memory.messages import Message  # noqa: E402
from memory.tokens import counter_for  # noqa: E402

TURNS = 200
MAX_MESSAGES = 20
STRIDES = (0, 2, 4, 6, 8, 10, 12, 14, 16, 18)
CACHED_PRICE = 0.25
PROMPT = "You answer questions about the company's handbook, briefly and with the source. " * 25
TEXT = "the window of a conversation holds what was said last and nothing of it twice"
ENCODING = "o200k_base"
COUNT = counter_for(ENCODING)
ROOMY = Budget(1_000_000, 0, 0)
PREFERENCES = (PreferenceText(1, "examples", "in Python", "all", "user"),)


@dataclass(frozen=True)
class Kind:
    """A kind of conversation: the words of its questions and of its answers."""

    name: str
    asked: tuple[int, int]
    answered: tuple[int, int]
    preferences: tuple[PreferenceText, ...] = ()


KINDS = (
    Kind("short answers", (5, 40), (20, 120)),
    Kind("long answers", (5, 60), (100, 700)),
    Kind("long answers, with preferences", (5, 60), (100, 700), PREFERENCES),
)


@dataclass
class Total:
    tokens: int = 0
    unchanged: int = 0
    cached: int = 0
    messages: int = 0
    requests: int = 0

    def add(self, request: Assembled, before: Assembled | None) -> None:
        unchanged = unchanged_tokens(request, before) if before else 0
        self.tokens += request.tokens
        self.unchanged += unchanged
        self.cached += unchanged // 128 * 128 if unchanged >= 1_024 else 0
        self.messages += request.manifest["window"]["messages"]
        self.requests += 1

    @property
    def cost(self) -> float:
        return self.tokens - self.cached * (1 - CACHED_PRICE)


def unchanged_tokens(request: Assembled, before: Assembled) -> int:
    """Tokens of the messages that both requests begin with."""
    total = 0
    for one, other, part in zip(
        request.messages, before.messages, request.manifest["parts"], strict=False
    ):
        if (one.role, one.content) != (other.role, other.content):
            break
        total += part["tokens"]
    return total


def messages_of(kind: Kind, seed: int) -> Iterator[tuple[HistoryMessage, HistoryMessage]]:
    """The questions and answers of one conversation."""
    chance = random.Random(seed)
    for turn in range(TURNS):
        question = Message.user(f"{turn} " + words(chance, kind.asked))
        answer = Message.assistant(f"{turn} " + words(chance, kind.answered))
        yield stored(2 * turn + 1, question), stored(2 * turn + 2, answer)


def words(chance: random.Random, between: tuple[int, int]) -> str:
    return " ".join(chance.choices(TEXT.split(), k=chance.randint(*between)))


def stored(seq: int, message: Message) -> HistoryMessage:
    return HistoryMessage(
        message, seq, str(uuid.UUID(int=seq)), None, tokens=COUNT(message), encoding=ENCODING
    )


def simulate(
    conversation: Sequence[tuple[HistoryMessage, HistoryMessage]], kind: Kind, stride: int
) -> Total:
    policy = MemoryPolicy(True, MAX_MESSAGES, None, stride, True, ENCODING)
    window = Window((), (), "rebuild")
    total, before = Total(), None
    for question, answer in conversation:
        request = assemble(
            prompt=PROMPT,
            window=window,
            current=question,
            preferences=kind.preferences,
            budget=ROOMY,
            encoding=ENCODING,
        )
        total.add(request, before)
        before = request
        state = SessionState(uuid.UUID(int=0), 0, 0, question.seq - 1)
        window = extend(window, [question, answer], state, policy)
    return total


def main() -> None:
    for kind in KINDS:
        conversation = list(messages_of(kind, seed=7))
        print(f"\n{kind.name}: {TURNS} turns, max_messages={MAX_MESSAGES}")
        print(f"{'stride':>6} {'unchanged':>10} {'cached':>8} {'history':>8} {'cost':>7}")
        base = None
        for stride in STRIDES:
            total = simulate(conversation, kind, stride)
            base = base or total.cost
            print(
                f"{stride:6} {total.unchanged / total.tokens:10.1%}"
                f" {total.cached / total.tokens:8.1%} {total.messages / total.requests:8.1f}"
                f" {total.cost / base:7.2f}"
            )


if __name__ == "__main__":
    main()
