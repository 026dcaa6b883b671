"""What the demo model says, in English and Chinese; every text is a function of what it heard."""

from __future__ import annotations

from collections.abc import Sequence

from chat.demo_model.directives import USAGE
from chat.demo_model.facts import NAME, Fact
from chat.demo_model.heard import Heard

Language = str


def who_i_am(language: Language) -> str:
    if language == "zh":
        return (
            "我是演示模型（demo）：一个按固定脚本回答的程序，不是 AI，也不是真人。"
            "我只知道这次请求里收到的消息。输入“帮助”可以看到我能演示什么。"
        )
    return (
        "I am the demo model: a program that answers by a fixed script, not an AI and not a"
        ' person. I know nothing but the messages of this request. Write "help" to see what I can'
        " show."
    )


def help_text(language: Language, problem: str = "") -> str:
    """The list of directives; `problem` says what was wrong with the one that was given."""
    chinese = language == "zh"
    rows = "\n".join(
        f"| `{key}` | {in_chinese if chinese else english} |" for key, english, in_chinese in USAGE
    )
    if chinese:
        head = f"这条指令我看不懂：{problem}。\n\n" if problem else ""
        return (
            f"{head}{who_i_am('zh').split('。')[0]}。\n\n"
            "你可以让我记住一件事、再问我；问“我是谁”；让我写一段很长的 markdown，或者慢慢写。"
            "也可以单独写一行指令 `demo: 指令 值; 指令 值`：\n\n"
            f"| 指令 | 作用 |\n| --- | --- |\n{rows}"
        )
    head = f"I cannot follow this directive: {problem}.\n\n" if problem else ""
    return (
        f"{head}I am the demo model, scripted and not an AI.\n\n"
        'Ask me to remember something and ask for it later; ask "Who am I?"; ask for a long'
        " markdown text, or for one written slowly. Or give directives on a line of their own,"
        " `demo: key value; key value`:\n\n"
        f"| directive | what it does |\n| --- | --- |\n{rows}"
    )


def noted(language: Language, facts: Sequence[Fact], *, asked: bool) -> str:
    """The confirmation of what a message states; `asked`: it asked to remember it."""
    named = [fact for fact in facts if fact.key == NAME]
    listed = ("；" if language == "zh" else "; ").join(stated(language, fact) for fact in facts)
    if named and not asked:
        return greeting(language, named[-1].value)
    if language == "zh":
        return f"我看到了：{listed}。只要这条消息还在发给我的内容里，我就能找到它。"
    return f"I have read it: {listed}. I can find it again as long as I am sent that message."


def greeting(language: Language, name: str) -> str:
    if language == "zh":
        return f"你好，{name}！只要这条消息还在发给我的内容里，我就能说出你是谁。"
    return f"Nice to meet you, {name}! I can say who you are as long as I am sent that message."


def stated(language: Language, fact: Fact) -> str:
    if not fact.key:
        return fact.value
    if language == "zh":
        return f"{'你是' if fact.key == NAME else fact.label}“{fact.value}”"
    return f'{"your name" if fact.key == NAME else fact.label} is "{fact.value}"'


def found(language: Language, fact: Fact) -> str:
    """The answer to a question about a fact other than somebody's name."""
    if not fact.key:
        return (
            f"你让我记住的是：“{fact.value}”。"
            if language == "zh"
            else f'You asked me to remember: "{fact.value}".'
        )
    if language == "zh":
        return f"{fact.label}是“{fact.value}”，写在我收到的消息里。"
    return f'The {fact.label} is "{fact.value}": it stands in the messages that I received.'


def found_name(language: Language, names: Sequence[str]) -> str:
    if language == "zh":
        return f"你是{'、'.join(names)}，这写在我收到的消息里。"
    return f"You are {', '.join(names)}: it stands in the messages that I received."


def not_found(language: Language, label: str, heard: Heard) -> str:
    """It was not among what was received; what was, if anything."""
    known = everything(language, heard.facts) if heard.facts else ""
    count = len(heard.earlier)
    if language == "zh":
        what = "说你是谁" if label == NAME else f"“{label}”"
        return (
            f"我不知道：我收到的内容里没有{what}（更早的消息 {count} 条）。"
            f"我是演示模型，只能从收到的内容里找答案。{known}"
        )
    what = "your name" if label == NAME else f'"{label}"'
    return (
        f"I do not know: {what} was not among the messages that I received"
        f" ({messages(count)} before this one). I am the demo model and look nowhere else."
        f"{' ' + known if known else ''}"
    )


