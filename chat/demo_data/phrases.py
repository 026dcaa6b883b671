"""What people in the sample data ask and what they are answered, in English and in Chinese.

Texts are put together from sentences with a few changing words, so that a million of them differ
and a search for a rare one finds few.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ENGLISH, CHINESE = "en", "zh"


@dataclass(frozen=True)
class Topic:
    """A subject: how it is named, what is asked about it, what is answered."""

    title: str
    questions: Sequence[str]
    answers: Sequence[str]


WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    ENGLISH: {
        "name": ("Maya", "Jonas", "Priya", "Tom", "Aisha", "Lena", "Diego", "Noor", "Sam", "Ruth"),
        "place": ("Lisbon", "Osaka", "Leeds", "Bergen", "Porto", "Quito", "Tartu", "Graz", "Izmir"),
        "thing": (
            "invoice",
            "contract",
            "boiler",
            "spreadsheet",
            "backup",
            "router",
            "syllabus",
            "recipe",
            "timetable",
            "lease",
            "prescription",
            "pull request",
        ),
        "trait": ("late", "incomplete", "too expensive", "out of date", "urgent", "not signed"),
    },
    CHINESE: {
        "name": ("小明", "王芳", "李雷", "陈晨", "张伟", "刘洋", "赵敏", "孙悦"),
        "place": ("杭州", "成都", "西安", "厦门", "哈尔滨", "昆明", "苏州", "青岛"),
        "thing": ("发票", "合同", "路由器", "表格", "备份", "课程表", "菜谱", "处方", "租约"),
        "trait": ("迟到了", "不完整", "太贵", "过期了", "很紧急", "还没签字"),
    },
}

TOPICS: Mapping[str, Sequence[Topic]] = {
    ENGLISH: (
        Topic(
            "Travel to {place}",
            (
                "I am going to {place} for {n} days with {name}. What should we not miss?",
                "Is the train from {place} to the airport still running at night?",
                "Book nothing yet: how much would {n} nights in {place} cost?",
            ),
            (
                "In {place} the old town is best in the morning, before the buses arrive.",
                "A day ticket costs about {n} euros and covers trams and the funicular.",
                "Keep one afternoon free: the weather there changes within {n} minutes.",
                "{name} may like the museum by the harbour; it is closed on Mondays.",
            ),
        ),
        Topic(
            "The {thing}",
            (
                "The {thing} from {name} is {trait}. What do I write back?",
                "Please check this {thing}: number {n}, signed in {place}.",
                "Why is my {thing} {trait}, and what happens after {n} days?",
            ),
            (
                "Start with what you need: a corrected {thing}, within {n} days.",
                "If it is {trait}, say so in the first sentence and name the number {n}.",
                "Keep a copy of the {thing}; {name} will ask for it.",
                "The usual notice is {n} working days, counted from when it arrived.",
            ),
        ),
        Topic(
            "Python question",
            (
                "How do I read {n} lines of a large CSV file without loading all of it?",
                "My loop over the {thing} takes {n} seconds. Why is it so slow?",
                "=SUM(A1:A{n}) gives an error in my {thing}. What is wrong?",
            ),
            (
                "Use a generator: it holds one row at a time.",
                "```python\nwith open('data-{n}.csv', newline='') as file:\n"
                "    for row in csv.reader(file):\n        handle(row)\n```",
                "Measure first: `python -m cProfile` names the function that takes the time.",
                "Replacing the list by a set turned {n} seconds into one.",
            ),
        ),
        Topic(
            "Learning for the exam",
            (
                "Explain photosynthesis to a child of {n}.",
                "Quiz me with {n} questions about the {thing}.",
                "I forgot what we said about {place} yesterday. Can you repeat it?",
            ),
            (
                "Plants take light, water and air and make sugar of them; oxygen is what is left.",
                "| question | answer |\n| --- | --- |\n| Where is {place}? | on page {n} |",
                "Repeat it after {n} minutes, then tomorrow, then in a week.",
                "{name} learns best by explaining it to somebody else. 🙂",
            ),
        ),
    ),
    CHINESE: (
        Topic(
            "去{place}旅行",
            (
                "我下周要和{name}去{place}玩{n}天，有什么推荐？",
                "{place}{n}月份的天气怎么样？需要带伞吗？",
                "从{place}机场到市区最便宜的办法是什么？",
            ),
            (
                "{place}的老城区适合早上去，人少，光线也好。",
                "地铁单程大约{n}元，可以用手机扫码。",
                "建议留出半天时间，因为{place}的天气变化很快。",
                "{name}如果喜欢安静，可以去湖边的茶馆。",
            ),
        ),
        Topic(
            "关于{thing}",
            (
                "{name}给我的{thing}{trait}，我应该怎么回复？",
                "请帮我检查这份{thing}，编号是{n}。",
                "为什么我的{thing}{trait}？过了{n}天还能改吗？",
            ),
            (
                "第一句先说明你需要什么：请在{n}天内重新发一份{thing}。",
                "如果{trait}，就直接写出来，并注明编号{n}。",
                "请保留{thing}的复印件，{name}以后可能会问。",
                "一般的期限是{n}个工作日，从收到那天算起。",
            ),
        ),
        Topic(
            "学习计划",
            (
                "怎样在{n}天内复习完第一章？",
                "用简单的话解释一下光合作用。",
                "昨天我们关于{place}说了什么？我忘记了。",
            ),
            (
                "每天{n}分钟就够了，关键是隔天再复习一次。",
                "植物用阳光、水和空气制造糖，剩下的是氧气。",
                "可以请{name}听你讲一遍，讲不清楚的地方就是没懂的地方。🙂",
            ),
        ),
    ),
}

CALLS: Sequence[tuple[str, Mapping[str, str], str]] = (
    ("current_time", {"zone": "Europe/Lisbon"}, "2026-03-{n} 14:0{d}:00 (Europe/Lisbon)"),
    ("search_history", {"query": "{thing}"}, "1. message {n}: The {thing} is {trait}."),
    ("remember", {"key": "place", "text": "Lives in {place}."}, "Kept: Lives in {place}."),
)
FAILED_RESULT = "The tool took longer than {n} seconds."
COMMENTS = ("Very helpful, thank you!", "Wrong: the number is {n}.", "太长了", "很好 👍", "=1+1")
NOTES = (
    "The answer names a price that is {trait}.",
    "Good answer about {place}.",
    "引用需要核对。",
)
SUMMARIES = {
    ENGLISH: "{name} asked about the {thing}, which is {trait}.",
    CHINESE: "{name}想去{place}，预算{n}元。",
}
PREFERENCES: Sequence[tuple[str, str]] = (
    ("language", "Answer in English."),
    ("place", "Lives in {place}."),
    ("name", "Is called {name}."),
    ("length", "回答请简短。"),
    ("diet", "Eats no meat."),
)


def fill(chance: random.Random, language: str, template: str) -> str:
    """`template` with words in its gaps."""
    if "{" not in template:
        return template
    words = {name: chance.choice(choices) for name, choices in WORDS[language].items()}
    return template.format(n=chance.randint(2, 9_999), d=chance.randint(0, 9), **words)


def question(chance: random.Random, language: str, topic: Topic) -> str:
    return fill(chance, language, chance.choice(topic.questions))


def answer(chance: random.Random, language: str, topic: Topic) -> str:
    """One to eight sentences."""
    count = min(8, 1 + int(chance.expovariate(0.4)))
    between = "\n\n" if count > 5 else (" " if language == ENGLISH else "")
    return between.join(fill(chance, language, chance.choice(topic.answers)) for _ in range(count))


def long_text(chance: random.Random, language: str, topic: Topic, length: int) -> str:
    """A text of exactly `length` characters."""
    paragraph = "".join(f"{answer(chance, language, topic)}\n" for _ in range(20))
    return (paragraph * (length // len(paragraph) + 1))[:length]
