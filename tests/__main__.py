"""The whole suite, as runs beside each other: on SQLite, in the browser, on PostgreSQL and Redis.

Arguments go to pytest. What the first run prints is shown at once, the others' output follows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO

import pytest

from tests import services
from tests.databases import drop_postgres_leftovers, fresh_name, on_server
from tests.environment import ROOT

OWN = "not pure and not browser and not pages"  # asks for the run's own database
NO_TESTS = 5  # pytest's exit code when the arguments chose none


@dataclass(frozen=True)
class Run:
    """One pytest process: which tests, and the environment variables that make it another run."""

    name: str
    marks: str
    settings: dict[str, str] = field(default_factory=dict)

    def start(self, arguments: list[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        environ = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}}
        colour = ["--color=yes"] if sys.stdout.isatty() else []
        command = [sys.executable, "-m", "pytest", "-m", self.marks, *colour, *arguments]
        return subprocess.Popen(command, cwd=ROOT, env={**environ, **self.settings}, stdout=output)


ON_SQLITE = Run("on SQLite", "not slow and not postgres and not redis and not browser")
IN_BROWSER = Run("in the browser", "browser and not slow")


def on_servers(servers: dict[str, str], databases: Iterable[str]) -> list[Run]:
    """What any database shows, and what only these servers can, each on a database of its own.

    `servers`: TEST_DATABASE_URL and TEST_REDIS_URL.
    """
    marks = {
        "on PostgreSQL and Redis": f"{OWN} and not (slow or mariadb or postgres or redis)",
        "of PostgreSQL and Redis": "(postgres or redis) and not (slow or mariadb)",
    }
    runs = []
    for (name, chosen), database in zip(marks.items(), databases, strict=True):
        url = on_server(servers["TEST_DATABASE_URL"], database)
        urls = {"DATABASE_URL": url, "REDIS_URL": servers["TEST_REDIS_URL"]}
        runs.append(Run(name, chosen, {**servers, **urls}))
    return runs


def title(text: str) -> None:
    print(f"\n=== {text} ===", flush=True)


def run_all(runs: list[Run], arguments: list[str]) -> list[int]:
    """The exit codes of the runs, which all start at once."""
    first, *others = runs
    title(f"Tests {first.name} (beside them, and shown after: {', '.join(r.name for r in others)})")
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in others]
        for run, output in reversed(list(zip(others, outputs, strict=True))):
            stack.callback(show, run, output)
        started = [stack.enter_context(first.start(arguments, None))]
        for run, output in zip(others, outputs, strict=True):
            started.append(stack.enter_context(run.start(arguments, output)))
        return [process.wait() for process in started]


def show(run: Run, output: IO[bytes]) -> None:
    title(f"Tests {run.name}")
    output.seek(0)
    shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.flush()


def verdict(codes: list[int]) -> int:
    """The worst of the exit codes; one that a signal ended is below 0."""
    ran = [code for code in codes if code != NO_TESTS]  # the arguments chose tests of some runs
    return max((abs(code) for code in ran), default=NO_TESTS)


def main(arguments: list[str]) -> int:
    try:
        servers = {
            "TEST_DATABASE_URL": services.postgres_url(),
            "TEST_REDIS_URL": services.redis_url(),
        }
    except (pytest.skip.Exception, pytest.fail.Exception) as problem:
        title(f"NO TESTS ON POSTGRESQL AND REDIS: {problem}")
        codes = run_all([ON_SQLITE, IN_BROWSER], arguments)
        return verdict(codes) or int(services.services_required())
    names = [fresh_name(), fresh_name()]
    try:
        return verdict(run_all([ON_SQLITE, IN_BROWSER, *on_servers(servers, names)], arguments))
    finally:
        for name in names:
            drop_postgres_leftovers(servers["TEST_DATABASE_URL"], name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
