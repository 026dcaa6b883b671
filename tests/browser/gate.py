"""Holds up what the page asks the server for, so that a test can do something meanwhile."""

from __future__ import annotations

from playwright.sync_api import APIResponse, Page, Route

LOOK_EVERY_MS = 10


class Gate:
    """Answers to requests of an address wait here, as they were given, until they are let by."""

    def __init__(self, page: Page, address: str, method: str = "GET") -> None:
        self._page = page
        self._method = method
        self._held: list[tuple[Route, APIResponse]] = []
        self._is_open = False
        page.route(address, self._come)

    def wait(self, count: int = 1) -> None:
        """Until so many answers are held."""
        while len(self._held) < count:
            self._page.wait_for_timeout(LOOK_EVERY_MS)

    def open(self) -> None:
        self._is_open = True
        for route, answer in self._held:
            route.fulfill(response=answer)

    def _come(self, route: Route) -> None:
        if self._is_open or route.request.method != self._method:
            route.continue_()
        else:
            self._held.append((route, route.fetch()))
