"""The directive line by which a message tells the demo model what to do.

A line of the form `demo: key value; key value` (English or Chinese colon and semicolon) anywhere
in the message; `USAGE` lists the keys.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from json import JSONDecodeError
from typing import Any

LINE = re.compile(r"^[ \t]*demo[ \t]*[:：](?P<orders>.*)$", re.I | re.M)
SEPARATORS = ";；"
WORD = re.compile(r"[ \t]*(?P<key>[A-Za-z-]+)[ \t]*")

MOST_PIECES = 20_000
SLOWEST_MS = 5_000
LONGEST_WAIT = 600.0

USAGE: tuple[tuple[str, str, str], ...] = (
    ("help", "this list", "显示这份列表"),
    ("long N", "an answer of about N pieces (600)", "约 N 段的长回答（默认 600）"),
    ("markdown", "headings, lists, code, a table and math", "标题、列表、代码、表格和公式"),
    ("echo", "the rest of the message, unchanged", "原样返回消息的其余部分"),
    ("json {...}", "exactly this JSON", "原样返回这段 JSON"),
    ("tool NAME {...}", "call a tool with these arguments", "用这些参数调用工具"),
    ("context", "list the messages that were received", "列出收到的消息"),
    ("slow MS", "MS milliseconds a piece (200)", "每段间隔 MS 毫秒（默认 200）"),
    ("fast", "no delay", "不延迟"),
    ("wait S", "S seconds of silence before the first piece (5)", "先沉默 S 秒（默认 5）"),
    (
        "fail STATUS",
        "an HTTP error (500), or `fail context`",
        "返回 HTTP 错误（默认 500）或 `fail context`",
    ),
    ("retry-after S", "with fail: how long to wait", "与 fail 同用：建议等待的秒数"),
    ("break N", "the connection drops after N pieces (5)", "在 N 段后断开连接（默认 5）"),
    (
        "finish REASON",
        "another finish_reason, such as length",
        "改用别的 finish_reason，例如 length",
    ),
    ("no-usage", "no token counts", "不报告用量"),
)
CONTENT = ("help", "long", "markdown", "echo", "json", "tool", "context")


class BadDirective(ValueError):
    """A directive that cannot be followed; its text says why."""


@dataclass(frozen=True)
class ToolOrder:
    name: str
    arguments: str


@dataclass(frozen=True)
class Orders:
    """What a message orders. `content` is one of CONTENT or ""; the rest says how to deliver."""

    content: str = ""
    pieces: int = 600
    json: str = ""
    tools: tuple[ToolOrder, ...] = ()
    delay_ms: int | None = None
    wait: float = 0.0
    fail: str = ""
    retry_after: int | None = None
    break_after: int | None = None
    finish: str = ""
    usage: bool = True


def split(text: str) -> tuple[Orders, str]:
    """The orders of a message, and the message without its directive lines."""
    orders = Orders()
    for line in LINE.finditer(text):
        orders = follow(orders, line.group("orders").strip())
    return orders, LINE.sub("", text).strip("\n")


def follow(orders: Orders, text: str) -> Orders:
    """Take in one directive line, key by key; the JSON of a value may hold any character."""
    while text := text.strip(SEPARATORS + " \t"):
        match = WORD.match(text)
        if match is None:
            raise BadDirective(f"a directive begins with a word, not with {text[:20]!r}")
        key, rest = match.group("key").lower(), text[match.end() :]
        if key == "json":
            value, text = take_json(rest)
            orders = replace(orders, content="json", json=value)
        elif key == "tool":
            order, text = take_tool(rest)
            orders = replace(orders, content="tool", tools=(*orders.tools, order))
        else:
            value, _, text = re.sub(f"[{SEPARATORS}]", ";", rest).partition(";")
            orders = apply(orders, key, value.strip())
    return orders


def apply(orders: Orders, key: str, value: str) -> Orders:
    """Take in one key with a plain value."""
    if key in CONTENT:
        pieces = whole(key, value, 600, MOST_PIECES) if key == "long" else orders.pieces
        return replace(orders, content=key, pieces=pieces)
    changes: dict[str, Any] = {}
    match key:
        case "slow":
            changes = {"delay_ms": whole(key, value, 200, SLOWEST_MS)}
        case "fast":
            changes = {"delay_ms": 0}
        case "wait":
            changes = {"wait": seconds(key, value)}
        case "fail":
            changes = {"fail": failure(value)}
        case "retry-after":
            changes = {"retry_after": whole(key, value, 1, int(LONGEST_WAIT))}
        case "break":
            changes = {"break_after": whole(key, value, 5, MOST_PIECES)}
        case "finish":
            changes = {"finish": value or "length"}
        case "no-usage":
            changes = {"usage": False}
        case _:
            raise BadDirective(f"there is no directive {key!r}")
    return replace(orders, **changes)


def whole(key: str, value: str, default: int, most: int) -> int:
    if not value:
        return default
    if not re.fullmatch(r"[0-9]{1,6}", value) or int(value) > most:
        raise BadDirective(f"{key} takes a whole number up to {most}, not {value[:20]!r}")
    return int(value)


def seconds(key: str, value: str) -> float:
    if not value:
        return 5.0
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3})?", value) or float(value) > LONGEST_WAIT:
        raise BadDirective(f"{key} takes seconds up to {LONGEST_WAIT:g}, not {value[:20]!r}")
    return float(value)


def failure(value: str) -> str:
    if value == "context" or not value:
        return value or "500"
    if not re.fullmatch(r"[45][0-9][0-9]", value):
        raise BadDirective(f"fail takes a status from 400 to 599 or 'context', not {value[:20]!r}")
    return value


def take_json(text: str) -> tuple[str, str]:
    """The JSON value at the head of `text`, exactly as written, and what follows it."""
    text = text.lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (JSONDecodeError, RecursionError) as error:
        raise BadDirective(f"{text[:20]!r} is not JSON: {error}") from error
    return text[:end], text[end:]


def take_tool(text: str) -> tuple[ToolOrder, str]:
    """A tool's name and its arguments ({} when there are none)."""
    match = re.match(r"(?P<name>[A-Za-z_][\w.-]{0,63})[ \t]*", text)
    if match is None:
        raise BadDirective("tool takes the name of a tool, and its arguments as JSON")
    rest = text[match.end() :]
    arguments, rest = take_json(rest) if rest.startswith("{") else ("{}", rest)
    return ToolOrder(match.group("name"), arguments), rest
