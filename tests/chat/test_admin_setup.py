"""Endpoints, assistants, tenants, people and the audit trail."""

from __future__ import annotations

from typing import Any

import pytest
from axes.models import AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat.admin import tenants
from chat.models import (
    Assistant,
    AuditEvent,
    DeletionReceipt,
    Membership,
    ModelEndpoint,
    ReviewTag,
    Tenant,
)
from tests import builders
from tests.chat.admin_site import list_url, page_url, signed_in, text_of, viewer

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

SECRET = "sk-the-secret-value-of-the-key"


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser("root"))


def delete_url(row: Any) -> str:
    return page_url(row).replace("/change/", "/delete/")


def said(response: Any) -> list[str]:
    return [str(each) for each in response.context["messages"]]


# --- Endpoints ------------------------------------------------------------------------------------


def test_an_endpoint_shows_whether_its_key_is_set_and_never_the_key(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = builders.endpoint("main", api_key_env="SOME_API_KEY")
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    assert "SOME_API_KEY is not set" in text_of(client.get(page_url(endpoint)))
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    for address in (page_url(endpoint), list_url(ModelEndpoint)):
        page = text_of(client.get(address))
        assert "SOME_API_KEY is set" in page
        assert SECRET not in page


def endpoint_form(**fields: str) -> dict[str, str]:
    return {
        "name": "main",
        "model": "m",
        "context_window": "1000",
        "max_output_tokens": "100",
        "encoding": "o200k_base",
        "token_correction": "1",
        "price_input": "0",
        "price_cached_input": "0",
        "price_output": "0",
        "max_retries": "2",
        **fields,
    }


def test_a_key_is_not_accepted_in_place_of_its_name(client: Client) -> None:
    endpoint = builders.endpoint("main")
    form = endpoint_form(api_key_env=SECRET)
    response = client.post(page_url(endpoint), form)
    assert "The NAME of an environment variable, in capitals." in text_of(response)
    assert client.post(page_url(endpoint), {**form, "api_key_env": "MY_KEY"}).status_code == 302
    endpoint.refresh_from_db()
    assert endpoint.api_key_env == "MY_KEY"


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("ftp://models.example/v1", "must start with http:// or https://"),
        ("http://[models", "Invalid IPv6 URL"),
        ("http://models.example:99999/v1", "Port out of range"),
        ("http:///v1", "it needs a host"),
        ("http://models example/v1", "no blanks"),
        (f"https://me:{SECRET}@models.example/v1", "a key is never stored"),
        (f"https://models.example/v1?key={SECRET}", "a key is never stored"),
    ],
)
def test_an_address_that_cannot_be_called_or_holds_a_key_is_refused(
    client: Client, address: str, complaint: str
) -> None:
    endpoint = builders.endpoint("main")
    form = endpoint_form(base_url=address)
    response = client.post(page_url(endpoint), form)
    assert complaint in text_of(response)
    endpoint.refresh_from_db()
    assert endpoint.base_url == ""
    assert (
        client.post(page_url(endpoint), endpoint_form(base_url="http://[::1]:9/v1")).status_code
        == 302
    )


def test_an_endpoint_in_use_is_not_deleted(client: Client) -> None:
    assistant = builders.assistant()
    for method in (client.get, client.post):
        response = method(delete_url(assistant.endpoint), {"post": "yes"}, follow=True)
        assert "1 assistant uses" in said(response)[0]
    assert ModelEndpoint.objects.filter(pk=assistant.endpoint_id).exists()
    unused = builders.endpoint()
    client.post(delete_url(unused), {"post": "yes"})
    assert not ModelEndpoint.objects.filter(pk=unused.pk).exists()
    assert AuditEvent.objects.filter(action="endpoint.delete").count() == 1


# --- Assistants -----------------------------------------------------------------------------------


def assistant_form(assistant: Assistant, **changes: Any) -> dict[str, Any]:
    form = {
        "name": assistant.name,
        "slug": assistant.slug,
        "tenant": assistant.tenant_id or "",
        "endpoint": assistant.endpoint_id,
        "system_prompt": assistant.system_prompt,
        "parameters": "{}",
        "stride": 0,
        "is_active": "on",
    }
    return {**form, **changes}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"parameters": "[1]"}, "Must be a JSON object."),
        ({"parameters": '{"stream": true}'}, "stream is set by the product."),
        ({"parameters": '{"stop": "\\u0000"}'}, "It holds NUL or half a character."),
        ({"parameters": '{"stop": "\\ud800"}'}, "It holds NUL or half a character."),
        ({"parameters": '{"temperature": NaN}'}, "NaN and infinite numbers are not JSON."),
        ({"output_schema": '{"minimum": 1e999}'}, "NaN and infinite numbers are not JSON."),
        ({"max_messages": "0"}, "greater than or equal to 1"),
        ({"slug": "not a slug"}, "valid “slug”"),
    ],
)
def test_an_assistant_that_cannot_work_is_refused(
    client: Client, change: dict[str, str], complaint: str
) -> None:
    assistant = builders.assistant()
    response = client.post(page_url(assistant), assistant_form(assistant, **change))
    assert complaint in text_of(response)


