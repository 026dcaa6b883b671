"""What the demo model answers: a pure function of the request and of nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chat.demo_model import directives, phrases, samples, tasks, tool_use
from chat.demo_model.directives import BadDirective, Orders, ToolOrder
from chat.demo_model.facts import (
    ASKED_TO_REMEMBER,
    NAME,
    Question,
    acknowledgement,
    facts_in,
    find,
    question_in,
    wants_only_the_answer,
)
from chat.demo_model.heard import Heard

SLOW_MS = 200
LONGEST_PIECE = 12

HELP = re.compile(r"\s*/?(?:help|帮助|幫助)\s*[.!?。！？]*\s*", re.I)
SLOWLY = re.compile(r"\bslowly\b|慢慢|慢一点|慢点", re.I)
WRITE_LONG = re.compile(
    r"\b(?:write|give|show|tell|make)\b.{0,40}\b(?:long|markdown)\b"
    r"|\blong (?:answer|text|story|essay|reply|markdown)\b"
    r"|(?:写|来|给|讲|生成|输出).{0,20}(?:长|markdown)|(?:很|超)长的(?:回答|文字|文章|故事|回复)",
    re.I,
)
# A word with the blanks before it, or a few characters of a script that has no blanks.
PIECE = re.compile(r"\s*[\u3040-\u9fff\uac00-\ud7af]{1,2}|\s*[^\s\u3040-\u9fff\uac00-\ud7af]+|\s+")


@dataclass(frozen=True)
class Failure:
    """An HTTP error instead of an answer."""

    status: int
    message: str
    kind: str
    code: str | None = None
    retry_after: int | None = None


@dataclass(frozen=True)
class Reply:
    """An answer, and how it is to be delivered (`delay_ms` None: as the settings say)."""

    text: str = ""
    tools: tuple[ToolOrder, ...] = ()
    finish: str = "stop"
    delay_ms: int | None = None
    wait: float = 0.0
    break_after: int | None = None
    usage: bool = True
    failure: Failure | None = None


def reply_to(heard: Heard) -> Reply:
    """The reply to a request; equal requests get equal replies."""
    if (task := tasks.task_in(heard.question)) is not None:
        return Reply(text=tasks.answer(task), delay_ms=0)
    try:
        orders, words = directives.split(heard.question)
    except BadDirective as problem:
        return Reply(text=phrases.help_text(heard.language, str(problem)))
    delay = orders.delay_ms
    if delay is None and SLOWLY.search(words[:2000]):
        delay = SLOW_MS
    calls = orders.tools if not heard.tool_results else ()
    if not calls and not orders.content:
        calls = tool_use.calls_for(heard, words)
    return Reply(
        text="" if calls else content(heard, orders, words),
        tools=calls,
        finish=orders.finish or ("tool_calls" if calls else "stop"),
        delay_ms=delay,
        wait=orders.wait,
        break_after=orders.break_after,
        usage=orders.usage,
        failure=failure(orders, heard) if orders.fail else None,
    )


def failure(orders: Orders, heard: Heard) -> Failure:
    """The ordered error in OpenAI's terms."""
    if orders.fail == "context":
        return Failure(
            400,
            "This model's maximum context length is 1 tokens, as this message ordered.",
            "invalid_request_error",
            "context_length_exceeded",
        )
    status = int(orders.fail)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    code = "rate_limit_exceeded" if status == 429 else None
    words = "这条消息要求返回错误" if heard.language == "zh" else "this message ordered an error"
    return Failure(status, f"HTTP {status}: {words}.", kind, code, orders.retry_after)


def content(heard: Heard, orders: Orders, words: str) -> str:
    """The text that a directive orders, or the answer to plain words."""
    language = heard.language
    if heard.tool_results:
        return tool_use.after_tools(heard, words)
    match orders.content:
        case "help":
            return phrases.help_text(language)
        case "long":
            return long_text(language, orders.pieces)
        case "markdown":
            return samples.markdown(language)
        case "echo":
            return words
        case "json":
            return orders.json
        case "context":
            return phrases.received(language, heard)
    said = spoken(heard, words)
    return f"{phrases.images(language, heard.images)}\n\n{said}" if heard.images else said


def spoken(heard: Heard, words: str) -> str:
    """The answer to a message without directives."""
    language = heard.language
    if HELP.fullmatch(words[:100]):
        return phrases.help_text(language)
    question = question_in(words)
    if question and question.firm:
        return answer(heard, question, words)
    if stated := facts_in(words):
        asked = bool(ASKED_TO_REMEMBER.search(words))
        return (asked and acknowledgement(words)) or phrases.noted(language, stated, asked=asked)
    if question and find(question, heard.facts):
        return answer(heard, question, words)
    if WRITE_LONG.search(words[:2000]):
        return long_text(language, Orders().pieces)
    return phrases.plain(language, heard)


def answer(heard: Heard, question: Question, words: str) -> str:
    """The answer to a question, found among what was received or not at all."""
    language = heard.language
    if question.kind == "model":
        return phrases.who_i_am(language)
    if question.kind == "everything":
        return phrases.everything(language, heard.facts)
    fact = find(question, heard.facts)
    if fact is None:
        return phrases.not_found(language, question.label, heard)
    if wants_only_the_answer(words):
        return fact.value
    if question.key == NAME:
        names = dict.fromkeys(each.value for each in heard.facts if each.key == NAME)
        return phrases.found_name(language, list(names))
    return phrases.found(language, fact)


def long_text(language: str, count: int) -> str:
    """A markdown text of `count` pieces or a little more, in whole sections."""
    parts = [samples.opening(language)]
    written = len(pieces(parts[0]))
    while written < count:
        parts.append(samples.section(language, len(parts)))
        written += 1 + len(pieces(parts[-1]))
    return "\n\n".join(parts)


def pieces(text: str) -> list[str]:
    """`text` in pieces of about a token, which join to it exactly; long words are cut."""
    longest = max(LONGEST_PIECE, len(text) // 10_000)
    return [
        piece[start : start + longest]
        for piece in PIECE.findall(text)
        for start in range(0, len(piece), longest)
    ]
