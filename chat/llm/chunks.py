"""From the raw objects of one answer to values; pure, and the hot path of every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat.llm.errors import bad_response, from_error_object
from chat.llm.values import Chunk, Completion, Finished, TextDelta, ToolCallDelta, Usage
from memory.messages import ToolCall
from memory.text import clean

LIVE_FIELDS = ("reasoning_content", "reasoning", "thinking")


class AnswerParser:
    """Reads the chunks of one streamed answer.

    `begun` turns true with the first thing that the model made (hidden reasoning counts): from
    then on the call must not be repeated. `finish_reason` is None until the answer is whole.
    """

    def __init__(self, host: str, key: str) -> None:
        self.host = host
        self.begun = False
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self._key = key
        self._half = ""  # the first half of a character that two chunks share

    def feed(self, raw: object) -> list[Chunk]:
        """The deltas of one chunk, most often one; raises LLMError for what is not a chunk."""
        chunk = as_dict(raw)
        if chunk is None:
            raise bad_response(f"{self.host} sent {describe(raw)} where a chunk was expected.")
        if chunk.get("error"):
            raise from_error_object(chunk, host=self.host, key=self._key)
        if usage := chunk.get("usage"):
            self.usage = parse_usage(usage) or self.usage
        choice = self._first_choice(chunk.get("choices"))
        if choice is None:
            return []
        deltas = self._deltas(choice.get("delta"))
        reason = choice.get("finish_reason")
        if reason:
            if reason == "error":
                raise from_error_object({"message": ""}, host=self.host, key=self._key)
            self.finish_reason = str(reason)
        return deltas

    def end(self) -> list[Chunk]:
        """What stands at the end of a whole answer; an answer that just stops is an error."""
        if self.finish_reason is None:
            what = "in the middle of its answer" if self.begun else "without an answer"
            raise bad_response(f"{self.host} ended the stream {what} (no finish_reason).")
        rest: list[Chunk] = [TextDelta("\ufffd")] if self._half else []
        if self.usage is not None:
            rest.append(self.usage)
        return [*rest, Finished(self.finish_reason)]

    def _first_choice(self, choices: object) -> Mapping[str, Any] | None:
        if not choices:  # usage, keep-alive and filter reports have none
            return None
        if not isinstance(choices, list) or not isinstance(choices[0], Mapping):
            raise bad_response(f"{self.host} sent choices that are {describe(choices)}.")
        choice: Mapping[str, Any] = choices[0]
        return choice if choice.get("index", 0) in (0, None) else None

    def _deltas(self, delta: object) -> list[Chunk]:
        if delta is None:
            return []
        if not isinstance(delta, Mapping):
            raise bad_response(f"{self.host} sent a delta that is {describe(delta)}.")
        found: list[Chunk] = []
        text = delta.get("content") or delta.get("refusal")
        if text:
            if not isinstance(text, str):
                raise bad_response(f"{self.host} sent content that is {describe(text)}.")
            self.begun = True
            if text := self._clean(text):
                found.append(TextDelta(text))
        if calls := delta.get("tool_calls"):
            self.begun = True
            found.extend(self._tool_calls(calls))
        if not self.begun:
            self.begun = any(delta.get(name) for name in LIVE_FIELDS)
        return found

    def _tool_calls(self, calls: object) -> list[ToolCallDelta]:
        if not isinstance(calls, list):
            raise bad_response(f"{self.host} sent tool calls that are {describe(calls)}.")
        return [self._tool_call(position, call) for position, call in enumerate(calls)]

    def _tool_call(self, position: int, call: object) -> ToolCallDelta:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(function, Mapping | None):
            raise bad_response(f"{self.host} sent a tool call that is {describe(call)}.")
        index = call.get("index")
        return ToolCallDelta(
            index=index if isinstance(index, int) else position,
            id=clean(str(call.get("id") or "")),
            name=clean(str((function or {}).get("name") or "")),
            arguments=clean(str((function or {}).get("arguments") or "")),
        )

    def _clean(self, text: str) -> str:
        """Text that can be stored; a surrogate pair that was cut in two is put together again."""
        if text.isascii() and not self._half:
            return text.replace("\0", "") if "\0" in text else text
        if self._half:
            text, self._half = self._half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean(text)


def as_dict(raw: object) -> Mapping[str, Any] | None:
    """A chunk as plain data, whichever way the SDK handed it over."""
    if isinstance(raw, Mapping):
        return raw
    dump = getattr(raw, "model_dump", None)
    return dump(exclude_unset=True, warnings=False) if callable(dump) else None


def describe(value: object) -> str:
    """The kind of a JSON value, for an error; never the value itself."""
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def parse_usage(usage: object) -> Usage | None:
    """Reported tokens; None when the report is not one."""
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    counts = [usage.get("prompt_tokens"), cached or 0, usage.get("completion_tokens")]
    numbers = [count for count in counts if isinstance(count, int) and count >= 0]
    return Usage(*numbers) if len(numbers) == 3 else None


def parse_completion(raw: object, host: str, key: str) -> Completion:
    """A whole, unstreamed answer; read with the same care as a streamed one."""
    body = as_dict(raw)
    if body is None:
        raise bad_response(f"{host} answered with {describe(raw)} where JSON was expected.")
    parser = AnswerParser(host, key)
    deltas = parser.feed(as_one_chunk(body)) + parser.end()
    calls = (delta for delta in deltas if isinstance(delta, ToolCallDelta))
    return Completion(
        text="".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in calls),
        usage=parser.usage,
        finish_reason=parser.finish_reason or "",
    )


def as_one_chunk(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A completion in the form of a stream's only chunk: `message` read as `delta`."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return body
    renamed = [
        {**choice, "delta": choice.get("message")} if isinstance(choice, Mapping) else choice
        for choice in choices
    ]
    return {**body, "choices": renamed}