def test_staff_of_a_tenant_cannot_offer_an_assistant_to_every_tenant() -> None:
    acme = builders.tenant("acme")
    own = builders.assistant("own", tenant=acme)
    client = signed_in(viewer("chat.change_assistant", tenants=[acme]))
    client.post(page_url(own), assistant_form(own, tenant=""))
    own.refresh_from_db()
    assert own.tenant == acme
    client.post(page_url(own), assistant_form(own, tenant=builders.tenant("zeta").pk))
    own.refresh_from_db()
    assert own.tenant == acme
    client.post(page_url(own), assistant_form(own, system_prompt="Mine."))
    own.refresh_from_db()
    assert own.system_prompt == "Mine."


def test_an_assistant_in_use_is_not_deleted(client: Client) -> None:
    chat_session = builders.chat_session()
    response = client.post(delete_url(chat_session.assistant), {"post": "yes"}, follow=True)
    assert "1 session uses" in said(response)[0]
    assert "Make it inactive instead" in said(response)[0]


# --- Tenants and people ---------------------------------------------------------------------------


def inline_form(tenant: Tenant, *rows: dict[str, Any]) -> dict[str, Any]:
    form: dict[str, Any] = {"name": tenant.name, "slug": tenant.slug, "is_active": "on"}
    initial = sum(1 for row in rows if "id" in row)
    form |= {"memberships-TOTAL_FORMS": len(rows), "memberships-INITIAL_FORMS": initial}
    for number, row in enumerate(rows):
        values = {"tenant": tenant.pk, **row}
        form |= {f"memberships-{number}-{name}": value for name, value in values.items()}
    return form


def test_members_are_added_and_taken_out_on_the_tenants_page(client: Client) -> None:
    acme = builders.tenant("acme")
    alice, bob = builders.user("alice", tenants=[acme]), builders.user("bob")
    membership = acme.memberships.get()
    form = inline_form(acme, {"id": membership.pk, "DELETE": "on"}, {"user": bob.pk})
    assert client.post(page_url(acme), form).status_code == 302
    assert [row.user for row in acme.memberships.all()] == [bob]
    assert not alice.memberships.exists()


def test_the_members_of_a_tenant_cost_the_same_queries_however_many(client: Client) -> None:
    acme = builders.tenant("acme")
    counts = []
    for more in (2, 20):
        for _ in range(more):
            builders.user(tenants=[acme])
        with CaptureQueriesContext(connection) as queries:
            client.get(page_url(acme))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_tenant_with_very_many_members_has_no_inline(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "INLINE_LIMIT", 2)
    acme = builders.tenant("acme")
    for _ in range(3):
        builders.user(tenants=[acme])
    assert client.get(page_url(acme)).context["inline_admin_formsets"] == []
    shown = client.get(list_url(Membership), {"tenant__id__exact": acme.pk})
    assert len(shown.context["cl"].result_list) == 3


def test_a_tenant_with_sessions_is_not_deleted(client: Client) -> None:
    acme = builders.tenant("acme")
    builders.chat_session(tenant=acme)
    response = client.post(delete_url(acme), {"post": "yes"}, follow=True)
    assert said(response)[0].startswith("acme holds 1 session.")
    assert Tenant.objects.filter(pk=acme.pk).exists()


def test_a_person_with_sessions_is_not_deleted_and_the_way_is_named(client: Client) -> None:
    alice = builders.user("alice")
    for _ in range(3):
        builders.chat_session(alice)
    with CaptureQueriesContext(connection) as queries:
        response = client.get(delete_url(alice), follow=True)
    assert said(response)[0].startswith("alice holds 3 sessions. Delete them first")
    assert "manage.py delete_chat" in said(response)[0]
    assert [q for q in queries.captured_queries if "chat_chatmessage" in q["sql"]] == []
    client.post(delete_url(alice), {"post": "yes"})
    assert get_user_model().objects.filter(pk=alice.pk).exists()


def test_a_person_without_sessions_is_deleted_after_a_count(client: Client) -> None:
    alice = builders.user("alice", tenants=[builders.tenant("acme")])
    for number in range(3):
        builders.preference(alice, f"key {number}", tenant=builders.tenant("acme"))
    response = client.get(delete_url(alice))
    assert dict(response.context["counts"]) == {
        "preferences": "3",
        "memberships": "1",
        "feedback": "0",
        "entries of the admin's own log": "0",
        "saved filters": "0",
    }
    assert "Answer in English." not in text_of(response)
    assert client.post(delete_url(alice), {"post": "yes"}).status_code == 302
    assert not get_user_model().objects.filter(pk=alice.pk).exists()
    assert AuditEvent.objects.get().action == "user.forget"
    assert DeletionReceipt.objects.get().counts["preferences"] == 3


