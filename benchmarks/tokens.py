"""Does counting keep pace with the tokenizer itself, and trimming with the length of a history?

The floor is tiktoken's own encode over the same text in the same run. Counting has to reach 0.7 of
its speed (8 MB/s where tiktoken makes 11.4), and to stay linear on text that tiktoken alone is
quadratic on or gives up on. Trimming a hundred times as many messages may cost a hundred times as
much, and half of that again. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from memory import tokens  # noqa: E402
from memory.messages import Message, ToolCall  # noqa: E402
from memory.tokens import count_text  # noqa: E402
from memory.window import WindowPolicy, trim  # noqa: E402

ENCODING = "o200k_base"
SMALLEST_SHARE = 0.7  # of tiktoken's own speed
LARGEST_GROWTH = 1.5  # of the cost of a character, or of a message, in ten or a hundred times more
ROUNDS = 5


def seconds(act: Callable[..., object], *arguments: Any) -> float:
    """CPU seconds of the fastest of some rounds: the others had more to put up with."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        act(*arguments)
        best = min(best, time.process_time() - started)
    return best


def texts() -> dict[str, str]:
    """About a megabyte of each kind."""
    english = "The window of a conversation holds what was said last, and nothing twice. "
    chinese = "项目代号是青云-4173，请记住这个校验短语，下次再问你。"
    mixed = "Hello world 12345 {'a': [1, 2]} 你好，世界 שלום עולם 😄👩‍👩‍👧\r\n"
    code = Path(tokens.__file__).read_text(encoding="utf-8")
    units = {"English": english, "Chinese": chinese, "code": code, "mixed": mixed}
    return {name: unit * (1_000_000 // len(unit.encode())) for name, unit in units.items()}


def counting() -> bool:
    raw = tokens._tokenizer(ENCODING)
    print(f"{'counting':12} {'bytes':>10} {'MB/s':>8} {'tiktoken':>9} {'share':>7}")
    is_good = True
    for name, text in texts().items():
        size = len(text.encode())
        ours = seconds(count_text, text, ENCODING)
        floor = seconds(raw.encode_ordinary, text)
        share = floor / ours
        is_good &= share >= SMALLEST_SHARE
        print(
            f"{name:12} {size:10,} {size / ours / 1e6:8.1f} {size / floor / 1e6:9.1f} {share:7.2f}"
        )
    return is_good


def repeating() -> bool:
    print(f"\n{'one character':14} {'ns/char':>8} {'10 x as many: cost of one':>26}")
    is_good = True
    for name, unit in {"a": "a", "blank": " ", "的": "的", "😀": "😀", "U+0301": "\u0301"}.items():
        few = seconds(count_text, unit * 100_000, ENCODING) / 100_000
        many = seconds(count_text, unit * 1_000_000, ENCODING) / 1_000_000
        is_good &= many / few <= LARGEST_GROWTH
        print(f"{name:14} {many * 1e9:8.0f} {many / few:26.2f}")
    return is_good


def talk(count: int) -> list[Message]:
    turn = [
        Message.user("question"),
        Message.assistant(None, [ToolCall("c", "f")]),
        Message.tool("c", "x"),
        Message.assistant("answer"),
    ]
    return turn * (count // 4)


def trimming() -> bool:
    print(f"\n{'trim':16} {'us/message, 1,000':>18} {'100,000':>9} {'ratio':>7}")
    is_good = True
    for aligned in (True, False):
        policy = WindowPolicy(20, 10_000, align_to_turns=aligned)
        costs = []
        for count in (1_000, 100_000):
            spent = seconds(trim, talk(count), policy, lambda _: 5)
            costs.append(spent / count * 1e6)
        ratio = costs[1] / costs[0]
        is_good &= ratio <= LARGEST_GROWTH
        name = "whole exchanges" if aligned else "message-exact"
        print(f"{name:16} {costs[0]:18.2f} {costs[1]:9.2f} {ratio:7.2f}")
    return is_good


def main() -> int:
    count_text("warm up", ENCODING)
    results = [counting(), repeating(), trimming()]
    print("\nevery target was reached" if all(results) else "\nA TARGET WAS MISSED")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
