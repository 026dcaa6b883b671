"""A test that needs a service says loudly that it did not run, and fails where it has to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT

SKIPPED_TEST = """
import pytest
from tests import services

@pytest.mark.{mark}
def test_it():
    {statement}
"""
ASKS = 'services.require_or_skip("Chromium", "install it")'
SKIPS = 'pytest.skip("not today")'


def run(folder: Path, mark: str, statement: str, **settings: str) -> tuple[int, str]:
    """Exit code and output of pytest on one test with that mark and body."""
    source = SKIPPED_TEST.format(mark=mark, statement=statement)
    (folder / "test_it.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    environ |= {"CI": "", "CHAT_TEST_REQUIRE_SERVICES": ""}
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.skips", "-rs", "test_it.py"],
        cwd=folder,
        env={**environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_missing_service_skips_with_a_loud_reason(tmp_path: Path) -> None:
    code, output = run(tmp_path, "browser", ASKS)
    assert code == 0
    assert "SKIPPED [1]" in output
    assert "NOT RUN, Chromium was not found: install it" in output


@pytest.mark.parametrize("setting", [{"CI": "true"}, {"CHAT_TEST_REQUIRE_SERVICES": "1"}])
def test_a_missing_service_fails_where_services_are_required(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    code, output = run(tmp_path, "browser", ASKS, **setting)
    assert code == 1
    assert "Chromium is required here and was not found: install it" in output


@pytest.mark.parametrize("mark", ["browser", "postgres", "redis"])
def test_a_service_test_that_skips_in_its_own_way_fails_the_run_too(
    tmp_path: Path, mark: str
) -> None:
    code, output = run(tmp_path, mark, SKIPS, CI="true")
    assert code == 1
    assert "skipped although services are required here" in output


@pytest.mark.parametrize("mark", ["mariadb", "pure"])
def test_what_no_service_is_required_for_may_be_skipped(tmp_path: Path, mark: str) -> None:
    code, _ = run(tmp_path, mark, SKIPS, CI="true")
    assert code == 0
