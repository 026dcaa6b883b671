"""What people say and ask about themselves, read from the words alone, in English and Chinese.

Nothing here knows anything: a fact is a piece of a message, and an answer is found only where a
message holds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

NAME = "name"  # the key of who somebody is
LONGEST_SENTENCE = 400  # longer ones are not statements about oneself, and patterns stay cheap
MOST_SENTENCES = 1_000
MOST_QUOTED = 50

OPEN, CLOSE = '“"「『', '”"」』'
QUOTED = rf"[{OPEN}](?P<value>[^{OPEN}{CLOSE}\n]{{1,200}})[{CLOSE}]"


@dataclass(frozen=True)
class Fact:
    """Something that a message states: `key` compares, `label` is how it was written."""

    key: str
    label: str
    value: str


@dataclass(frozen=True)
class Question:
    """Something asked: `kind` is fact, everything or model; `firm` unless it may be small talk."""

    kind: str
    key: str = ""
    label: str = ""
    firm: bool = True


# --- Statements ---------------------------------------------------------------------------------

ASKED_TO_REMEMBER = re.compile(r"\bremember\b|\bkeep in mind\b|记住|记下|记一下|请记得", re.I)
ASKED_BEFORE = re.compile(  # talks about an earlier request to remember, and is none itself
    r"\b(?:asked|told) you\b|\bdid i (?:ask|tell)\b|记[住下](?:[的了过]|什么|哪些)", re.I
)
QUOTED_STATEMENTS = (
    re.compile(
        r"(?:记住|记下|记一下|请记得)(?![的了过])(?P<key>[^“\"「『，。,.：:\n]{0,20})[:：]?"
        + QUOTED
    ),
    re.compile(
        r"\bremember(?: that| this| the following)?:?\s*(?P<key>[\w' -]{0,60}?)(?: is| as)?:?\s*"
        + QUOTED,
        re.I,
    ),
)
SENTENCE_END = re.compile(r"(?<=[。！？!?；\n])|(?<=[.;])(?=\s)")
CLAUSE_END = re.compile(
    r",?\s+(?:and|but)\s+(?=(?:my|our|i|i'm|please|remember|reply|answer)\b)"
    r"|,\s*(?=(?:my|our|i|i'm|please|remember|what|who|which|can|could|do|reply|so)\b)"
    r"|，",
    re.I,
)
IDENTITY = (
    re.compile(r"\b(?:my name is|my name's|call me|i am called)\s+(?P<value>\S.{0,60})", re.I),
    re.compile(r"\b(?:I am|I'm)\s+(?P<value>[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,2})\b"),
    re.compile(
        r"^(?:.{0,10}(?:你好|您好|大家好|记住)[ ：:]?)?我(?:的名字)?(?:是|叫做?)(?P<value>.{1,30})"
    ),
)
STATEMENTS = (
    re.compile(r"\b(?P<key>(?:my|our) [\w' -]{1,60}?) (?:is|are|was) (?P<value>\S.{0,200})", re.I),
    re.compile(r"(?P<key>我们?(?:的|最)[^是为叫：:\s]{1,16})(?:是|为|叫做?)(?P<value>.{1,200})"),
)
REMEMBERED_STATEMENTS = (
    re.compile(
        r"^(?:.*?\bremember(?: that)?:? )?(?P<key>[\w' -]{1,60}?)(?: (?:is|are|was)|:)"
        r" (?P<value>\S.{0,200})",
        re.I,
    ),
    re.compile(
        r"(?:记住|记下|记一下|请记得)[：:， ]?(?P<key>[^是为：:\s]{1,20})(?:是|为|[：:])"
        r"(?P<value>.{1,200})"
    ),
    re.compile(r"(?P<key>[^是为：:\s]{1,20})(?:是|为)(?P<value>.{1,200})"),
)
NOTES = (
    re.compile(r"\bremember(?: that| this| the following)?:? (?P<value>\S.{0,200})", re.I),
    re.compile(r"(?:记住|记下|记一下|请记得)[：:，,]?(?P<value>.{1,200})"),
)
NOT_A_VALUE = re.compile(
    r"^(?:not|what|who|which|where|when|how|unknown)\b|^(?:什么|谁|哪|几|多少|怎|不|否|说|想|来|在|要)"
    r"|[吗呢么]$",
    re.I,
)
EDGES = ' \t\r\n.,;!?。，；！？：:~“”"「」『』'


def facts_in(text: str) -> list[Fact]:
    """What `text` states, in order; questions state nothing."""
    found = [
        fact
        for pattern in QUOTED_STATEMENTS
        for fact in islice(quoted_facts(pattern, text), MOST_QUOTED)
    ]
    seen = {fact.value for fact in found}
    for sentence in SENTENCE_END.split(text, maxsplit=MOST_SENTENCES):
        plain = len(sentence) <= LONGEST_SENTENCE and not any(value in sentence for value in seen)
        if plain and not is_question(sentence):
            found += facts_in_sentence(sentence)
    return found


def is_question(sentence: str) -> bool:
    return sentence.rstrip().endswith(("?", "？"))


def quoted_facts(pattern: re.Pattern[str], text: str) -> Iterable[Fact]:
    """Facts whose value stands in quotation marks."""
    for match in pattern.finditer(text):
        rest = SENTENCE_END.split(text[match.end() : match.end() + LONGEST_SENTENCE], maxsplit=1)
        if not is_question(rest[0]):
            yield fact(match.group("key"), match.group("value"))


def facts_in_sentence(sentence: str) -> list[Fact]:
    """The facts of one sentence, at most one a clause."""
    remembered = bool(ASKED_TO_REMEMBER.search(sentence) and not ASKED_BEFORE.search(sentence))
    found = [fact for part in CLAUSE_END.split(sentence) if (fact := clause_fact(part, remembered))]
    if not found and remembered:
        found = [note for pattern in NOTES if (note := matched(pattern, sentence, key=""))]
    return found[:8]


def clause_fact(clause: str, remembered: bool) -> Fact | None:
    """The fact that a clause states: who somebody is first, then what something is."""
    clause = clause.strip()
    patterns = [*STATEMENTS, *(REMEMBERED_STATEMENTS if remembered else ())]
    for pattern in IDENTITY:
        if stated := matched(pattern, clause, key=NAME):
            return stated
    for pattern in patterns:
        if stated := matched(pattern, clause):
            return stated
    return None


def matched(pattern: re.Pattern[str], text: str, key: str | None = None) -> Fact | None:
    """The fact of a pattern's first match, unless its value only looks like one."""
    match = pattern.search(text)
    if match is None:
        return None
    label = match.group("key") if key is None else key
    if ASKED_TO_REMEMBER.search(label):
        return None  # "remember: milk" names nothing
    value = re.sub("^(?:called|named) ", "", match.group("value").strip(EDGES))
    if not value or NOT_A_VALUE.search(value) or label.rstrip().endswith(("不", "没", " not")):
        return None
    return fact(label, value)


