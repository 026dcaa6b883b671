"""Who may open and send what: one table over every address, action and autocomplete of the site.

A page that is not in the table fails `test_every_address_has_an_entry`, and a row that
`admin_world` lacks fails by its name. A refusal tells nothing: a foreign and an unknown id end
alike.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import URLPattern, URLResolver

from chat.admin.scope import Scoped
from chat.models import (
    AuditEvent,
    ModelEndpoint,
)
from tests import builders
from tests.chat.admin_site import list_url, member, signed_in
from tests.chat.admin_world import World, world_of

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

ROLES = (
    "anonymous",
    "user",
    "staff without permissions",
    "Viewer",
    "Reviewer",
    "Memory manager",
    "another tenant's Reviewer",
    "superuser",
)


@pytest.fixture
def acme() -> World:
    return world_of("acme")


@pytest.fixture
def zeta() -> World:
    return world_of("zeta")


def client_of(role: str) -> Client:
    acme, zeta = builders.tenant("acme"), builders.tenant("zeta")
    if role == "anonymous":
        return Client()
    if role == "user":
        return signed_in(builders.user(tenants=[acme]))
    if role == "superuser":
        return signed_in(builders.superuser())
    if role == "staff without permissions":
        return signed_in(builders.staff(tenants=[acme]))
    tenants = [zeta] if role.startswith("another") else [acme]
    return signed_in(
        member(role.split()[-1] if role.startswith("another") else role, tenants=tenants)
    )


# --- Every address --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """One pattern of the site, by its name; those without one by the pattern itself."""

    name: str
    pattern: str
    model: type[Any] | None

    @property
    def places(self) -> list[str]:
        """The names of what the address holds."""
        return re.findall(r"<(?:\w+:)?(\w+)>", self.pattern)

    @property
    def names_an_object(self) -> bool:
        return any(each.endswith("id") for each in self.places)

    def at(self, world: World, **other: Any) -> str:
        keys = {**world.keys(self.model), **other}
        filled = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", self.pattern).strip("^$")
        return "/admin/" + re.sub(
            r"<(?:\w+:)?(\w+)>", lambda found: str(keys[found.group(1)]), filled
        )


def addresses() -> list[Address]:
    """All but Django's redirects from `<id>/` to the page of a row."""
    found = _walk(admin.site.get_urls(), "")
    return [each for each in found if not each.name.endswith("/<path:object_id>/")]


def _walk(patterns: list[Any], before: str) -> Iterator[Address]:
    models = {_prefix(model): model for model in admin.site._registry}
    for each in patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _walk(each.url_patterns, route)
        elif isinstance(each, URLPattern):
            model = models.get("_".join(route.split("/")[:2]))
            yield Address(each.name or route, route, model)


def _prefix(model: type[Any]) -> str:
    return f"{model._meta.app_label}_{model._meta.model_name}"


def letter(address: Address, response: Any) -> str:
    """O open, F forbidden, M missing, L to sign in, R elsewhere, N not by this method."""
    if response.status_code != 302:
        return {200: "O", 400: "O", 403: "F", 404: "M", 405: "N"}[response.status_code]
    where = response["Location"]
    if where.startswith("/admin/login/"):
        return "L"
    return "M" if where == "/admin/" and address.names_an_object else "R"


