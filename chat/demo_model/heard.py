"""A request as the demo model hears it: the question apart from what was sent along with it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chat.demo_model.facts import Fact, core, facts_in, own_words
from memory.text import CHINESE

BLOCK = re.compile(r"\s*<(?P<name>[a-z][a-z_]{0,60})>\n(?P<body>.*?)</(?P=name)>\s*", re.S)
BLOCK_LINE = re.compile(r"^- (?:\[[^\]\n]*\] )?(?P<key>[^:\n]{1,200}): (?P<value>[^\n]*)$", re.M)
LATIN_WORD = re.compile(r"[A-Za-z]+")

SYSTEM_ROLES = ("system", "developer")
PROSE = ("conversation_summary", "about_the_user")  # blocks whose lines are sentences


class NotARequest(ValueError):
    """A request that is not one; its text says what is wrong and where."""


@dataclass(frozen=True)
class Block:
    """A block of reference data at the head of a user message."""

    name: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Turn:
    """One message: its role, its own words, and the blocks that stood before them."""

    role: str
    text: str
    blocks: tuple[Block, ...] = ()
    images: int = 0


@dataclass(frozen=True)
class Heard:
    """Everything that an answer may be made of."""

    turns: tuple[Turn, ...]
    stream: bool
    include_usage: bool
    max_tokens: int | None
    offered: frozenset[str] = frozenset()
    """Names of the tools that may be called."""

    @cached_property
    def position(self) -> int:
        """Where the question stands: the last user message."""
        users = [index for index, turn in enumerate(self.turns) if turn.role == "user"]
        return users[-1] if users else len(self.turns)

    @cached_property
    def question(self) -> str:
        return self.turns[self.position].text if self.position < len(self.turns) else ""

    @property
    def images(self) -> int:
        """How many images came with the question."""
        return self.turns[self.position].images if self.position < len(self.turns) else 0

    @property
    def earlier(self) -> tuple[Turn, ...]:
        """The conversation before the question."""
        return tuple(turn for turn in self.turns[: self.position] if turn.role not in SYSTEM_ROLES)

    @property
    def tool_results(self) -> tuple[str, ...]:
        """What tools answered to this question so far."""
        return tuple(turn.text for turn in self.turns[self.position :] if turn.role == "tool")

    @property
    def has_prompt(self) -> bool:
        return any(turn.role in SYSTEM_ROLES and turn.text.strip() for turn in self.turns)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(block for turn in self.turns for block in turn.blocks)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What the user stated and what blocks hold, oldest first; never the assistant's words."""
        return tuple(fact for turn in self.turns for fact in stated_in(turn))

    @cached_property
    def language(self) -> str:
        """ "zh" or "en": the language of the question, or of the newest message that has one."""
        for turn in reversed(self.turns[: self.position + 1]):
            if turn.role == "user" and (found := language_of(turn.text)):
                return found
        return "en"


def stated_in(turn: Turn) -> Iterator[Fact]:
    if turn.role in ("user", *SYSTEM_ROLES):
        for block in turn.blocks:
            yield from block.facts
        yield from facts_in(turn.text)


def language_of(text: str) -> str:
    """ "zh", "en", or "" for text without a word; a directive's own words do not count."""
    spoken = re.sub(r"^\s*demo\s*[:：].*$", "", text, flags=re.M | re.I)[:4000]
    chinese, latin = len(CHINESE.findall(spoken)), len(LATIN_WORD.findall(spoken))
    if not chinese and not latin:
        return ""
    return "zh" if chinese >= latin else "en"


def hear(body: Any) -> Heard:
    """Read a request body; raises NotARequest with what is wrong."""
    if not isinstance(body, Mapping):
        raise NotARequest("The body must be a JSON object.")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise NotARequest("'messages' must be a list with at least one message.")
    options = body.get("stream_options")
    return Heard(
        turns=tuple(turn_of(index, message) for index, message in enumerate(messages)),
        stream=bool(body.get("stream")),
        include_usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
        max_tokens=limit_of(body),
        offered=tools_of(body),
    )


def tools_of(body: Mapping[str, Any]) -> frozenset[str]:
    tools = body.get("tools")
    if not isinstance(tools, list) or body.get("tool_choice") == "none":
        return frozenset()
    functions = [each.get("function") for each in tools if isinstance(each, Mapping)]
    return frozenset(str(each.get("name")) for each in functions if isinstance(each, Mapping))


def turn_of(index: int, message: Any) -> Turn:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise NotARequest(f"messages[{index}] must be an object with a role.")
    text = text_of(index, message.get("content"))
    if message["role"] != "user":
        return Turn(message["role"], text)
    blocks, rest = split_blocks(text)
    return Turn("user", rest, blocks, images_of(message.get("content")))


def images_of(content: Any) -> int:
    parts = content if isinstance(content, list) else []
    return sum(part.get("type") == "image_url" for part in parts)


def text_of(index: int, content: Any) -> str:
    """The text of a message: plain, absent (a tool call), or the text parts of several."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence) and all(isinstance(part, Mapping) for part in content):
        return "\n".join(
            str(part.get("text", "")) for part in content if part.get("type") == "text"
        )
    raise NotARequest(f"messages[{index}].content must be text or a list of parts.")


def split_blocks(text: str) -> tuple[tuple[Block, ...], str]:
    """The blocks at the head of a message, and the words after them."""
    blocks = []
    while match := BLOCK.match(text):
        name, body = match.group("name"), match.group("body")
        blocks.append(Block(name, tuple(prose_facts(body) if name in PROSE else block_facts(body))))
        text = text[match.end() :]
    return tuple(blocks), text


def block_facts(body: str) -> Iterator[Fact]:
    for line in BLOCK_LINE.finditer(body):
        key, value = html.unescape(line.group("key")), html.unescape(line.group("value"))
        yield Fact(core(key), own_words(key), value.strip())


def prose_facts(body: str) -> Iterator[Fact]:
    """What each line of a summary or a digest states: `key: value`, or a sentence."""
    for line in body.splitlines()[1:]:
        listed = line if line.startswith("- ") else f"- {line}"
        noted = list(block_facts(listed))
        yield from noted or facts_in(html.unescape(listed[2:]))


def limit_of(body: Mapping[str, Any]) -> int | None:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise NotARequest(f"'max_tokens' must be a positive integer, not {limit!r}.")
    return limit