def fact(label: str, value: str) -> Fact:
    label = label.strip(EDGES)
    label = re.sub(r"(?:是|为)$", "", label)
    return Fact(core(label), own_words(label), value)


# --- Questions ----------------------------------------------------------------------------------

ABOUT_THE_MODEL = re.compile(
    r"\bwho (?:are|r) you\b|\bwhat are you\b|\bwhat(?:'?s| is) your name\b|\bwhich model\b"
    r"|\bwhat (?:ai |language )?model\b|\bare you (?:an? )?(?:real |true )?"
    r"(?:ai|human|person|bot|robot|chatgpt|gpt|llm|model)\b"
    r"|你是谁|您是谁|你是什么|你叫什么|你是(?:真的?)?(?:AI|人工智能|机器人|真人|人类|哪个模型)|什么模型",
    re.I,
)
ABOUT_NAME = re.compile(
    r"\bwho (?:am i|i am)\b|\bwhat(?:'?s| is| was) my name\b"
    r"|\b(?:do|can) you (?:still )?(?:remember|know|recall) my name\b|\btell me my name\b"
    r"|我是谁|我叫什么|我的?名字(?:是|叫)?(?:什么|啥)|(?:记得|知道)我的?名字.{0,6}吗|告诉我我?的?名字",
    re.I,
)
ABOUT_EVERYTHING = re.compile(
    r"\bwhat (?:did|have) i (?:ask|asked|tell|told) you(?: to (?:remember|keep in mind))?\s*\?*$"
    r"|\bwhat do you (?:remember|know) about me\b"
    r"|(?:让|要求|叫|请)你记住?了?(?:些)?(?:什么|哪些|的(?:是什么|内容|东西))|你(?:都)?记得(?:些)?什么|关于我你知道什么",
    re.I,
)
FIRM_QUESTIONS = (
    re.compile(
        r"\b(?:what|which) (?P<key>[\w' -]{1,60}?) (?:did|have|had) (?:i|we)"
        r" (?:ask|tell|give|mention|say|just)",
        re.I,
    ),
    re.compile(
        r"\b(?:what|who|which)(?:'?s| is| was| are| were) (?P<key>[\w' -]{1,60}?)"
        r"(?: (?:that )?(?:i|we) (?:asked|told|gave|wanted|mentioned|just)\b.*)?\s*(?:[?.,!;]|$)",
        re.I,
    ),
    re.compile(
        r"\b(?:do|can) you (?:still )?(?:remember|recall|know) (?:what )?(?P<key>[\w' -]{1,60}?)"
        r"(?: is| was)?\s*(?:[?.,!;]|$)",
        re.I,
    ),
    re.compile(
        r"(?P<key>[^，,。：:；;！!？?\n]{1,60}?)(?:是什么|是多少|是哪|是谁|叫什么|是几|是啥)"
    ),
    re.compile(r"记得(?P<key>[^，,。：:；;！!？?\n]{1,40}?)吗"),
)
REQUESTS = (
    re.compile(
        r"\b(?:tell|remind|give) me (?:again )?(?:of |about |what )?"
        r"(?P<key>(?:my|the|our) [\w' -]{1,60}?)"
        r"(?: (?:is|was|again|that|i)\b.*)?\s*(?:[?.,!;]|$)",
        re.I,
    ),
    re.compile(
        r"\b(?:repeat|say) (?P<key>(?:my|the|our) [\w' -]{1,60}?)\s*(?:again|[?.,!;]|$)", re.I
    ),
    re.compile(r"(?:告诉我|说出|重复|再说|提醒我)(?P<key>[^，,。：:；;！!？?\n]{1,40})"),
)
ONLY = re.compile(
    r"\bonly\b|\bnothing else\b|\bjust the\b|(?:只|仅|只需)(?:需要)?(?:回复|回答|说|输出|给出?)",
    re.I,
)
ACKNOWLEDGE = (
    re.compile(r"(?:只|仅|只需)(?:需要)?(?:回复|回答|说|输出)[：:]?\s*" + QUOTED),
    re.compile(
        r"\b(?:(?:reply|answer|respond|say)(?: with)? (?:only|just)"
        r"|(?:only|just) (?:reply|answer|respond|say))"
        r"(?: with)?:?\s*" + QUOTED,
        re.I,
    ),
)


