"""Preferences in the admin: written, edited, disabled and deleted as memory does it, on record."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chat.models import AuditEvent
from memory.models import PREFERENCE_TEXT_LENGTH, UserPreference
from tests import builders
from tests.chat.admin_site import READ, list_url, page_url, rows_of, signed_in, text_of, viewer

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

ADD = "/admin/memory/userpreference/add/"
WRITE = [f"memory.{verb}_userpreference" for verb in ("add", "change", "delete")]


@pytest.fixture
def person() -> Any:
    return viewer(READ, *WRITE)


@pytest.fixture
def client(person: Any) -> Client:
    return signed_in(person)


@pytest.fixture
def alice() -> Any:
    return builders.user("alice")


def form_for(person: Any, **changes: Any) -> dict[str, Any]:
    tenant = builders.tenant("default")
    owner = {"tenant": tenant.pk, "user": person.pk, "scope": "all"}
    return {**owner, "key": "tone", "text": "Be kind.", **changes}


def events() -> list[tuple[str, str]]:
    """Actions that changed something, with their objects, in order."""
    rows = AuditEvent.objects.exclude(action__endswith=".read").exclude(action__endswith=".list")
    return list(rows.order_by("pk").values_list("action", "object_id"))


def test_staff_write_a_preference_for_a_person(client: Client, person: Any, alice: Any) -> None:
    assert client.post(ADD, form_for(alice)).status_code == 302
    made = UserPreference.objects.get()
    assert (made.user, made.scope, made.key, made.text, made.origin, made.status) == (
        alice,
        "all",
        "tone",
        "Be kind.",
        "admin",
        "active",
    )
    assert events() == [("preference.add", str(made.pk))]
    assert AuditEvent.objects.get(action="preference.add").actor == person


def test_a_second_one_of_the_same_key_supersedes_the_first(client: Client, alice: Any) -> None:
    first = builders.preference(alice, "tone", "Be short.")
    client.post(ADD, form_for(alice))
    first.refresh_from_db()
    active = UserPreference.objects.get(status="active")
    assert (first.status, first.superseded_by, active.text) == ("superseded", active, "Be kind.")


def test_the_scope_may_be_an_assistant(client: Client, alice: Any) -> None:
    builders.assistant("coder")
    client.post(ADD, form_for(alice, scope="coder"))
    assert UserPreference.objects.get().scope == "coder"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"key": " "}, "This field is required."),
        ({"text": "  "}, "This field is required."),
        ({"text": "\x00"}, "Null characters are not allowed."),
        ({"text": "x" * (PREFERENCE_TEXT_LENGTH + 1)}, "at most 2000 characters"),
        ({"key": "k" * 101}, "at most 100 characters"),
        ({"key": "ß" * 100}, "At most 100 characters."),
        ({"scope": "no-such-assistant"}, "not one of the available choices"),
        ({"user": "999999"}, "not one of the available choices"),
    ],
)
def test_what_cannot_be_stored_is_said_beside_the_field(
    client: Client, alice: Any, change: dict[str, str], complaint: str
) -> None:
    response = client.post(ADD, form_for(alice, **change))
    assert response.status_code == 200
    assert complaint in text_of(response)
    assert not UserPreference.objects.exists()
    assert events() == []


def test_a_person_of_another_tenant_is_refused() -> None:
    acme = builders.tenant("acme")
    bob = builders.user("bob", tenants=[acme])
    response = signed_in(builders.superuser()).post(ADD, form_for(bob))
    assert "bob does not belong to default." in text_of(response)
    assert not UserPreference.objects.exists()


@pytest.mark.parametrize("text", ["用中文回答", "اكتب بالعربية", "😄" * 50, "a\nb", "<b>bold</b>"])
def test_any_text_is_kept_and_shown(client: Client, alice: Any, text: str) -> None:
    client.post(ADD, form_for(alice, text=text))
    made = UserPreference.objects.get()
    assert made.text.replace("\r\n", "\n") == text
    assert text.replace("\n", "\r\n") in text_of(client.get(page_url(made))).replace(
        "\r\n", "\n"
    ).replace("\n", "\r\n")
    assert b"<b>bold</b>" not in client.get(page_url(made)).content


def test_editing_changes_the_text_alone(client: Client, alice: Any) -> None:
    made = builders.preference(alice, "tone", "Be short.", scope="all")
    asked = {"text": "Be long.", "key": "other", "user": "1", "status": "disabled"}
    asked["reason"] = " asked\nfor "
    assert client.post(page_url(made), asked).status_code == 302
    made.refresh_from_db()
    assert (made.key, made.text, made.user, made.status, made.origin) == (
        "tone",
        "Be long.",
        alice,
        "active",
        "admin",
    )
    assert events() == [("preference.edit", str(made.pk))]
    assert AuditEvent.objects.get(action="preference.edit").reason == "asked for"


@pytest.mark.parametrize("reason", ["", "  ", "\u202e"])
def test_editing_wants_a_reason_and_shows_none_to_who_may_not_edit(
    client: Client, alice: Any, reason: str
) -> None:
    made = builders.preference(alice, "tone", "Be short.")
    response = client.post(page_url(made), {"text": "Be long.", "reason": reason})
    assert "reason" in response.context["adminform"].form.errors
    made.refresh_from_db()
    assert (made.text, events()) == ("Be short.", [])
    for permissions in ([], [READ], ["memory.change_userpreference"]):
        page = text_of(signed_in(viewer(*permissions)).get(page_url(made)))
        assert 'name="reason"' not in page


def test_saving_without_a_change_writes_nothing(client: Client, alice: Any) -> None:
    made = builders.preference(alice, "tone", "Be short.")
    client.post(page_url(made), {"text": "Be short."})
    made.refresh_from_db()
    assert (made.origin, events()) == ("user", [])


def test_preferences_are_disabled_and_enabled(client: Client, alice: Any) -> None:
    made = builders.preference(alice)
    for action, status in (("disable", "disabled"), ("enable", "active")):
        form = {"action": action, "index": "0", "_selected_action": [str(made.pk)]}
        client.post(list_url(UserPreference), form)
        made.refresh_from_db()
        assert made.status == status
    pk = str(made.pk)
    assert events() == [("preference.disable", pk), ("preference.enable", pk)]


def test_deleting_asks_and_is_recorded(client: Client, alice: Any) -> None:
    old = builders.preference(alice, "tone", "Be short.")
    made = builders.preference(alice, "tone", "Be long.")
    address = page_url(made).replace("/change/", "/delete/")
    page = text_of(client.get(address))
    assert "Be long." not in page
    assert UserPreference.objects.count() == 2
    client.post(address, {"post": "yes"})
    assert not UserPreference.objects.filter(pk__in=[old.pk, made.pk]).exists()
    assert events() == [("preference.delete", str(made.pk))]
    assert AuditEvent.objects.get(action="preference.delete").filter == {"user": alice.pk}


def test_who_may_only_look_changes_nothing(alice: Any) -> None:
    made = builders.preference(alice)
    client = signed_in(viewer(READ))
    client.post(page_url(made), {"text": "changed"})
    client.post(page_url(made).replace("/change/", "/delete/"), {"post": "yes"})
    form = {"action": "disable", "index": "0", "_selected_action": [str(made.pk)]}
    client.post(list_url(UserPreference), form)
    assert client.get(ADD).status_code == 403
    made.refresh_from_db()
    assert (made.text, made.status) == ("Answer in English.", "active")


def test_they_are_found_by_the_persons_name_and_the_session(client: Client, alice: Any) -> None:
    chat_session = builders.chat_session(alice)
    said = builders.preference(alice, "a", source_session=chat_session, source_seq=3)
    builders.preference(builders.user("bob"), "b")
    for term in ("alice", str(chat_session.pk), str(said.pk)):
        assert rows_of(client.get(list_url(UserPreference), {"q": term})) == [said]
    page = text_of(client.get(page_url(said)))
    assert f"/admin/chat/chatsession/{chat_session.pk}/transcript/?seq=3#seq-3" in page