# By role, in the order of ROLES: what looking ends in, and what sending an empty form ends in.
TABLE = {
    "LLFFFFFF LLFFFFFF": """
        axes_accessattempt_add axes_accessfailurelog_add axes_accesslog_add chat_auditevent_add
        chat_auditevent_delete chat_chatmessage_add chat_chatmessage_delete chat_chatsession_add
        chat_chatsession_delete chat_chatturn_add chat_chatturn_delete chat_cleanuprun_add
        chat_cleanuprun_delete chat_contextpart_add chat_contextpart_delete chat_contextrecord_add
        chat_contextrecord_delete chat_dailyusage_add chat_dailyusage_delete
        chat_deletionreceipt_add chat_deletionreceipt_delete chat_exportjob_add
        chat_exportjob_delete chat_feedback_add chat_feedback_delete chat_followup_add
        chat_followup_delete chat_modelcall_add
        chat_modelcall_delete chat_pendingremoval_add chat_pendingremoval_delete
        chat_sessiontombstone_add chat_sessiontombstone_delete memory_conversationsummary_add
        memory_conversationsummary_delete memory_memorysnapshot_add memory_memorysnapshot_delete
        memory_userdigest_add
    """,
    "LLFFFFFF LLNNNNNN": """
        autocomplete
    """,
    "LLFFFFFM LLFFFFFF": """
        chat_exportjob_change
    """,
    "LLFFFFFM LLFFFFFM": """
        chat_exportjob_file chat_exportjob_history
    """,
    "LLFFFFFO LLFFFFFF": """
        chat_assistantdocument_change chat_cleanuprun_change chat_deletionreceipt_change
        chat_modelcall_change chat_pendingremoval_change chat_sessiontombstone_change
    """,
    "LLFFFFFO LLFFFFFO": """
        auth_group_add auth_group_change auth_group_changelist auth_group_delete auth_group_history
        auth_user_add auth_user_change auth_user_changelist auth_user_history
        auth_user_password_change axes_accessattempt_changelist axes_accessattempt_delete
        axes_accessattempt_history axes_accessfailurelog_changelist axes_accessfailurelog_delete
        axes_accessfailurelog_history axes_accesslog_changelist axes_accesslog_delete
        axes_accesslog_history chat_assistant_add chat_assistant_test chat_assistantdocument_add
        chat_assistantdocument_changelist chat_assistantdocument_delete
        chat_assistantdocument_history chat_cleanuprun_changelist chat_cleanuprun_history
        chat_deletionreceipt_changelist chat_deletionreceipt_history chat_exportjob_changelist
        chat_exportjob_new chat_membership_add chat_membership_change chat_membership_changelist
        chat_membership_delete chat_membership_history chat_modelcall_changelist
        chat_modelcall_history chat_modelendpoint_add chat_modelendpoint_change
        chat_modelendpoint_changelist chat_modelendpoint_history chat_modelendpoint_test
        chat_pendingremoval_changelist chat_pendingremoval_history chat_reviewtag_delete
        chat_sessiontombstone_changelist chat_sessiontombstone_history chat_tenant_add
        chat_tenant_change chat_tenant_changelist chat_tenant_history memory_userpreference_add
    """,
    "LLFFFFFO LLFFFFFR": """
        axes_accessattempt_change axes_accessfailurelog_change axes_accesslog_change
    """,
    "LLFFFFFR LLFFFFFR": """
        auth_user_delete chat_assistant_delete chat_chatsession_delete_matching
        chat_modelendpoint_delete chat_tenant_delete
    """,
    "LLFFFOFO LLFFFOFO": """
        chat_chatmessage_redact memory_userdigest_delete memory_userpreference_delete
    """,
    "LLFFNFMN LLFFRFMR": """
        chat_chatsession_review
    """,
    "LLFFNFNN LLFFRFRR": """
        chat_chatsession_next
    """,
    "LLFFOFOO LLFFOFOO": """
        chat_chatsession_queue chat_reviewtag_add
    """,
    "LLFFOOMO LLFFOOMO": """
        chat_chatsession_attachment chat_contextrecord_change chat_contextrecord_doctor
        chat_contextrecord_request chat_contextrecord_sent chat_contextrecord_what_if
        chat_contextrecord_why_not
    """,
    "LLFMMMMO LLFFFFFF": """
        chat_auditevent_change
    """,
    "LLFMMMMO LLFMMMMO": """
        chat_auditevent_history
    """,
    "LLFOOOMO LLFFFFFF": """
        chat_chatmessage_change chat_chatturn_change chat_contextpart_change chat_dailyusage_change
        chat_feedback_change chat_followup_change memory_conversationsummary_change
        memory_memorysnapshot_change
    """,
    "LLFOOOMO LLFFFFFO": """
        chat_assistant_change
    """,
    "LLFOOOMO LLFFFOFO": """
        memory_userdigest_change memory_userpreference_change
    """,
    "LLFOOOMO LLFFFRFR": """
        chat_chatsession_change
    """,
    "LLFOOOMO LLFFOFMO": """
        chat_reviewtag_change
    """,
    "LLFOOOMO LLFOOOMO": """
        chat_assistant_history chat_chatmessage_history chat_chatsession_history
        chat_chatsession_reason chat_chatsession_transcript chat_chatturn_history
        chat_contextpart_history chat_contextrecord_history chat_dailyusage_history
        chat_feedback_history chat_followup_history
        chat_reviewtag_history memory_conversationsummary_history memory_memorysnapshot_history
        memory_userdigest_history memory_userpreference_history
    """,
    "LLFOOOOO LLFOOOOO": """
        chat_assistant_changelist chat_assistant_tools chat_followup_changelist
        chat_auditevent_changelist chat_chatmessage_changelist chat_chatsession_changelist
        chat_chatturn_changelist chat_contextpart_changelist
        chat_contextrecord_changelist chat_dailyusage_changelist chat_feedback_changelist
        chat_reviewtag_changelist
        memory_conversationsummary_changelist memory_memorysnapshot_changelist
        memory_userdigest_changelist memory_userpreference_changelist
    """,
    "LLMMMMMM LLMMMMMM": """
        (?P<url>.*)$ view_on_site
    """,
    "LLMOOOOO LLMOOOOO": """
        app_list
    """,
    "LLNNNNNN LLFFFFFM": """
        chat_assistantdocument_remove_filter chat_cleanuprun_remove_filter chat_exportjob_remove
        chat_membership_remove_filter chat_modelcall_remove_filter chat_modelendpoint_remove_filter
        chat_tenant_remove_filter
    """,
    "LLNNNNNN LLFFFFFR": """
        chat_assistantdocument_save_filter chat_cleanuprun_save_filter chat_membership_save_filter
        chat_modelcall_save_filter chat_modelendpoint_save_filter chat_tenant_save_filter
    """,
    "LLNNNNNN LLFMMMMM": """
        chat_assistant_remove_filter chat_chatmessage_remove_filter chat_chatsession_remove_filter
        chat_chatturn_remove_filter chat_contextpart_remove_filter chat_contextrecord_remove_filter
        chat_dailyusage_remove_filter chat_feedback_remove_filter chat_followup_remove_filter
        chat_reviewtag_remove_filter
        memory_conversationsummary_remove_filter memory_memorysnapshot_remove_filter
        memory_userdigest_remove_filter memory_userpreference_remove_filter
    """,
    "LLNNNNNN LLFRRRRR": """
        chat_assistant_save_filter chat_chatmessage_save_filter chat_chatsession_save_filter
        chat_chatturn_save_filter chat_contextpart_save_filter chat_contextrecord_save_filter
        chat_dailyusage_save_filter chat_feedback_save_filter chat_followup_save_filter
        chat_reviewtag_save_filter
        memory_conversationsummary_save_filter memory_memorysnapshot_save_filter
        memory_userdigest_save_filter memory_userpreference_save_filter
    """,
    "LLOOOOOO LLNNNNNN": """
        jsi18n password_change_done
    """,
    "LLOOOOOO LLOOOOOO": """
        index password_change
    """,
    "OORRRRRR OOOOOOOO": """
        login
    """,
    "RRNNNNNN RRRRRRRR": """
        logout
    """,
}


