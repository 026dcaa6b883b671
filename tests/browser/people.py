"""What people do in the browser before a test begins."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.clients import Person
from tests.databases import run_with_models
from tests.environment import DEMO_PASSWORD

ADD_USERS = """
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission, User
from chat.models import Membership, Tenant
names, password, codenames = {!r}, {!r}, {!r}
hashed = make_password(password)  # once: hashing is slow on purpose
people = [User(username=name, password=hashed, is_staff=bool(codenames)) for name in names]
for person in User.objects.bulk_create(people):
    Membership.objects.create(user=person, tenant=Tenant.objects.get())
    person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
"""


def sign_in(page: Page, name: str, password: str = DEMO_PASSWORD) -> None:
    """Sign in through the form and arrive at the chat page, or where the form leads."""
    page.goto("/accounts/login/")
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(lambda url: "/accounts/login/" not in url)


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


def add_users(database_url: str, names: list[str], *permissions: str) -> list[str]:
    """Make people who sign in with the demo password; with permissions, members of staff."""
    run_with_models(database_url, ADD_USERS.format(names, DEMO_PASSWORD, permissions))
    return names


ADD_STAFF = """
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from chat.models import Membership, Tenant
person = User.objects.create(username={!r}, password=make_password({!r}), is_staff=True)
Membership.objects.create(user=person, tenant=Tenant.objects.get())
person.groups.add(Group.objects.get(name={!r}))
"""


def add_staff(database_url: str, name: str, group: str) -> str:
    """Make a member of staff in one of the groups, who signs in with the demo password."""
    run_with_models(database_url, ADD_STAFF.format(name, DEMO_PASSWORD, group))
    return name


RATE = """
from chat.models import ChatSession, Feedback
session = ChatSession.objects.get(pk={!r})
turn = session.turns.get(number={!r})
Feedback.objects.create(turn=turn, user=session.user, value={!r}, comment={!r})
"""


def rate(database_url: str, session: str, turn: int, value: int, comment: str = "") -> None:
    """Say for the session's holder what they thought of a turn: 1 or -1."""
    run_with_models(database_url, RATE.format(session, turn, value, comment))
