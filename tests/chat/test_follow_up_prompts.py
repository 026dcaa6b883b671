"""What models are told stands word for word in the documentation, and its forms are sound."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from chat.follow_ups import prompts
from chat.follow_ups.prompts import DIGEST_FORM, PREFERENCES_FORM, SUMMARY_FORM, Form
from tests.environment import ROOT

pytestmark = pytest.mark.pure
DOCS = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "prompt", [prompts.TITLE, prompts.SUMMARY, prompts.PREFERENCES, prompts.DIGEST]
)
def test_a_prompt_is_documented_as_it_is_sent(prompt: str) -> None:
    assert f"```text\n{prompt}\n```" in DOCS


@pytest.mark.parametrize("form", [SUMMARY_FORM, PREFERENCES_FORM, DIGEST_FORM])
def test_a_schema_is_documented_and_demands_every_property(form: Form) -> None:
    assert json.dumps(form.schema) in DOCS
    Draft202012Validator.check_schema(form.schema)
    waiting = [form.schema]
    while waiting:
        each = waiting.pop()
        if each.get("type") == "object":  # as strict endpoints want it
            assert each["required"] == list(each["properties"])
            assert each["additionalProperties"] is False
            waiting += each["properties"].values()
        elif each.get("type") == "array":
            waiting.append(each["items"])


@pytest.mark.parametrize(
    ("form", "prompt"),
    [
        (SUMMARY_FORM, prompts.SUMMARY),
        (PREFERENCES_FORM, prompts.PREFERENCES),
        (DIGEST_FORM, prompts.DIGEST),
    ],
)
def test_the_example_in_a_prompt_follows_its_schema(form: Form, prompt: str) -> None:
    example, _ = json.JSONDecoder().raw_decode(prompt, prompt.index('{"'))
    assert list(Draft202012Validator(form.schema).iter_errors(example)) == []