def expected(address: Address, role: str) -> str:
    for outcomes, names in TABLE.items():
        if address.name in names.split():
            looking, sending = outcomes.split()
            return looking[ROLES.index(role)] + sending[ROLES.index(role)]
    raise AssertionError(f"Say in TABLE who may open {address.name}, and who may send to it.")


def test_every_address_has_an_entry_and_every_entry_an_address() -> None:
    listed = [name for names in TABLE.values() for name in names.split()]
    assert sorted(listed) == sorted({address.name for address in addresses()})


def test_every_list_is_scoped() -> None:
    open_lists = [page for page in admin.site._registry.values() if not isinstance(page, Scoped)]
    assert open_lists == []


def test_the_world_has_a_row_of_every_list(acme: World) -> None:
    assert set(admin.site._registry) - set(acme.rows) == set()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_and_sends_what_the_table_says(role: str, acme: World) -> None:
    client, wrong = client_of(role), {}
    for address in sorted(addresses(), key=lambda each: each.name == "logout"):
        url = address.at(acme)
        met = letter(address, client.get(url)) + letter(address, client.post(url))
        if met != expected(address, role):
            wrong[address.name] = (met, expected(address, role))
    assert wrong == {}, "met, expected"


# --- Refusals tell nothing ------------------------------------------------------------------------

