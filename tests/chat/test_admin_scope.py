"""Staff see the tenants they are members of; what is foreign looks like what does not exist."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.access import staff_chat_sessions
from chat.models import (
    Assistant,
    AuditEvent,
    ChatMessage,
    ChatSession,
    ChatTurn,
    ContextPart,
    ContextRecord,
    DailyUsage,
    Membership,
    ModelEndpoint,
    SessionTombstone,
    Tenant,
)
from chat.search import messages as search
from memory.models import MemorySnapshot, UserPreference
from tests import builders
from tests.chat.admin_site import (
    CHANGES,
    READ,
    list_url,
    page_url,
    rows_of,
    sent_url,
    signed_in,
    text_of,
    transcript_url,
    viewer,
)

pytestmark = [pytest.mark.django_db, pytest.mark.pages]


def conversation(tenant: Tenant) -> dict[type[Any], Any]:
    """One row of everything that belongs to a session of `tenant`."""
    person = builders.user(tenants=[tenant])
    chat_session = builders.chat_session(person, tenant=tenant)
    turn = builders.exchange(chat_session)
    return {
        ChatSession: chat_session,
        ChatMessage: chat_session.messages.first(),
        ChatTurn: turn,
        ContextRecord: builders.record(turn),
        ContextPart: ContextPart.objects.create(chat_session=chat_session, text="a part"),
        MemorySnapshot: builders.snapshot(chat_session),
        UserPreference: builders.preference(person, tenant=tenant),
    }


@pytest.fixture
def acme() -> Tenant:
    return builders.tenant("acme")


@pytest.fixture
def zeta() -> Tenant:
    return builders.tenant("zeta")


@pytest.fixture
def of_acme(acme: Tenant) -> Client:
    return signed_in(viewer(READ, *CHANGES, tenants=[acme]))


def test_lists_hold_the_rows_of_ones_own_tenants(
    acme: Tenant, zeta: Tenant, of_acme: Client
) -> None:
    mine, theirs = conversation(acme), conversation(zeta)
    for model, row in mine.items():
        shown = {each.pk for each in rows_of(of_acme.get(list_url(model)))}
        assert row.pk in shown, model
        assert theirs[model].pk not in shown, model


def test_superusers_see_every_tenant(acme: Tenant, zeta: Tenant) -> None:
    rows = [conversation(acme), conversation(zeta)]
    client = signed_in(builders.superuser())
    for model in rows[0]:
        shown = {each.pk for each in rows_of(client.get(list_url(model)))}
        assert {each[model].pk for each in rows} <= shown, model


def test_the_list_of_sessions_is_what_access_says(acme: Tenant, zeta: Tenant) -> None:
    conversation(acme), conversation(zeta), conversation(builders.tenant("default"))
    for tenants in ([acme], [acme, zeta], [builders.tenant("default")]):
        person = viewer(tenants=tenants)
        shown = {row.pk for row in rows_of(signed_in(person).get(list_url(ChatSession)))}
        assert shown == set(staff_chat_sessions(person).values_list("pk", flat=True))
        assert len(shown) == len(tenants)


def test_staff_without_a_tenant_see_nothing(acme: Tenant) -> None:
    conversation(acme)
    person = builders.staff(permissions=["chat.view_chatsession", "chat.view_chatmessage"])
    client = signed_in(person)
    assert rows_of(client.get(list_url(ChatSession))) == []
    assert rows_of(client.get(list_url(ChatMessage))) == []


def outcome(client: Client, address: str, gone: Any) -> tuple[Any, ...]:
    """Where it led, what was said there (the id taken out), and how many queries it took."""
    with CaptureQueriesContext(connection) as queries:
        response = client.get(address, follow=True)
    said = [str(each).replace(str(gone), "ID") for each in response.context["messages"]]
    return response.status_code, response.redirect_chain, said, len(queries)


def test_a_foreign_row_looks_like_an_unknown_one(
    acme: Tenant, zeta: Tenant, of_acme: Client
) -> None:
    for model, row in conversation(zeta).items():
        unknown = 999_999 if isinstance(row.pk, int) else uuid.uuid4()
        foreign_address = page_url(row)
        unknown_address = foreign_address.replace(str(row.pk), str(unknown))
        foreign = outcome(of_acme, foreign_address, row.pk)
        assert foreign == outcome(of_acme, unknown_address, unknown), model


def test_a_foreign_transcript_and_record_are_not_found(
    acme: Tenant, zeta: Tenant, of_acme: Client
) -> None:
    theirs = conversation(zeta)
    assert of_acme.get(transcript_url(theirs[ChatSession])).status_code == 404
    assert of_acme.get(sent_url(theirs[ContextRecord])).status_code == 404
    assert not AuditEvent.objects.exists()


def test_transcripts_need_the_permission_to_view_sessions(acme: Tenant) -> None:
    mine = conversation(acme)
    client = signed_in(builders.staff(tenants=[acme], permissions=[READ]))
    assert client.get(transcript_url(mine[ChatSession])).status_code == 403
    assert client.get(sent_url(mine[ContextRecord])).status_code == 403
    assert client.get(page_url(mine[ContextRecord])).status_code == 403


def test_people_who_are_no_staff_are_sent_to_sign_in(acme: Tenant) -> None:
    mine = conversation(acme)
    client = signed_in(mine[ChatSession].user)
    for address in (list_url(ChatSession), transcript_url(mine[ChatSession])):
        assert client.get(address)["Location"].startswith("/admin/login/")


def test_an_action_does_not_reach_a_foreign_session(
    acme: Tenant, zeta: Tenant, of_acme: Client
) -> None:
    theirs = conversation(zeta)[ChatSession]
    asked = {"action": "hold", "_selected_action": [str(theirs.pk)], "index": "0"}
    of_acme.post(list_url(ChatSession), asked)
    theirs.refresh_from_db()
    assert theirs.is_held is False


def test_filters_do_not_tell_about_other_tenants(
    acme: Tenant, zeta: Tenant, of_acme: Client
) -> None:
    theirs = conversation(zeta)[ChatSession]
    for asked in (
        {"tenant": "zeta"},
        {"person": theirs.user.username},
        {"assistant": theirs.assistant.slug},
        {"q": str(theirs.pk)},
    ):
        response = of_acme.get(list_url(ChatSession), asked)
        assert (response.status_code, rows_of(response)) == (200, [])
    assert "zeta" not in text_of(of_acme.get(list_url(ChatSession)))


def test_what_was_said_is_found_in_ones_own_tenants_by_who_may_read(
    acme: Tenant, zeta: Tenant, of_acme: Client
) -> None:
    mine, theirs = (builders.chat_session(tenant=tenant) for tenant in (acme, zeta))
    for chat_session in (mine, theirs):
        said = builders.message(chat_session, content="The phrase is 青云-4173, remember it.")
        owner = {"tenant_id": chat_session.tenant_id, "user_id": chat_session.user_id}
        search.index(said, None, **owner)

    def found(client: Client, term: str) -> set[ChatSession]:
        return set(rows_of(client.get(list_url(ChatSession), {"q": term})))

    for term in ("青云", "phrase", "REMEMBER"):
        assert found(of_acme, term) == {mine}
        assert found(signed_in(builders.superuser()), term) == {mine, theirs}
        assert found(signed_in(viewer(tenants=[acme])), term) == set()


def autocomplete(client: Client, app_model: str, field: str, term: str) -> list[str]:
    app, model = app_model.split(".")
    asked = {"app_label": app, "model_name": model, "field_name": field, "term": term}
    response = client.get("/admin/autocomplete/", asked)
    assert response.status_code == 200
    return [each["text"] for each in response.json()["results"]]


def test_autocomplete_offers_the_people_of_ones_tenants(acme: Tenant, zeta: Tenant) -> None:
    builders.user("anna", tenants=[acme])
    builders.user("anton", tenants=[zeta])
    builders.user("anke")
    staff = viewer("memory.add_userpreference", tenants=[acme])
    assert autocomplete(signed_in(staff), "memory.userpreference", "user", "an") == ["anna"]
    everybody = autocomplete(signed_in(builders.superuser()), "memory.userpreference", "user", "an")
    assert everybody == ["anke", "anna", "anton"]


def test_staff_of_the_default_tenant_see_people_without_a_membership(acme: Tenant) -> None:
    builders.user("anke")
    builders.user("anna", tenants=[acme])
    staff = viewer(tenants=[builders.tenant("default")])
    assert autocomplete(signed_in(staff), "memory.userpreference", "user", "an") == ["anke"]


def test_a_crafted_form_cannot_name_a_foreign_user_or_tenant(acme: Tenant, zeta: Tenant) -> None:
    staff = signed_in(viewer(READ, "memory.add_userpreference", tenants=[acme]))
    anna, anton = builders.user(tenants=[acme]), builders.user(tenants=[zeta])
    form = {"scope": "all", "key": "k", "text": "t"}
    for tenant, person in ((acme, anton), (zeta, anna), (zeta, anton)):
        staff.post(
            "/admin/memory/userpreference/add/", {**form, "tenant": tenant.pk, "user": person.pk}
        )
        assert not UserPreference.objects.exists()
    staff.post("/admin/memory/userpreference/add/", {**form, "tenant": acme.pk, "user": anna.pk})
    assert UserPreference.objects.get().user == anna


def test_staff_list_their_tenants_and_their_members(acme: Tenant, zeta: Tenant) -> None:
    builders.user("anna", tenants=[acme])
    builders.user("anton", tenants=[zeta])
    client = signed_in(viewer(tenants=[acme]))
    assert rows_of(client.get(list_url(Tenant))) == [acme]
    members = {row.user.username for row in rows_of(client.get(list_url(Membership)))}
    assert "anna" in members
    assert "anton" not in members
    people = {row.username for row in rows_of(client.get(list_url(get_user_model())))}
    assert "anna" in people
    assert "anton" not in people


def test_assistants_of_other_tenants_are_hidden_and_shared_ones_read_only(
    acme: Tenant, zeta: Tenant
) -> None:
    shared = builders.assistant("shared")
    own = builders.assistant("own", tenant=acme)
    foreign = builders.assistant("foreign", tenant=zeta)
    client = signed_in(viewer("chat.change_assistant", tenants=[acme]))
    assert {row.slug for row in rows_of(client.get(list_url(Assistant)))} == {"own", "shared"}
    assert client.get(page_url(foreign)).status_code == 302
    assert client.get(page_url(own)).context["has_change_permission"] is True
    assert client.get(page_url(shared)).context["has_change_permission"] is False


def test_only_superusers_change_endpoints(acme: Tenant) -> None:
    endpoint = builders.endpoint("main")
    staff = signed_in(viewer("chat.change_modelendpoint", tenants=[acme]))
    assert staff.post(page_url(endpoint), {"name": "evil"}).status_code == 403
    assert ModelEndpoint.objects.get(pk=endpoint.pk).name == "main"
    assert staff.get(page_url(endpoint)).status_code == 200


def test_rows_of_no_tenant_are_for_superusers() -> None:
    tombstone = SessionTombstone.objects.create(pk=uuid.uuid4())
    staff = signed_in(viewer())
    assert rows_of(staff.get(list_url(SessionTombstone))) == []
    admin = signed_in(builders.superuser())
    assert rows_of(admin.get(list_url(SessionTombstone))) == [tombstone]


def test_staff_see_the_events_that_they_caused(acme: Tenant) -> None:
    AuditEvent.objects.create(action="session.delete", object_type="session", object_id="x")
    person = viewer(tenants=[acme])
    mine = AuditEvent.objects.create(actor=person, action="transcript.read")
    assert rows_of(signed_in(person).get(list_url(AuditEvent))) == [mine]


def test_nobody_but_a_superuser_gives_out_powers(acme: Tenant) -> None:
    person = viewer("auth.change_user", tenants=[acme])
    client = signed_in(person)
    form = {"username": person.username, "is_superuser": "on", "is_active": "on", "is_staff": "on"}
    client.post(page_url(person), form)
    person.refresh_from_db()
    assert person.is_superuser is False
    assert client.post(page_url(builders.superuser("root")), {"username": "x"}).status_code in {
        302,
        403,
    }
    assert get_user_model().objects.filter(username="root").exists()


def test_nobody_becomes_who_may_do_more_by_setting_a_password(acme: Tenant) -> None:
    may = ["auth.change_user", "auth.delete_user"]
    client = signed_in(viewer(*may, tenants=[acme]))
    reader = builders.staff("reader", tenants=[acme], permissions=["chat.read_message_content"])
    looker = builders.staff("looker", tenants=[acme], permissions=["chat.view_chatsession"])
    form = {"password1": "a-long-enough-1", "password2": "a-long-enough-1"}
    away = builders.staff(
        "away", tenants=[acme], permissions=["chat.read_message_content"], is_active=False
    )
    for person, is_theirs in ((reader, False), (away, False), (looker, True)):
        before = person.password
        client.post(f"/admin/auth/user/{person.pk}/password/", {**form, "usable_password": "true"})
        person.refresh_from_db()
        assert (person.password != before) is is_theirs
    assert client.post(page_url(reader), {"username": "me"}).status_code in {302, 403}
    assert client.post(f"/admin/auth/user/{reader.pk}/delete/", {"post": "yes"}).status_code == 403
    assert get_user_model().objects.filter(username="reader").exists()


def test_what_an_endpoint_was_used_for_is_that_of_the_readers_tenants() -> None:
    mine, theirs = builders.tenant("mine"), builders.tenant("theirs")
    endpoint = builders.assistant().endpoint
    for tenant, turns in ((mine, 3), (theirs, 4)):
        DailyUsage.objects.create(
            day=timezone.now().date(), tenant=tenant, endpoint_name=endpoint.name, turns=turns
        )
    member = signed_in(viewer(tenants=[mine]))
    assert "3 turns, 0 other calls" in text_of(member.get(page_url(endpoint)))
    everybody = signed_in(builders.superuser())
    assert "7 turns, 0 other calls" in text_of(everybody.get(page_url(endpoint)))
