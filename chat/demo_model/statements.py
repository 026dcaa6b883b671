"""What a sentence says beyond facts: lasting wishes, decisions, limits, open tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chat.demo_model.directives import LINE
from chat.demo_model.facts import EDGES, LONGEST_SENTENCE, SENTENCE_END, is_question
from memory.text import CHINESE

MOST_SENTENCES = 200

CODE_LANGUAGES = (
    "Java|Kotlin|Python|Go|Rust|TypeScript|JavaScript|Swift|Ruby|PHP|Scala|Haskell|Perl|SQL|R"
)
LANGUAGES = (
    "English|Chinese|German|French|Spanish|Italian|Japanese|Korean|Portuguese|Russian|Arabic|Hebrew"
)
CHINESE_LANGUAGES = "中文|汉语|英文|英语|德语|法语|日语|日文|韩语|西班牙语|俄语"

LASTING = re.compile(
    r"\bfrom now on\b|\balways\b|\bin (?:the )?future\b|\bevery time\b|\bnever again\b"
    r"|\bI (?:really |much )?(?:prefer|like|love|hate|dislike)\b|\bI (?:don't|do not) like\b"
    r"|\b(?:code )?examples? in \w+, please\b|\bplease (?:always|never)\b"
    r"|以后|今后|从现在(?:起|开始)|总是|一律|每次都|我(?:更|最|很|不)?喜欢|我偏好|我习惯",
    re.I,
)
PATTERNS = {
    "decisions": re.compile(
        r"\b(?:we|I)(?:'ve| have)? (?:decided|agreed|settled)\b"
        r"|\blet'?s (?:use|go with|take|call)\b"
        r"|\bwe(?:'ll| will) (?:use|go with|take)\b|\bdecision\b"
        r"|决定|就用|就定|定为|选定|采用|同意用",
        re.I,
    ),
    "constraints": re.compile(
        r"\bmust(?: not|n't)?\b|\bnever\b|\bat most\b|\bno more than\b|\bat least\b|\bonly\b"
        r"|\b(?:do not|don't) (?:use|touch|change|write)\b|\bfrom now on\b|\balways\b"
        r"|必须|不能|不要|不得|不许|最多|至少|只能|以后|一律",
        re.I,
    ),
    "open_tasks": re.compile(
        r"\bto-?do\b|\bstill (?:need|have|must|to)\b|\bnext step\b|\bremains? to\b|\bneeds? to be\b"
        r"|待办|还需要|还要|接下来|下一步|有待",
        re.I,
    ),
}
IN_ENGLISH = {
    "代码语言": "code language",
    "回答语言": "answer language",
    "回答长度": "answer length",
}
"""Subjects that are the same in both languages."""
DONE = re.compile(
    r"\b(?:is|are|was) (?:now )?(?:done|finished|ready)\b|已(?:经)?(?:完成|做完|好了)", re.I
)


FORGET = re.compile(
    r"\s*(?:please |do |now )*(?:forget|stop remembering)\b(?: that| about)?(?P<what>.*)"
    r"|\s*(?:请|请你)?(?:忘记|忘掉|忘了)(?P<zh>.*)",
    re.I | re.S,
)


@dataclass(frozen=True)
class Wish:
    """A lasting wish: its subject (`key`), and the words that say it."""

    key: str
    text: str


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text that are not questions, without directives and long ones."""
    for sentence in SENTENCE_END.split(LINE.sub("", text), maxsplit=MOST_SENTENCES):
        words = sentence.strip(" \t\r\n")
        if words.strip(EDGES) and len(words) <= LONGEST_SENTENCE and not is_question(words):
            yield words


def wishes_in(text: str) -> Iterator[Wish]:
    """The lasting wishes of a text, one a sentence; to have something forgotten is none."""
    for sentence in sentences(text):
        if LASTING.search(sentence) and not FORGET.match(sentence):
            yield Wish(subject(sentence), sentence)


def subject(words: str) -> str:
    """What a wish is about, in a word or two of its own language."""
    is_chinese = bool(CHINESE.search(words))
    if re.search(rf"(?<![A-Za-z])(?:{CODE_LANGUAGES})(?![A-Za-z])", words) or re.search(
        r"\bcode\b|代码", words, re.I
    ):
        return "代码语言" if is_chinese else "code language"
    if re.search(rf"\b(?:{LANGUAGES})\b|{CHINESE_LANGUAGES}", words, re.I):
        return "回答语言" if is_chinese else "answer language"
    if re.search(r"\b(?:brief|short|long|detailed|concise)\b|简短|简洁|详细|短一点", words, re.I):
        return "回答长度" if is_chinese else "answer length"
    return own_subject(words, is_chinese)


def own_subject(words: str, is_chinese: bool) -> str:
    """The words after the one that says that it is a wish, or before it."""
    rest = re.sub(
        r"^.*?(?:prefer|like|love|hate|dislike|always|never)\s+|\bfrom now on\b",
        "",
        words,
        flags=re.I,
    )
    if is_chinese:
        rest = re.sub(
            r"^.*?(?:喜欢|偏好|习惯|以后|今后|从现在起|从现在开始|总是|一律|每次都)", "", words
        )
        return rest.strip(EDGES)[:8] or "偏好"
    return " ".join(rest.strip(EDGES).split()[:3]).lower() or "preference"


def kind_of(sentence: str) -> str:
    """What a sentence is in the minutes of a conversation: a kind of item, or ""."""
    return next((kind for kind, pattern in PATTERNS.items() if pattern.search(sentence)), "")
