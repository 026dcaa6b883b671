"""What people wrote is shown to those with the permission, and to nobody by detours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib import admin
from django.db.models import CharField, JSONField, TextField
from django.test import Client

from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
)
from memory.models import MemorySnapshot, UserPreference
from tests import builders
from tests.chat.admin_site import (
    OURS,
    READ,
    list_url,
    page_url,
    sent_url,
    signed_in,
    text_of,
    transcript_url,
    viewer,
)

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

PLANTED = "青云-4173-planted"


@dataclass(frozen=True)
class World:
    """One session whose every text holds PLANTED."""

    chat_session: ChatSession
    turn: ChatTurn
    record: ContextRecord
    part: ContextPart
    preference: UserPreference
    snapshot: MemorySnapshot

    def rows(self) -> list[Any]:
        messages = list(self.chat_session.messages.all())
        return [
            self.chat_session,
            *messages,
            self.turn,
            self.record,
            self.part,
            self.preference,
            self.snapshot,
        ]

    def pages(self) -> list[str]:
        addresses = [page_url(row) for row in self.rows()]
        addresses += [list_url(model) for model in OURS]
        addresses += [transcript_url(self.chat_session), sent_url(self.record)]
        addresses += [f"{page_url(row)[: -len('change/')]}history/" for row in self.rows()]
        return addresses


@pytest.fixture
def world() -> World:
    alice = builders.user("alice")
    chat_session = builders.chat_session(alice, title=f"About {PLANTED}")
    turn = builders.exchange(
        chat_session,
        f"Remember {PLANTED}",
        f"I remember {PLANTED}",
        status="failed",
        error_code="bad_request",
        error_detail=f"cannot parse {PLANTED}",
    )
    record = builders.proven_record(turn)
    part = ContextPart.objects.create(chat_session=chat_session, text=f"Marked {PLANTED}")
    record.layout = [*record.layout, ["user", "part", str(part.pk)]]
    record.manifest["preferences"] = [{"id": 1, "key": f"key {PLANTED}"}]
    record.save()
    preference = builders.preference(
        alice, f"key {PLANTED}", f"text {PLANTED}", quote=f"quote {PLANTED}"
    )
    return World(chat_session, turn, record, part, preference, builders.snapshot(chat_session))


@pytest.fixture
def reader() -> Client:
    return signed_in(viewer(READ))


@pytest.fixture
def blind() -> Client:
    """Somebody who sees every list, that of exports too, and may read no text."""
    return signed_in(viewer("chat.export_metadata"))


def test_without_the_permission_no_page_holds_any_text(world: World, blind: Client) -> None:
    for address in world.pages():
        response = blind.get(address)
        assert response.status_code == 200, address
        assert PLANTED not in text_of(response), address


def test_with_the_permission_the_text_is_where_it_belongs(world: World, reader: Client) -> None:
    question, answer = world.chat_session.messages.order_by("seq")
    shown = {
        list_url(ChatSession): [f"About {PLANTED}"],
        page_url(world.chat_session): [f"About {PLANTED}"],
        list_url(ChatMessage): [f"Remember {PLANTED}", f"I remember {PLANTED}"],
        page_url(question): [f"Remember {PLANTED}"],
        page_url(answer): [f"I remember {PLANTED}"],
        page_url(world.turn): [f"cannot parse {PLANTED}"],
        page_url(world.record): [f"Remember {PLANTED}", f"Marked {PLANTED}", f"key {PLANTED}"],
        page_url(world.part): [f"Marked {PLANTED}"],
        list_url(UserPreference): [f"key {PLANTED}", f"text {PLANTED}"],
        page_url(world.preference): [f"text {PLANTED}", f"quote {PLANTED}"],
        page_url(world.snapshot): [f"Remember {PLANTED}"],
        transcript_url(world.chat_session): [
            f"About {PLANTED}",
            f"Remember {PLANTED}",
            f"I remember {PLANTED}",
            f"cannot parse {PLANTED}",
        ],
    }
    for address, texts in shown.items():
        page = text_of(reader.get(address))
        assert [text for text in texts if text not in page] == [], address


def test_a_page_without_text_says_why(world: World, blind: Client) -> None:
    for address in (list_url(ChatMessage), transcript_url(world.chat_session)):
        assert "Text is hidden" in text_of(blind.get(address))


def text_lookups(model: type[Any]) -> list[str]:
    """Every text column that can be reached from `model` in up to two steps."""
    found = []
    for field in model._meta.get_fields():
        if isinstance(field, (CharField, TextField, JSONField)):
            found.append(field.name)
        elif field.is_relation and field.related_model is not None:
            found += [
                f"{field.name}__{inner.name}"
                for inner in field.related_model._meta.get_fields()
                if isinstance(inner, (CharField, TextField, JSONField))
            ]
    return found


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_no_address_can_ask_about_a_text(model: type[Any], rf: Any) -> None:
    request = rf.get("/")
    request.user = builders.superuser()
    page = admin.site._registry[model]
    answered = [
        f"{name}__{lookup}"
        for name in text_lookups(model)
        for lookup in ("icontains", "startswith", "regex", "gt", "isnull", "in")
        if page.lookup_allowed(f"{name}__{lookup}", "x", request)
    ]
    assert [each for each in answered if not each.endswith("__isnull")] == []
    texts = {"content", "title", "text", "key", "quote", "error_detail", "manifest", "messages"}
    assert [each for each in answered if texts & set(each.split("__"))] == []


@pytest.mark.parametrize(
    ("model", "query"),
    [
        (ChatMessage, "content__icontains"),
        (ChatMessage, "content"),
        (ChatMessage, "content__startswith"),
        (ChatMessage, "parent__content__icontains"),
        (ChatMessage, "chat_session__title__icontains"),
        (ChatMessage, "chat_session__user__username__startswith"),
        (ChatMessage, "tool_calls__0__arguments__contains"),
        (ChatSession, "title__icontains"),
        (ChatSession, "messages__content__icontains"),
        (ChatSession, "head__content__icontains"),
        (ChatSession, "user__password__startswith"),
        (ChatTurn, "input__content__icontains"),
        (ChatTurn, "error_detail__icontains"),
        (ChatTurn, "messages__content__icontains"),
        (ContextRecord, "manifest__preferences__icontains"),
        (ContextRecord, "turn__input__content__icontains"),
        (ContextPart, "text__icontains"),
        (MemorySnapshot, "messages__icontains"),
        (MemorySnapshot, "chat_session__title__icontains"),
        (UserPreference, "text__icontains"),
        (UserPreference, "key__exact"),
    ],
)
def test_an_address_that_asks_about_a_text_is_refused(
    world: World, blind: Client, reader: Client, model: type[Any], query: str
) -> None:
    for client in (blind, reader):
        hit = client.get(list_url(model), {query: PLANTED})
        miss = client.get(list_url(model), {query: "nothing of the kind"})
        assert (hit.status_code, miss.status_code) == (400, 400)


def test_a_title_is_searched_only_by_who_may_read_it(
    world: World, blind: Client, reader: Client
) -> None:
    asked = {"q": PLANTED}
    found = reader.get(list_url(ChatSession), asked).context["cl"].result_list
    assert [row.pk for row in found] == [world.chat_session.pk]
    assert list(blind.get(list_url(ChatSession), asked).context["cl"].result_list) == []


def test_messages_and_preferences_are_not_searched_by_text(world: World, reader: Client) -> None:
    for model in (ChatMessage, UserPreference, ContextPart, MemorySnapshot):
        found = reader.get(list_url(model), {"q": PLANTED}).context["cl"].result_list
        assert list(found) == []


def test_a_row_is_named_by_its_id_alone(world: World) -> None:
    assert [str(row) for row in world.rows()] == [
        str(row.pk) if not isinstance(row, UserPreference) else f"preference {row.pk}"
        for row in world.rows()
    ]


def test_who_may_not_read_a_preference_may_not_write_one(world: World) -> None:
    writer = signed_in(viewer("memory.add_userpreference", "memory.change_userpreference"))
    assert writer.get("/admin/memory/userpreference/add/").status_code == 403
    writer.post(page_url(world.preference), {"text": "overwritten"})
    world.preference.refresh_from_db()
    assert world.preference.text == f"text {PLANTED}"
