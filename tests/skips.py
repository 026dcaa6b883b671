"""A pytest plugin: which tests need services, and no silence about those that did not run."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from django.test import TransactionTestCase

from tests import services

DATABASE_FIXTURES = {
    "admin_client",
    "admin_user",
    "databases",
    "db",
    "django_db_reset_sequences",
    "live_server",
    "postgres_url",
    "redis_url",
    "transactional_db",
}
SERVICE_MARKS = ("postgres", "redis", "mariadb", "browser")
NEVER_SKIPPED_WHERE_REQUIRED = ("postgres", "redis", "browser")

_skipped = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skipped] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark browser tests, and those that no database and no service can change."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        if not needs_a_service(item):
            item.add_marker(pytest.mark.pure)


def needs_a_service(item: pytest.Item) -> bool:
    marks = any(item.get_closest_marker(name) for name in ("django_db", *SERVICE_MARKS))
    fixtures = DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
    case = getattr(item, "cls", None)
    is_django_case = isinstance(case, type) and issubclass(case, TransactionTestCase)
    return marks or bool(fixtures) or is_django_case


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where services are required a skipped service test is a failure, however it was skipped."""
    report = yield
    if report.skipped and services.services_required() and _is_required(item):
        item.config.stash[_skipped].append(item.nodeid)
    return report


def _is_required(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in NEVER_SKIPPED_WHERE_REQUIRED)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[_skipped] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.config.stash[_skipped]
    if skipped:
        terminalreporter.section("skipped although services are required here", red=True)
        for name in skipped:
            terminalreporter.line(name, red=True)
