"""What tests need beside Python: PostgreSQL, Redis, MariaDB, Chromium; where each is found.

PostgreSQL and Redis: the servers that TEST_DATABASE_URL and TEST_REDIS_URL name, else embedded
ones, started at the first use. What is not to be had skips its tests with a reason, and fails them
in CI (CI=true, or CHAT_TEST_REQUIRE_SERVICES=1).
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
from typing import NoReturn

import pytest

from tests.embedded import STOP_SECONDS, port_open
from tests.environment import ROOT

MARIADB_IN_CI = ("mysql://root@127.0.0.1:3306/", 3306)
# First the build without windows and menus: the same pages, for a third of the time.
CHROMIUM_NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


def in_ci() -> bool:
    return os.environ.get("CI") == "true"


def services_required() -> bool:
    """Whether a missing service or browser is a failure."""
    return in_ci() or os.environ.get("CHAT_TEST_REQUIRE_SERVICES") == "1"


def require_or_skip(name: str, reason: str) -> NoReturn:
    """Leave the test that needs `name`: as failed where services are required, else as skipped."""
    if services_required():
        pytest.fail(f"{name} is required here and was not found: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN, {name} was not found: {reason}")


def postgres_url() -> str:
    """A PostgreSQL server whose user may create databases."""
    return os.environ.get("TEST_DATABASE_URL") or _embedded_or_skip("postgres", "PostgreSQL")


def redis_url() -> str:
    """A Redis database that tests may write to; keys are prefixed, nothing is flushed."""
    return os.environ.get("TEST_REDIS_URL") or _embedded_or_skip("redis", "Redis")


def mariadb_url() -> str:
    """A MariaDB server whose user may create databases; there is no embedded one."""
    url, port = MARIADB_IN_CI
    if named := os.environ.get("TEST_MARIADB_URL"):
        return named
    if in_ci() and port_open(port):
        return url
    pytest.skip("NOT RUN, MariaDB was not found: set TEST_MARIADB_URL=mysql://root@127.0.0.1:3306/")


def chromium_path() -> str:
    """The browser: CHROMIUM, else the first one on the path."""
    if named := os.environ.get("CHROMIUM"):
        return named
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name):
            return found
    require_or_skip(
        "Chromium",
        "install it (apt-get install chromium-headless-shell, or chromium)"
        " or set CHROMIUM=/path/to/chromium",
    )


def _embedded_or_skip(service: str, name: str) -> str:
    try:
        return start_embedded(service)
    except EmbeddedFailed as problem:
        variable = {"postgres": "TEST_DATABASE_URL", "redis": "TEST_REDIS_URL"}[service]
        require_or_skip(name, f"{problem}; set {variable} to a server of your own")


class EmbeddedFailed(Exception):
    """An embedded service did not start here."""


@functools.cache
def start_embedded(service: str) -> str:
    """Start `python -m tests.embedded`, which lives as long as this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.embedded", service],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise EmbeddedFailed(f"embedded {service} ended with exit code {process.wait()}")
    atexit.register(_stop, process)
    return str(json.loads(line)["url"])


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(2 * STOP_SECONDS)
