"""The environment variables of a test run: what is cleared, what is set."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO_PASSWORD = "demo-password-of-tests"

TEST_ENVIRONMENT = {
    "READ_DOT_ENV": "false",
    "SECRET_KEY": "tests-only-" + "0123456789abcdef" * 4,
    "DEMO_MODEL_ENABLED": "true",
    "DEMO_MODEL_DELAY_MS": "0",
    "DEMO_MODEL_RECORD": "true",
    "DEMO_PASSWORD": DEMO_PASSWORD,
    "SERVE_STATIC_FROM_SOURCE": "true",
    "CHAT_ALLOW_PRIVATE_ENDPOINTS": "true",  # the fake endpoint is on this machine
    "LOG_LEVEL": "WARNING",
}


def setting_names() -> list[str]:
    """Every name in .env.example, set there or commented out, in order."""
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    return re.findall(r"^(?:# )?([A-Z][A-Z0-9_]+)=", example, flags=re.MULTILINE)


def clear_settings(environ: MutableMapping[str, str], keep: set[str]) -> None:
    """Take this machine's settings out of `environ`: a test means the same everywhere."""
    for name in setting_names():
        if name not in keep:
            environ.pop(name, None)


def process_environment(**settings: str) -> dict[str, str]:
    """The environment of a process that a test starts: the product's own settings, and these."""
    environ = dict(os.environ)
    clear_settings(environ, keep=set())
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    return {**environ, **TEST_ENVIRONMENT, **settings}
