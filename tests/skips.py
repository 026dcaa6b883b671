"""A pytest plugin: which tests need services, and no silence about those that did not run."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from django.test import TransactionTestCase

from tests import services

DATABASE_FIXTURES = {
    "admin_client",
    "admin_user",
    "db",
    "django_db_reset_sequences",
    "live_server",
    "transactional_db",
}
FIXTURE_MARKS = {"browser": "browser", "postgres_url": "postgres", "redis_url": "redis"}
SERVICE_MARKS = ("postgres", "redis", "mariadb", "browser")
NEVER_SKIPPED_WHERE_REQUIRED = ("postgres", "redis", "browser")

_skipped = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skipped] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the service that they ask for, and `pure` where the run's own is all the same.

    A test that starts processes on a database of its own (`databases`) chooses the engine itself.
    Such tests come first: they wait most of their time, while the other runs have work to do.
    """
    for item in items:
        for fixture, mark in FIXTURE_MARKS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
        if not uses_services_of_the_run(item):
            item.add_marker(pytest.mark.pure)
    items.sort(key=lambda item: not starts_processes(item))


def starts_processes(item: pytest.Item) -> bool:
    """Whether it does, and leaves alone the run's database, whose tests have an order."""
    asks = "databases" in getattr(item, "fixturenames", ())
    return asks and item.get_closest_marker("django_db") is None


def uses_services_of_the_run(item: pytest.Item) -> bool:
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
