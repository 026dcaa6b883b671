"""Who talks in the sample data and to what: tenants, people, endpoints, assistants, tags.

All names begin with PREFIX, so that sample data is told from everything else. What exists already
is used again; nobody of them can sign in.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.contrib.auth import get_user_model

from chat.demo_data import phrases, writing
from chat.demo_data.orders import Order
from chat.models import Assistant, Membership, ModelEndpoint, ReviewTag, Tenant
from memory.models import UserPreference
from memory.text import key_digest

PREFIX = "demo-data"
NO_PASSWORD = "!sample data"  # what begins with an exclamation mark matches no password
REVIEWERS = 3
MODELS = (("small", "0.15", "0.60"), ("large", "2.50", "10.00"))
ASSISTANTS = (("helper", "small"), ("expert", "large"), ("tools", "large"))
TOOLS = ["current_time", "search_history", "remember"]
TAGS = (("wrong-fact", "Wrong fact"), ("good", "Good example"), ("价格", "价格问题"))
PROMPT = "You are a friendly assistant. Answer in the language of the question, and be brief."


@dataclass(frozen=True)
class Person:
    user: Any
    tenant: Tenant
    language: str


@dataclass(frozen=True)
class Cast:
    """Everybody and everything that conversations are made with."""

    people: Sequence[Person]
    reviewers: Sequence[Any]
    assistants: Sequence[Assistant]
    tags: Mapping[int, Sequence[ReviewTag]]
    """By tenant."""

    def somebody(self, chance: random.Random) -> Person:
        """A few people talk a lot, most of them little."""
        return self.people[int(len(self.people) * chance.random() ** 2)]


def gather(order: Order) -> Cast:
    tenants = [_tenant(number) for number in range(1, order.tenants + 1)]
    names = [f"{PREFIX}-{number:05}" for number in range(1, order.users + 1)]
    users = _users(names)
    chance = order.chance("people")
    people = [
        Person(
            user,
            tenants[number % len(tenants)],
            phrases.CHINESE if chance.random() < 0.35 else phrases.ENGLISH,
        )
        for number, user in enumerate(users)
    ]
    Membership.objects.bulk_create(
        [Membership(user=each.user, tenant=each.tenant) for each in people],
        ignore_conflicts=True,
        batch_size=500,
    )
    reviewers = _users([f"{PREFIX}-reviewer-{number}" for number in range(1, REVIEWERS + 1)])
    tags = {tenant.pk: [_tag(tenant, *each) for each in TAGS] for tenant in tenants}
    return Cast(people, reviewers, _assistants(), tags)


def preferences(order: Order, cast: Cast) -> list[UserPreference]:
    """A few of about half of the people; those who have some already get none."""
    having = set(
        UserPreference.objects.filter(user__username__startswith=PREFIX).values_list(
            "user", flat=True
        )
    )
    chance = order.chance("preferences")
    rows = []
    for person in cast.people:
        chosen = chance.sample(phrases.PREFERENCES, chance.choice((0, 0, 1, 2, 3)))
        rows += [_preference(order, person, chance, *each) for each in chosen]
    return [row for row in rows if row.user_id not in having]


def _preference(
    order: Order, person: Person, chance: random.Random, key: str, text: str
) -> UserPreference:
    status = chance.choice(["active"] * 6 + ["proposed", "disabled"])
    return UserPreference(
        tenant=person.tenant,
        user=person.user,
        key=key,
        key_digest=key_digest(key),
        text=phrases.fill(chance, person.language, text),
        status=status,
        is_current=True if status == "active" else None,
        origin=chance.choice(["chat", "user"]),
        created_at=order.until,
        updated_at=order.until,
    )


def _tenant(number: int) -> Tenant:
    name = f"Sample data {number}"
    return Tenant.objects.get_or_create(slug=f"{PREFIX}-{number}", defaults={"name": name})[0]


def _users(names: Sequence[str]) -> list[Any]:
    model: Any = get_user_model()
    known = set(
        model.objects.filter(username__startswith=PREFIX).values_list("username", flat=True)
    )
    model.objects.bulk_create(
        [model(username=name, password=NO_PASSWORD) for name in names if name not in known],
        batch_size=500,
    )
    found = {each.username: each for each in model.objects.filter(username__startswith=PREFIX)}
    return [found[name] for name in names]


def _tag(tenant: Tenant, slug: str, name: str) -> ReviewTag:
    return ReviewTag.objects.get_or_create(tenant=tenant, slug=slug, defaults={"name": name})[0]


def _assistants() -> list[Assistant]:
    endpoints = {
        name: ModelEndpoint.objects.get_or_create(
            name=f"{PREFIX}-{name}",
            defaults={
                "model": f"sample-{name}",
                "price_input": Decimal(price_input),
                "price_output": Decimal(price_output),
                "supports_tools": True,
            },
        )[0]
        for name, price_input, price_output in MODELS
    }
    return [
        Assistant.objects.select_related("endpoint").get_or_create(
            slug=f"{PREFIX}-{name}",
            defaults={
                "name": f"Sample {name}",
                "endpoint": endpoints[model],
                "system_prompt": PROMPT,
                "tools": TOOLS if name == "tools" else [],
                "is_active": False,  # a record of the past: nobody is offered it
            },
        )[0]
        for name, model in ASSISTANTS
    ]


def write_preferences(order: Order, cast: Cast) -> None:
    writing.write(preferences(order, cast))
