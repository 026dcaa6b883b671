"""Watches what the browser complains of: script errors, failed loads, policy violations."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, ConsoleMessage, WebError


class ConsoleWatch:
    """Collects complaints of the watched contexts; `problems` are those that nobody allowed."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._allowed: list[re.Pattern[str]] = []

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)

    def allow(self, pattern: str) -> None:
        """Expect complaints that the regular expression finds: a 404 that the test provokes."""
        self._allowed.append(re.compile(pattern))

    def problems(self) -> list[str]:
        return [text for text in self._seen if not any(p.search(text) for p in self._allowed)]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" or "Content Security Policy" in message.text:
            where = message.location.get("url", "")
            self._seen.append(f"{message.text} [{where}]")

    def _on_error(self, error: WebError) -> None:
        self._seen.append(f"uncaught: {error.error}")
