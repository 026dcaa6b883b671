"""The openai package is imported where a model may be called, and not by every command."""

from __future__ import annotations

from tests.databases import manage

CODE = """
import sys
from django.core.management import call_command
call_command("check")
print("openai" in sys.modules)
import chatproject.asgi
print("openai" in sys.modules)
"""


def test_commands_do_without_the_sdk_and_a_server_has_it_before_its_first_request() -> None:
    said = manage("sqlite://:memory:", "shell", "--no-imports", "-c", CODE).split()
    assert said[-2:] == ["False", "True"]