EVERYBODYS = {ModelEndpoint, ContentType}  # staff of every tenant see these


def ending(client: Client, method: str, url: str, named: Any) -> tuple[Any, ...]:
    """How it ended, with the id that was asked for taken out."""
    response = getattr(client, method)(url)
    said = [str(each) for each in get_messages(response.wsgi_request)]
    client.cookies.pop("messages", None)
    named_in = (response.headers.get("Location", ""), *said)
    body = re.sub(r'value="\w{64}"', "", response.content.decode())
    plain = [body, *(part.replace(str(named), "ID") for part in named_in)]
    return response.status_code, plain


@pytest.mark.parametrize("role", ROLES[2:6])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_foreign_row_ends_as_an_unknown_one(
    role: str, method: str, acme: World, zeta: World
) -> None:
    client, told = client_of(role), []
    for address in addresses():
        if not address.names_an_object or address.model in EVERYBODYS:
            continue
        place = "object_id" if "object_id" in address.places else address.places[0]
        foreign = zeta.keys(address.model)[place]
        unknown = 987_654_321 if isinstance(foreign, int) else uuid.uuid4()
        endings = [
            ending(client, method, address.at(zeta, **{place: each}), each)
            for each in (foreign, unknown)
        ]
        if endings[0] != endings[1]:
            told.append((address.name, endings))
    assert told == []


@pytest.mark.parametrize("role", ROLES[3:6])
def test_no_search_finds_a_foreign_row(role: str, acme: World, zeta: World) -> None:
    client, found = client_of(role), []
    for model, row in zeta.rows.items():
        if model in EVERYBODYS:
            continue
        for term in (str(row.pk), "zeta"):
            response = client.get(list_url(model), {"q": term})
            if response.status_code == 200 and row in response.context["cl"].result_list:
                found.append((model, term))
    assert found == []


@pytest.mark.parametrize("role", ROLES[3:6])
def test_no_list_names_another_tenant(role: str, acme: World, zeta: World) -> None:
    """Neither in its rows nor in the choices of its filters; endpoints are everybody's."""
    client, naming = client_of(role), []
    for model in set(admin.site._registry) - EVERYBODYS:
        response = client.get(list_url(model))
        if response.status_code == 200 and "zeta" in response.content.decode().lower():
            naming.append(model.__name__)
    assert naming == []


# --- Actions --------------------------------------------------------------------------------------

ACTIONS = {
    "axes_accessattempt cleanup_expired_attempts": "LLFFFFFO",
    "chat_chatsession clear_memory": "LLFFFOFO",
    "chat_chatsession delete_sessions": "LLFFFFFO",
    "chat_chatsession hold": "LLFFFOFO",
    "chat_chatsession queue_for_review": "LLFFOFOO",
    "chat_chatsession redact_sessions": "LLFFFOFO",
    "chat_chatsession release": "LLFFFOFO",
    "chat_chatsession tag_sessions": "LLFFOFOO",
    "chat_exportjob delete_exports": "LLFFFFFO",
    "chat_followup try_now": "LLFFFOFO",
    "memory_conversationsummary compare": "LLFFOOOO",
    "memory_conversationsummary delete_versions": "LLFFFOFO",
    "memory_conversationsummary regenerate": "LLFFFOFO",
    "memory_userdigest disable": "LLFFFOFO",
    "memory_userdigest enable": "LLFFFOFO",
    "memory_userpreference disable": "LLFFFOFO",
    "memory_userpreference enable": "LLFFFOFO",
}


