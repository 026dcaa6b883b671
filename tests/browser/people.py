"""What people do in the browser before a test begins."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.clients import Person
from tests.databases import manage
from tests.environment import DEMO_PASSWORD

ADD_USER = """
from django.contrib.auth.models import Permission, User
name, password, codenames = {!r}, {!r}, {!r}
user = User.objects.create_user(name, password=password, is_staff=bool(codenames))
user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
"""


def sign_in(page: Page, name: str, password: str = DEMO_PASSWORD) -> None:
    """Sign in through the form and arrive at the page's start."""
    page.goto("/accounts/login/")
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", password)
    with page.expect_navigation(url="**/"):
        page.press("input[name=password]", "Enter")


def cookies_of(person: Person) -> list[Any]:
    """The cookies of somebody who signed in with an HTTP client, for a browser."""
    return [
        {
            "name": cookie.name,
            "value": cookie.value or "",
            "url": person.base_url,
            "httpOnly": cookie.name == "sessionid",
            "sameSite": "Lax",
        }
        for cookie in person.cookies
    ]


def add_user(database_url: str, name: str, *permissions: str) -> None:
    """Make somebody who signs in with the demo password; with permissions, a member of staff."""
    manage(
        database_url,
        "shell",
        "--no-imports",
        "-c",
        ADD_USER.format(name, DEMO_PASSWORD, permissions),
    )
