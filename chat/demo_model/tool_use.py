"""When the demo model calls a tool by itself: an explicit wish to remember, an earlier talk."""

from __future__ import annotations

import json
import re

from chat.demo_model import phrases
from chat.demo_model.directives import ToolOrder
from chat.demo_model.facts import (
    EDGES,
    Fact,
    Question,
    acknowledgement,
    facts_in,
    find,
    question_in,
)
from chat.demo_model.heard import Heard
from chat.demo_model.statements import FORGET, subject
from memory.words import question_tokens

PREFERENCES_BLOCK = "saved_preferences"
REMEMBER, FORGET_TOOL, SEARCH = "remember", "forget", "search_history"
WISH = re.compile(
    r"\bremember(?: that)?:? (?P<wish>I (?:always |really |never )?(?:prefer|like|love|want|hate"
    r"|dislike|use|don't like|do not like)\b[^\n]{1,300})"
    r"|(?:记住|记下|请记得)[：:，, ]?"
    r"(?P<zh>我(?:更|最|很|不|总是)?(?:喜欢|偏好|习惯|希望|讨厌)[^\n]{1,200})",
    re.I,
)
EARLIER = re.compile(
    r"\b(?:that )?(?:we (?:talked|spoke) about|I (?:told|gave) you)(?: last time| in)?\b"
    r"|\blast time\b"
    r"|\b(?:(?:in|from) )?(?:my|our|an|the)? ?(?:earlier|previous|another|other|last|past)"
    r" (?:conversation|chat|talk)s?\b"
    r"|上次|上一次|在?(?:以前|之前)的?(?:对话|聊天)(?:里|中)?|在?(?:别的|另一个)对话(?:里|中)?|早先",
    re.I,
)


def calls_for(heard: Heard, words: str) -> tuple[ToolOrder, ...]:
    """The call that a message asks for, if its tool is offered and was not called for it yet."""
    if heard.tool_results:
        return ()
    if REMEMBER in heard.offered and (wish := wish_in(words)):
        return (order(REMEMBER, key=subject(wish), text=wish),)
    if FORGET_TOOL in heard.offered and (key := unwanted_in(heard, words)):
        return (order(FORGET_TOOL, key=key),)
    if SEARCH in heard.offered and (looked_for := looked_for_in(heard, words)):
        return (order(SEARCH, words=looked_for),)
    return ()


def wish_in(words: str) -> str:
    """What somebody wants to be remembered of themselves, or ""."""
    match = WISH.search(words[:2000])
    if match is None or acknowledgement(words):
        return ""
    return (match.group("wish") or match.group("zh")).strip(EDGES)


def unwanted_in(heard: Heard, words: str) -> str:
    """The key of what somebody wants to have forgotten, among the preferences that came along."""
    match = FORGET.match(words[:2000])
    if match is None:
        return ""
    what = match.group("what") or match.group("zh") or ""
    wanted = set(question_tokens(what))
    known = [
        fact for block in heard.blocks if block.name == PREFERENCES_BLOCK for fact in block.facts
    ]
    shared = [
        len(wanted & set(question_tokens(f"{fact.key} {fact.value}"))) if fact.key else 0
        for fact in known
    ]
    best = max(shared, default=0)
    return known[shared.index(best)].key if best else ""


def looked_for_in(heard: Heard, words: str) -> str:
    """What is asked about an earlier conversation and was not received, or ""."""
    question = earlier_question(words)
    if question is None or find(question, heard.facts):
        return ""
    return question.label


def earlier_question(words: str) -> Question | None:
    """A question about something that was said in another conversation."""
    rest, count = EARLIER.subn(" ", words[:2000])
    question = question_in(rest) if count else None
    return question if question is not None and question.kind == "fact" else None


def after_tools(heard: Heard, words: str) -> str:
    """The answer once the tools have answered."""
    language, results = heard.language, heard.tool_results
    if (wish := wish_in(words)) and results[-1].startswith("Remembered"):
        return phrases.kept(language, wish)
    if FORGET.match(words[:2000]) and results[-1].startswith("Forgotten"):
        return phrases.forgotten(language, results[-1].removeprefix("Forgotten: "))
    if (question := earlier_question(words)) is not None:
        facts = [fact for text in results for fact in facts_of(text)]
        if fact := find(question, facts):
            return phrases.found_earlier(language, fact)
    return phrases.tool_answered(language, results)


def facts_of(result: str) -> list[Fact]:
    """What the messages in a result of `search_history` state."""
    return [fact for line in result.splitlines() for fact in facts_in(line)]


def order(name: str, **arguments: str) -> ToolOrder:
    return ToolOrder(name, json.dumps(arguments, ensure_ascii=False))
