"""The whole suite: on SQLite, then on PostgreSQL and Redis. Arguments go to pytest."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import services
from tests.databases import drop_postgres_leftovers, fresh_name, on_server
from tests.environment import ROOT

ON_SQLITE = "not slow and not postgres and not redis"
ON_POSTGRES = "not slow and not mariadb and (postgres or redis or (not pure and not browser))"
NO_TESTS = 5  # pytest's exit code when the arguments chose none


def run_pytest(title: str, marks: str, arguments: list[str], **settings: str) -> int:
    print(f"\n=== Tests on {title} ===", flush=True)
    environ = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}}
    command = [sys.executable, "-m", "pytest", "-m", marks, *arguments]
    return subprocess.call(command, cwd=ROOT, env={**environ, **settings})


def run_on_sqlite(arguments: list[str], servers: dict[str, str]) -> int:
    return run_pytest("SQLite", ON_SQLITE, arguments, **servers)


def run_on_postgres(arguments: list[str], servers: dict[str, str]) -> int:
    name = fresh_name()
    urls = {
        "DATABASE_URL": on_server(servers["TEST_DATABASE_URL"], name),
        "REDIS_URL": servers["TEST_REDIS_URL"],
    }
    try:
        return run_pytest("PostgreSQL and Redis", ON_POSTGRES, arguments, **servers, **urls)
    finally:
        drop_postgres_leftovers(servers["TEST_DATABASE_URL"], name)


def main(arguments: list[str]) -> int:
    try:
        servers = {
            "TEST_DATABASE_URL": services.postgres_url(),
            "TEST_REDIS_URL": services.redis_url(),
        }
    except (pytest.skip.Exception, pytest.fail.Exception) as problem:
        print(f"\n=== NO TESTS ON POSTGRESQL AND REDIS: {problem} ===", flush=True)
        sqlite = run_on_sqlite(arguments, {})
        return max(sqlite, int(services.services_required()))
    codes = [run_on_sqlite(arguments, servers), run_on_postgres(arguments, servers)]
    if NO_TESTS in codes and len(set(codes)) > 1:
        codes.remove(NO_TESTS)  # the arguments chose tests of the other pass only
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
