"""Chromium against a real server process; a complaint in the console fails the test.

Playwright's synchronous interface keeps an event loop in this thread while it runs, so it lives as
long as this folder's tests; and these tests ask the database through the page, not through the ORM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests import services
from tests.browser.chat import Chat
from tests.browser.console import ConsoleWatch
from tests.browser.people import add_users, cookies_of
from tests.clients import Person
from tests.databases import Databases
from tests.environment import ROOT
from tests.servers import Server, server

PATIENCE_MS = 15_000
NEW_PEOPLE = 80
expect.set_options(timeout=PATIENCE_MS)

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
    "CHAT_REQUESTS_PER_MINUTE": "100000",
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
def site_database(databases: Databases) -> str:
    """The URL of the database behind `site`."""
    return databases.seeded("sqlite")


@pytest.fixture(scope="session")
def site(site_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the demo users alice, bob and admin, shared by the browser tests."""
    folder = tmp_path_factory.mktemp("site")
    with server(folder, database_url=site_database, **ROOM_FOR_TESTS) as started:
        yield started


SignIn = Callable[..., Person]


@pytest.fixture(scope="session")
def person() -> SignIn:
    """Signs somebody in at a server, once per name and server: `person(site, "alice")`."""
    signed_in: dict[tuple[str, str], Person] = {}

    def sign_in(where: Server, name: str) -> Person:
        key = (where.url, name)
        if key not in signed_in:
            signed_in[key] = Person(where.url, name)
        return signed_in[key]

    return sign_in


@pytest.fixture(scope="session")
def alice(person: SignIn, site: Server) -> Person:
    """alice with an HTTP client, for what a test needs beforehand."""
    return person(site, "alice")


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="session")
def new_names(site_database: str) -> Iterator[str]:
    """Names of people who have done nothing yet."""
    return iter(add_users(site_database, [f"person-{n}" for n in range(1, NEW_PEOPLE + 1)]))


@pytest.fixture
def new_person(site: Server, new_names: Iterator[str], person: SignIn) -> Person:
    """Somebody without sessions and preferences."""
    return person(site, next(new_names))


OpenPage = Callable[..., Page]
OpenChat = Callable[..., Chat]


@pytest.fixture
def open_page(
    browser: Browser, console: ConsoleWatch, site: Server, request: pytest.FixtureRequest
) -> Iterator[OpenPage]:
    """Opens a window with cookies of its own: `open_page(alice, color_scheme="dark")`."""
    contexts: list[BrowserContext] = []

    def open_window(who: Person | None = None, *, base_url: str = site.url, **options: Any) -> Page:
        site.check_alive()
        context = browser.new_context(base_url=base_url, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        console.watch(context)
        if who is not None:
            context.add_cookies(cookies_of(who))
        return context.new_page()

    yield open_window
    if request.node.stash.get(_failed, False):
        _save_screenshots(contexts, request.node.nodeid)
    for context in contexts:
        context.close()
    assert console.problems() == [], "the browser's console has complaints"


@pytest.fixture
def open_chat(open_page: OpenPage) -> OpenChat:
    """Opens a session in a window of its own: `open_chat(alice, session_id)`."""

    def open_session(who: Person, session_id: str, **options: Any) -> Chat:
        chat = Chat(open_page(who, **options))
        chat.open(session_id)
        return chat

    return open_session


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
