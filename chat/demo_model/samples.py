"""Markdown that the demo model writes when it is asked for some: every kind of block in it."""

from __future__ import annotations

CODE: tuple[tuple[str, str], ...] = (
    (
        "python",
        'def greet(name: str) -> str:\n    """Say hello."""\n    return f"Hello, {name}!"',
    ),
    (
        "javascript",
        "export function greet(name) {\n  // Say hello.\n  return `Hello, ${name}!`;\n}",
    ),
    ("bash", 'for name in Alice Bob; do\n  echo "Hello, $name!"  # say hello\ndone'),
    ("json", '{\n  "greeting": "Hello",\n  "names": ["Alice", "Bob"],\n  "count": 2\n}'),
    ("sql", "SELECT name, count(*) AS turns\nFROM people\nGROUP BY name\nORDER BY turns DESC;"),
)

MATH = "$$\n\\sum_{k=1}^{n} k = \\frac{n(n+1)}{2}\n$$"

MARKDOWN = {
    "en": """# A tour of markdown

This text is scripted; it shows **bold**, *italic*, `code`, ~~struck~~ words and a
[link](https://www.example.com/).

## Lists

- first
- second
  - with a nested one
- third

1. one
2. two
3. three

> A quotation
> of two lines.

## A table

| language | year | typing |
| --- | ---: | :---: |
| Python | 1991 | dynamic |
| Rust | 2015 | static |

## Math

Inline $e^{i\\pi} + 1 = 0$, and as a block:

{math}

Prices such as $5 and $6 are not math.

## Code

{code}

---

That was the tour. 🎉""",
    "zh": """# Markdown 一览

这段文字是预先写好的，展示 **粗体**、*斜体*、`代码`、~~删除线~~ 和
[链接](https://www.example.com/)。

## 列表

- 第一项
- 第二项
  - 嵌套的一项
- 第三项

1. 一
2. 二
3. 三

> 一段引用，
> 共两行。

## 表格

| 语言 | 年份 | 类型 |
| --- | ---: | :---: |
| Python | 1991 | 动态 |
| Rust | 2015 | 静态 |

## 公式

行内 $e^{i\\pi} + 1 = 0$，以及单独成块：

{math}

$5 和 $6 这样的价格不是公式。

## 代码

{code}

---

一览到此结束。🎉""",
}

LONG = {
    "en": (
        "# A long scripted answer\n\nIt is written by a program, section by section, so that"
        " streaming can be watched.",
        "## Section {n}",
        "Sentence {n}.{k} says nothing new, and says it in its place.",
        "- Point {n}.{k} of this section",
        "That was section {n}.",
    ),
    "zh": (
        "# 一段很长的预设回答\n\n它由程序逐节写出，方便观察流式输出。",
        "## 第 {n} 节",
        "第 {n} 节的第 {k} 句没有新内容，只是排在它该在的位置。",
        "- 第 {n} 节的第 {k} 点",
        "第 {n} 节到此为止。",
    ),
}


def markdown(language: str) -> str:
    """Every kind of block once."""
    code = "\n\n".join(fenced(number) for number in range(len(CODE)))
    return MARKDOWN[language].replace("{math}", MATH).replace("{code}", code)


def opening(language: str) -> str:
    return LONG[language][0]


def section(language: str, number: int) -> str:
    """Section `number` (from 1) of a long answer; every sentence in it says where it stands."""
    _, heading, sentence, point, closing = LONG[language]
    parts = [
        heading.format(n=number),
        " ".join(sentence.format(n=number, k=k) for k in (1, 2, 3)),
        "\n".join(point.format(n=number, k=k) for k in (1, 2, 3)),
        (fenced(number % len(CODE)), table(number), MATH)[number % 3],
        closing.format(n=number),
    ]
    return "\n\n".join(parts)


def fenced(number: int) -> str:
    language, text = CODE[number]
    return f"```{language}\n{text}\n```"


def table(number: int) -> str:
    rows = [f"| {number}.{k} | {number * k} |" for k in (1, 2, 3)]
    return "\n".join(["| n | n × k |", "| --- | ---: |", *rows])
