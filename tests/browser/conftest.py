"""Chromium against a real server process; a complaint in the console fails the test.

Playwright's synchronous interface keeps an event loop in this thread while it runs, so it lives as
long as one module; and these tests ask the database through the page, not through the ORM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests import services
from tests.browser.console import ConsoleWatch
from tests.browser.people import sign_in
from tests.databases import Databases
from tests.environment import ROOT
from tests.servers import Server, server

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
FAILURES = ROOT / "test-results"
ROOM_FOR_TESTS: dict[str, Any] = {
    "CHAT_TURNS_PER_MINUTE": "10000",
    "CHAT_FRAMES_PER_MINUTE": "100000",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


_failed = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def site(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the demo users alice, bob and admin, shared by the browser tests."""
    folder = tmp_path_factory.mktemp("site")
    with server(folder, database_url=databases.seeded("sqlite"), **ROOM_FOR_TESTS) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = services.chromium_path()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def console() -> ConsoleWatch:
    """What the browser complained of; `console.allow("404")` for what a test provokes."""
    return ConsoleWatch()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(
    browser: Browser, site: Server, console: ConsoleWatch, request: pytest.FixtureRequest
) -> Iterator[OpenPage]:
    """Opens a window with cookies of its own: `open_page("alice", color_scheme="dark")`."""
    contexts: list[BrowserContext] = []

    def open_window(user: str = "", *, base_url: str = site.url, **options: Any) -> Page:
        context = browser.new_context(base_url=base_url, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        console.watch(context)
        page = context.new_page()
        if user:
            sign_in(page, user)
        return page

    yield open_window
    if request.node.stash.get(_failed, False):
        _save_screenshots(contexts, request.node.nodeid)
    for context in contexts:
        context.close()
    assert console.problems() == [], "the browser's console has complaints"


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """One window, nobody signed in."""
    return open_page()


def _save_screenshots(contexts: list[BrowserContext], test: str) -> None:
    FAILURES.mkdir(exist_ok=True)
    pages = [page for context in contexts for page in context.pages]
    for number, page in enumerate(pages):
        name = re.sub(r"\W+", "-", test.removeprefix("tests/browser/"))
        page.screenshot(path=Path(FAILURES, f"{name}-{number}.png"))