def test_a_person_who_is_deleted_is_named_nowhere(client: Client) -> None:
    alice = builders.user("alice-to-forget")
    client.post(page_url(alice), {"username": "alice-to-forget", "first_name": "A"})
    AccessLog.objects.create(username="alice-to-forget", path_info="/", http_accept="")
    AuditEvent.objects.create(action="session.list", filter={"person": "alice-to-forget"})
    assert client.post(delete_url(alice), {"post": "yes"}).status_code == 302
    named = [
        *LogEntry.objects.filter(object_repr__contains="alice"),
        *AccessLog.objects.filter(username__contains="alice"),
        *AuditEvent.objects.filter(filter={"person": "alice-to-forget"}),
    ]
    assert named == []


def test_staff_who_delete_people_delete_no_superuser() -> None:
    root, person = builders.superuser("root"), builders.user("person")
    staff = signed_in(viewer("auth.delete_user"))
    assert staff.get(delete_url(person)).status_code == 200
    assert staff.post(delete_url(root), {"post": "yes"}).status_code == 403
    assert get_user_model().objects.filter(pk=root.pk).exists()


def test_deleting_a_person_needs_the_permission() -> None:
    alice = builders.user("alice")
    staff = signed_in(viewer("auth.change_user"))
    assert staff.get(delete_url(alice)).status_code == 403
    assert staff.post(delete_url(alice), {"post": "yes"}).status_code == 403


# --- Audit ----------------------------------------------------------------------------------------


def test_the_audit_trail_cannot_be_written_here(client: Client) -> None:
    event = AuditEvent.objects.create(action="session.delete", object_type="session")
    assert client.get("/admin/chat/auditevent/add/").status_code == 403
    assert client.get(delete_url(event)).status_code == 403
    assert client.post(delete_url(event), {"post": "yes"}).status_code == 403
    client.post(page_url(event), {"action": "nothing"})
    event.refresh_from_db()
    assert event.action == "session.delete"


def test_events_are_found_by_object_action_actor_and_day(client: Client) -> None:
    alice, bob = builders.user("alice"), builders.user("bob")
    read = AuditEvent.objects.create(
        actor=alice, action="transcript.read", object_type="session", object_id="abc"
    )
    AuditEvent.objects.create(actor=bob, action="session.hold", object_type="session")

    def found(**asked: str) -> list[Any]:
        return list(client.get(list_url(AuditEvent), asked).context["cl"].result_list)

    today = read.at.date().isoformat()
    for asked in (
        {"q": "abc"},
        {"q": str(read.pk)},
        {"actor": "ali"},
        {"action": "transcript.read"},
        {"actor": "ali", "at_from": today, "at_through": today},
    ):
        assert found(**asked) == [read], asked
    assert found(at_through="2020-01-01") == []


def test_what_was_done_to_any_kind_of_row_is_found_by_its_id(client: Client) -> None:
    tenant = builders.tenant("acme")
    tag = ReviewTag.objects.create(tenant=tenant, slug="old", name="old")
    client.post(page_url(tag), {"name": "new"})
    client.post(delete_url(tag), {"post": "yes"})
    found = client.get(list_url(AuditEvent), {"q": str(tag.pk)}).context["cl"].result_list
    assert {"tag.change", "tag.delete"} <= {each.action for each in found}


def test_what_decides_who_sees_what_is_recorded_with_the_names_of_its_fields(
    client: Client,
) -> None:
    tenant, alice = builders.tenant("acme"), builders.user("alice")
    assistant = builders.assistant(endpoint=builders.endpoint("main"))
    url = "http://[::1]:9/v1"
    client.post(page_url(assistant.endpoint), endpoint_form(base_url=url))
    client.post(page_url(assistant), assistant_form(assistant, system_prompt="A secret prompt"))
    client.post("/admin/chat/membership/add/", {"user": alice.pk, "tenant": tenant.pk})
    membership = Membership.objects.get()
    client.post(delete_url(membership), {"post": "yes"})
    client.post("/admin/auth/group/add/", {"name": "Readers"})
    client.post(page_url(alice), {"username": "alice", "is_active": "on", "is_staff": "on"})
    client.post(page_url(tenant), inline_form(tenant, {"user": alice.pk}))
    told = AuditEvent.objects.order_by("pk").values_list("action", "object_id", "filter__changed")
    found = {action: (pk, changed) for action, pk, changed in told}
    assert list(found) == [
        "endpoint.change",
        "assistant.change",
        "membership.add",
        "membership.delete",
        "group.add",
        "user.change",
        "tenant.change",
    ]
    assert "Base url" in found["endpoint.change"][1]
    assert "System prompt" in found["assistant.change"][1]
    assert found["membership.add"][0] == found["membership.delete"][0]
    assert "Staff status" in found["user.change"][1]
    assert "membership added" in found["tenant.change"][1]
    kept = str(list(AuditEvent.objects.values()))
    assert url not in kept
    assert "secret" not in kept