def question_in(text: str) -> Question | None:
    """What `text` asks about its writer, about this model, or about something it names."""
    if len(text) > 10 * LONGEST_SENTENCE:
        return None
    if ABOUT_NAME.search(text):
        return Question("fact", NAME, NAME)
    if ABOUT_THE_MODEL.search(text):
        return Question("model")
    if ABOUT_EVERYTHING.search(text):
        return Question("everything")
    return asked_by(FIRM_QUESTIONS, text, firm=True) or asked_by(REQUESTS, text, firm=False)


def asked_by(patterns: Sequence[re.Pattern[str]], text: str, *, firm: bool) -> Question | None:
    for pattern in patterns:
        match = pattern.search(text)
        if match and core(match.group("key")):
            label = match.group("key")
            return Question("fact", core(label), own_words(label), firm)
    return None


def wants_only_the_answer(text: str) -> bool:
    return bool(ONLY.search(text))


def acknowledgement(text: str) -> str:
    """The words that the writer wants back and nothing else, or ""."""
    for pattern in ACKNOWLEDGE:
        if match := pattern.search(text):
            return match.group("value").strip()
    return ""


# --- Comparing ----------------------------------------------------------------------------------

CHINESE_AROUND = re.compile(
    r"^(?:请|能否|能不能|可以|再|帮我)*(?:告诉|提醒|回答|说)?(?:一下|一次|一遍)?我?(?:一下|一次|一遍)?"
    r"(?:你还?记得)?(?:刚才|刚刚|之前|前面|上面|先前|一开始|上次)?我?(?:要求|让|叫|请)?(?:你|您)?"
    r"(?:记住|记下|记得)?(?:过|了)?的?(?:那个|这个|那条)?(?:我们?的|我)?"
)
ENGLISH_AROUND = re.compile(r"^(?:(?:my|our|the|your|a|an|that|this|of|about)\s+)+", re.I)
SPELLINGS = {"favorite": "favourite", "color": "colour", "名字": NAME, "姓名": NAME}


def own_words(label: str) -> str:
    """A label without the words around it: "the verification phrase" -> "verification phrase"."""
    bare = ENGLISH_AROUND.sub("", CHINESE_AROUND.sub("", label.strip(EDGES)))
    return " ".join(bare.split()) or label.strip(EDGES)


def core(label: str) -> str:
    """A label for comparing: its own words, lower case, one spelling."""
    words = own_words(label).lower().replace("_", " ").split()
    return " ".join(SPELLINGS.get(word, word) for word in words)


def find(question: Question, facts: Sequence[Fact]) -> Fact | None:
    """The newest fact that answers: the same key, or a more exact one than was asked for."""
    newest_first = list(reversed(facts))
    for same in (
        lambda fact: fact.key == question.key,
        lambda fact: is_within(question.key, fact.key) and question.key != NAME,
        lambda fact: not fact.key and is_within(question.key, fact.value.lower()),
    ):
        if answer := next((fact for fact in newest_first if same(fact)), None):
            return answer
    return None


def is_within(asked: str, stated: str) -> bool:
    """Whether every word asked for was stated; Chinese, which has no spaces, as a piece."""
    if asked.isascii():
        return set(asked.split()) <= set(re.findall(r"[\w'-]+", stated))
    return asked in stated