def test_every_action_has_an_entry() -> None:
    there = {
        f"{_prefix(model)} {name}"
        for model, page in admin.site._registry.items()
        for _, name, _ in page._get_base_actions()  # type: ignore[attr-defined]
    }
    assert set(ACTIONS) == there


@pytest.mark.parametrize("role", ROLES[2:])
def test_a_role_is_offered_the_actions_that_the_table_says(role: str, acme: World, rf: Any) -> None:
    request = rf.get("/")
    request.user = get_user_model().objects.get(pk=client_of(role).session["_auth_user_id"])
    offered = {
        f"{_prefix(model)} {name}"
        for model, page in admin.site._registry.items()
        if page.has_view_or_change_permission(request)
        for name in page.get_actions(request)
    }
    wanted = {name for name, roles in ACTIONS.items() if roles[ROLES.index(role)] == "O"}
    assert offered == wanted


@pytest.mark.parametrize("role", ROLES)
def test_an_action_that_is_not_offered_does_nothing(role: str, acme: World, zeta: World) -> None:
    client = client_of(role)
    AuditEvent.objects.all().delete()
    for model, row in [*acme.rows.items(), *zeta.rows.items()]:
        is_theirs = row in zeta.rows.values()
        for name, roles in ACTIONS.items():
            label, action = name.split()
            offered = roles[ROLES.index(role)] == "O"
            if label != _prefix(model) or (offered and (role == "superuser" or not is_theirs)):
                continue
            if offered and role.startswith("another"):
                continue
            form = {"action": action, "_selected_action": str(row.pk), "typed": "1", "tag": "t"}
            client.post(list_url(model), {**form, "post": "yes"})
    events = AuditEvent.objects.exclude(action__endswith=".list")
    assert list(events.values_list("action", flat=True)) == []


# --- Autocompletes --------------------------------------------------------------------------------

AUTOCOMPLETES = {
    "chat_assistant.endpoint": "LLFFFFFO",
    "chat_assistant.tenant": "LLFFFFFO",
    "chat_assistantdocument.assistant": "LLFOOOOO",
    "chat_membership.tenant": "LLFFFFFO",
    "chat_membership.user": "LLFFFFFO",
    "memory_userpreference.tenant": "LLFFFFFO",
    "memory_userpreference.user": "LLFFFFFO",
}


def autocompletes() -> dict[str, tuple[str, str, str, type[Any]]]:
    """By "model.field": what the address is asked with, and whose rows it answers with."""
    found = {}
    for model, page in admin.site._registry.items():
        for field in page.autocomplete_fields:
            related = model._meta.get_field(field).related_model
            label = f"{_prefix(model)}.{field}"
            found[label] = (model._meta.app_label, str(model._meta.model_name), field, related)
    return found  # type: ignore[return-value]


def test_every_autocomplete_has_an_entry() -> None:
    assert set(AUTOCOMPLETES) == set(autocompletes())


@pytest.mark.parametrize("role", ROLES)
def test_an_autocomplete_answers_with_ones_own_rows_or_not_at_all(
    role: str, acme: World, zeta: World
) -> None:
    client = client_of(role)
    for label, (app, name, field, related) in autocompletes().items():
        asked = {"app_label": app, "model_name": name, "field_name": field, "term": ""}
        response = client.get("/admin/autocomplete/", asked)
        wanted = AUTOCOMPLETES[label][ROLES.index(role)]
        met = {200: "O", 302: "L", 403: "F"}[response.status_code]
        assert met == wanted, label
        if met == "O" and role != "superuser" and related not in EVERYBODYS:
            ids = {row["id"] for row in response.json()["results"]}
            home, away = (zeta, acme) if role.startswith("another") else (acme, zeta)
            assert str(home.rows[related].pk) in ids, label
            assert str(away.rows[related].pk) not in ids, label
