"""The whole suite: on SQLite, and at the same time on PostgreSQL and Redis. Arguments go to pytest.

The second run's output is shown when the first has ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from typing import IO

import pytest

from tests import services
from tests.databases import drop_postgres_leftovers, fresh_name, on_server
from tests.environment import ROOT

ON_SQLITE = "not slow and not postgres and not redis"
OWN = "not pure and not browser and not pages"  # asks for the run's own database
ON_POSTGRES = f"not slow and not mariadb and (postgres or redis or ({OWN}))"
NO_TESTS = 5  # pytest's exit code when the arguments chose none


def start_pytest(
    marks: str, arguments: list[str], output: IO[bytes] | None, settings: dict[str, str]
) -> subprocess.Popen[bytes]:
    environ = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}}
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    command = [sys.executable, "-m", "pytest", "-m", marks, *colour, *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**environ, **settings}, stdout=output)


def title(text: str) -> None:
    print(f"\n=== {text} ===", flush=True)


def run_both(arguments: list[str], servers: dict[str, str]) -> list[int]:
    """The exit codes on SQLite and on PostgreSQL."""
    name = fresh_name()
    urls = {
        "DATABASE_URL": on_server(servers["TEST_DATABASE_URL"], name),
        "REDIS_URL": servers["TEST_REDIS_URL"],
    }
    title("Tests on SQLite (those on PostgreSQL and Redis run beside them and follow)")
    with tempfile.TemporaryFile() as output:
        try:
            with (
                start_pytest(ON_POSTGRES, arguments, output, {**servers, **urls}) as on_postgres,
                start_pytest(ON_SQLITE, arguments, None, servers) as on_sqlite,
            ):
                codes = [on_sqlite.wait(), on_postgres.wait()]
        finally:
            drop_postgres_leftovers(servers["TEST_DATABASE_URL"], name)
            title("Tests on PostgreSQL and Redis")
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()
    return codes


def main(arguments: list[str]) -> int:
    try:
        servers = {
            "TEST_DATABASE_URL": services.postgres_url(),
            "TEST_REDIS_URL": services.redis_url(),
        }
    except (pytest.skip.Exception, pytest.fail.Exception) as problem:
        title(f"NO TESTS ON POSTGRESQL AND REDIS: {problem}")
        with start_pytest(ON_SQLITE, arguments, None, {}) as on_sqlite:
            return abs(on_sqlite.wait()) or int(services.services_required())
    codes = run_both(arguments, servers)
    if NO_TESTS in codes and len(set(codes)) > 1:
        codes.remove(NO_TESTS)  # the arguments chose tests of one run only
    return max(abs(code) for code in codes)  # one that a signal ended is below 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
