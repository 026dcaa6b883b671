"""What a model answered to a follow-up: read strictly, or rejected with the old state kept."""

from __future__ import annotations

import json
import re
from typing import Any

from chat.llm import Completion
from memory.summary_items import REASONING
from memory.text import clean, is_blank

_FENCE = re.compile(r"```[\w-]*\n?|```")
LONGEST = 200_000  # characters of an answer that are read


class Rejected(Exception):
    """An answer, or a moment, in which nothing is saved; the attempt is backed off.

    `code` is stable, `detail` short and without any words of the answer.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def text_of(completion: Completion) -> str:
    """The text of a whole answer; `Rejected` for a tool call, nothing, or half of one."""
    if completion.tool_calls:
        raise Rejected("tool_call", "The model asked for a tool instead of answering.")
    if completion.finish_reason == "length":
        raise Rejected("cut_off", "The model's answer was cut off at its limit of tokens.")
    if completion.finish_reason == "content_filter":
        raise Rejected("content_filter", "The endpoint filtered the model's answer.")
    text = clean(completion.text)
    if is_blank(text):
        raise Rejected("empty_answer", "The model answered without any text.")
    return text


def json_object(text: str) -> dict[str, Any]:
    """The one JSON object of an answer, which may stand in a code fence or after some prose."""
    if REASONING.search(text):
        raise Rejected(
            "reasoning", "The model's answer holds its reasoning; let the endpoint split it off."
        )
    found = _objects(_FENCE.sub("\n", text[:LONGEST]))
    if not found:
        raise Rejected("not_json", "The model's answer holds no JSON object.")
    if len(found) > 1:
        raise Rejected("not_json", f"The model's answer holds {len(found)} JSON objects, not one.")
    return found[0]


def _objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects in a text, those inside another not counted."""
    found: list[dict[str, Any]] = []
    position = text.find("{")
    decoder = json.JSONDecoder()
    while position >= 0 and len(found) < 2:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            found.append(value)
        position = text.find("{", end)
    return found
