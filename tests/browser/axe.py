"""What axe-core finds on the page that a window shows."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# `preload` would fetch the style sheets once more, from inside the page.
OPTIONS = {"preload": False, "resultTypes": ["violations"]}
GRAVE = {"serious", "critical"}


def complaints(page: Page) -> list[str]:
    """Each element that a serious or critical rule speaks of."""
    violations: list[dict[str, Any]] = Axe().run(page, options=OPTIONS).response["violations"]
    return [
        f"{each['id']}: {node['html'][:160]} {node.get('failureSummary', '')}"
        for each in violations
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


def complaints_in_light_and_dark(page: Page) -> list[str]:
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme} {each}" for each in complaints(page)]
    return found