def everything(language: Language, facts: Sequence[Fact]) -> str:
    """What was stated, each thing once, newest last; the ten newest things."""
    facts = list(dict.fromkeys(facts))[-10:]
    if not facts:
        if language == "zh":
            return "我收到的消息里没有让我记住的内容。"
        return "Among the messages that I received there is nothing to remember."
    listed = ("；" if language == "zh" else "; ").join(stated(language, fact) for fact in facts)
    return (
        f"我收到的内容里有：{listed}。" if language == "zh" else f"What I received holds: {listed}."
    )


def plain(language: Language, heard: Heard) -> str:
    """The answer to a message that is nothing in particular: what came with it."""
    roles = [turn.role for turn in heard.earlier]
    count, own, mine = len(roles), roles.count("user"), roles.count("assistant")
    parts = received_parts(language, heard)
    if language == "zh":
        before = (
            f"更早的消息 {count} 条（你的 {own} 条，助手的 {mine} 条）"
            if count
            else "没有更早的消息"
        )
        also = f"；还有{'、'.join(parts)}" if parts else ""
        return (
            f"你好！你的消息我收到了。随它一起收到的：{before}{also}。"
            "我是演示模型，按固定脚本回答，不是 AI；输入“帮助”可以看到我能演示什么。"
        )
    before = (
        f"{messages(count)} from before ({own} of yours, {mine} of the assistant's)"
        if count
        else "no earlier messages"
    )
    also = f", and {', '.join(parts)}" if parts else ""
    return (
        f"Hello! Your message has arrived. With it came {before}{also}. I am the demo model: I"
        ' answer by a fixed script and am not an AI. Write "help" to see what I can show.'
    )


def images(language: Language, count: int) -> str:
    """What is said of images that came with the question: that they came, and nothing more."""
    if language == "zh":
        return f"我收到了 {count} 张图片。我是按固定脚本回答的演示模型，看不见图片里有什么。"
    what = "1 image" if count == 1 else f"{count} images"
    return f"I received {what}. I am a scripted demo model and cannot see what is in an image."


def received_parts(language: Language, heard: Heard) -> list[str]:
    """The parts of a request beside its conversation."""
    chinese = language == "zh"
    parts = [("系统提示" if chinese else "a system prompt")] if heard.has_prompt else []
    for block in heard.blocks:
        name = block.name.replace("_", " ")
        keys = [fact.label for fact in block.facts]
        listed = ("、" if chinese else ", ").join(keys)
        if chinese:
            parts.append(f"“{name}”{f'（{listed}）' if keys else ''}")
        else:
            parts.append(f"the block {name}{f' ({listed})' if keys else ''}")
    return parts


def received(language: Language, heard: Heard) -> str:
    """Every message that was received: number, role, length and how it begins."""
    rows = "\n".join(
        f"| {number} | {turn.role} | {len(turn.text)} | {cell(turn.text)} |"
        for number, turn in enumerate(heard.turns, 1)
    )
    parts = ("；" if language == "zh" else "; ").join(received_parts(language, heard))
    head = (
        "| # | role | 字数 | 开头 |" if language == "zh" else "| # | role | characters | begins |"
    )
    return f"{head}\n| ---: | --- | ---: | --- |\n{rows}" + (f"\n\n{parts}" if parts else "")


def cell(text: str) -> str:
    """The beginning of a text, fit for a table cell."""
    head = " ".join(text[:200].split())[:60]
    return head.replace("\\", "\\\\").replace("|", "\\|")


def tool_answered(language: Language, results: Sequence[str]) -> str:
    listed = "\n\n".join(results)
    return f"工具返回：\n\n{listed}" if language == "zh" else f"The tool answered:\n\n{listed}"


def kept(language: Language, wish: str) -> str:
    if language == "zh":
        return f"好的，以后的对话里我也会收到这一条：{wish}。"
    return f"I have kept it for later conversations: {wish}."


def forgotten(language: Language, key: str) -> str:
    if language == "zh":
        return f"好的，“{key}”我已经忘记了，以后的对话不会再收到它。"
    return f'I have forgotten "{key}": no later conversation is given it.'


def found_earlier(language: Language, fact: Fact) -> str:
    """The answer out of another conversation, which a tool has found."""
    if not fact.key:
        said = f"“{fact.value}”" if language == "zh" else f'"{fact.value}"'
        return (
            f"在以前的对话里找到：{said}。" if language == "zh" else f"An earlier talk has {said}."
        )
    if language == "zh":
        return f"{fact.label}是“{fact.value}”，这是我在以前的对话里查到的。"
    return f'The {fact.label} is "{fact.value}": I found it in an earlier conversation.'


def messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
