"""The JSON Schema that an assistant's answers must follow: how it is asked for, and checked.

An endpoint that can is told by `response_format`; others read it in the system text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from chat.models import Assistant
from memory.blocks import schema_block
from memory.tokens import count_schema, count_text

LONGEST_CHECKED = 1_000_000  # characters
ERROR_LENGTH = 500
SHOWN_VALUE = 120  # characters of a rule in an error

RESPONSE_FORMAT, INSTRUCTIONS = "response_format", "instructions"


@dataclass(frozen=True)
class Asked:
    """How a request asks for the schema."""

    sent_as: str
    tokens: int
    prompt: str
    """The system text, with the schema in it where it has to be read there."""
    beside: int
    """Tokens beside the messages."""
    parameters: Mapping[str, Any]

    @property
    def figures(self) -> dict[str, Any]:
        """For the manifest."""
        if not self.sent_as:
            return {}
        return {"output_schema": {"sent_as": self.sent_as, "tokens": self.tokens}}


def asked_of(assistant: Assistant) -> Asked:
    """How a request to the assistant asks for its output schema, if it has one."""
    schema, endpoint = assistant.output_schema, assistant.endpoint
    prompt = assistant.system_prompt
    if not schema:
        return Asked("", 0, prompt, 0, {})
    if endpoint.supports_json_schema:
        tokens = count_schema(schema, endpoint.encoding)
        form = {"type": "json_schema", "json_schema": {"name": assistant.slug, "schema": schema}}
        return Asked(RESPONSE_FORMAT, tokens, prompt, tokens, {"response_format": form})
    block = schema_block(schema)
    text = f"{prompt}\n\n{block}" if prompt else block
    return Asked(INSTRUCTIONS, count_text(block, endpoint.encoding), text, 0, {})


@dataclass(frozen=True)
class Checked:
    """Whether an answer follows; `error` holds words of the schema, none of the answer."""

    follows: bool
    error: str = ""


def check(schema: Mapping[str, Any], answer: str) -> Checked:
    """Hold an answer against the schema; nothing outside the schema is fetched for it."""
    if len(answer) > LONGEST_CHECKED:
        return _missed(f"it has {len(answer):,} characters; up to {LONGEST_CHECKED:,} are checked")
    try:
        value = json.loads(answer, parse_constant=_no_number)
        validator = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
        error = best_match(validator.iter_errors(value))
    except json.JSONDecodeError as wrong:
        place = f"line {wrong.lineno}, column {wrong.colno}"
        return _missed(f"it is not JSON ({wrong.msg} at {place})")
    except ValueError:
        return _missed("it is not JSON (a number in it is none that JSON knows, or far too long)")
    except RecursionError:
        return _missed("it is nested too deeply to be checked")
    except Unresolvable as unknown:
        return _missed(f"the schema refers to {unknown.ref!r}, which is not in it")
    return _missed(_described(error)) if error is not None else Checked(True)


def _missed(why: str) -> Checked:
    return Checked(False, f"The answer does not follow the output schema: {why}."[:ERROR_LENGTH])


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _described(error: ValidationError) -> str:
    """The rule that was missed and where it stands in the schema."""
    where = "/".join(str(each) for each in error.absolute_schema_path)
    rule, instance = error.validator_value, error.instance
    if error.validator == "required" and isinstance(rule, list) and isinstance(instance, dict):
        missing = [each for each in rule if each not in instance]
        return f"{_shown(missing)} must be there (at {where})"
    return f"{error.validator} must be {_shown(rule)} (at {where})"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}…"
