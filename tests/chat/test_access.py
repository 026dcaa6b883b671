"""What is not yours is not there: the same status, body and number of queries as an unknown id."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat import access
from chat.models import AuditEvent, ChatMessage, ChatSession, Membership
from memory import preferences
from memory.models import UserPreference
from tests import builders
from tests.chat.api import ROOT, Api

pytestmark = pytest.mark.django_db

CLIENT_ID = "0b0e4d2e-6a53-4f0c-9a55-0d6f7a3c1e42"
SESSION_ADDRESSES = [
    ("get", "", None),
    ("patch", "", {"title": "Mine now"}),
    ("delete", "", None),
    ("get", "messages/", None),
    ("get", "clear-memory/", None),
    ("post", "clear-memory/", {}),
    ("post", "turns/", {"text": "Hi", "client_id": CLIENT_ID}),
    ("post", "messages/{turn}/edit/", {"text": "Hi", "client_id": CLIENT_ID}),
    ("post", "messages/{turn}/select/", {}),
    ("get", "turns/{turn}/", None),
    ("get", "turns/{turn}/context/", None),
    ("post", "turns/{turn}/stop/", {}),
    ("post", "turns/{turn}/retry/", {"client_id": CLIENT_ID}),
    ("post", "turns/{turn}/regenerate/", {"client_id": CLIENT_ID}),
    ("post", "turns/{turn}/continue/", {"client_id": CLIENT_ID}),
]


@dataclass(frozen=True)
class Seen:
    """What an asker can tell a request by."""

    status: int
    body: Any
    headers: dict[str, str]
    queries: int


def ask(api: Api, method: str, path: str, body: Any = None) -> Seen:
    with CaptureQueriesContext(connection) as queries:
        response = (
            api.raw(method, path, json.dumps(body or {}))
            if method != "get"
            else (api.client.get(f"{ROOT}{path}"))
        )
    headers = {name: value for name, value in response.items() if name != "Content-Length"}
    return Seen(response.status_code, response.json(), headers, len(queries))


@pytest.fixture
def alice() -> Any:
    return builders.user("alice")


def theirs(kind: str) -> ChatSession:
    """A session with a turn that alice may not see."""
    if kind == "another tenant":
        tenant = builders.tenant("acme")
        chat_session = builders.chat_session(builders.user(tenants=[tenant]), tenant=tenant)
    else:
        chat_session = builders.chat_session(builders.user())
    turn = builders.exchange(chat_session, "their secret", "their answer")
    builders.record(turn)
    return chat_session


@pytest.mark.parametrize("kind", ["another person", "another tenant"])
@pytest.mark.parametrize(("method", "rest", "body"), SESSION_ADDRESSES)
def test_a_foreign_session_answers_as_an_unknown_one(
    alice: Any, kind: str, method: str, rest: str, body: Any
) -> None:
    foreign, api = theirs(kind), Api(alice)
    turn = foreign.turns.get()
    of_foreign = f"/sessions/{foreign.pk}/{rest.format(turn=turn.pk)}"
    of_nobody = f"/sessions/{uuid.uuid4()}/{rest.format(turn=uuid.uuid4())}"
    ask(api, "get", "/assistants/")  # whatever is read once per process
    seen = ask(api, method, of_foreign, body)
    assert seen == ask(api, method, of_nobody, body)
    assert (seen.status, seen.body["code"]) == (404, "not_found")
    assert seen.body["detail"] == "There is no such session."
    assert ChatSession.objects.filter(pk=foreign.pk, title="").count() == 1
    assert ChatMessage.objects.count() == 2
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("method", "rest", "body"), [each for each in SESSION_ADDRESSES if "turns/{turn}" in each[1]]
)
def test_a_turn_of_another_session_answers_as_an_unknown_one(
    alice: Any, method: str, rest: str, body: Any
) -> None:
    mine, api = builders.chat_session(alice), Api(alice)
    builders.exchange(mine)
    foreign = theirs("another person").turns.get()
    ask(api, "get", "/assistants/")
    seen = ask(api, method, f"/sessions/{mine.pk}/{rest.format(turn=foreign.pk)}", body)
    unknown = f"/sessions/{mine.pk}/{rest.format(turn=uuid.uuid4())}"
    assert seen == ask(api, method, unknown, body)
    assert (seen.status, seen.body["detail"]) == (404, "There is no such turn.")


@pytest.mark.parametrize(("method", "body"), [("patch", {"text": "mine"}), ("delete", None)])
def test_a_foreign_preference_answers_as_an_unknown_one(alice: Any, method: str, body: Any) -> None:
    bob, tenant = builders.user("bob"), builders.tenant("default")
    foreign = preferences.remember(tenant.pk, bob.pk, "all", "tone", "theirs", origin="user")
    api = Api(alice)
    ask(api, "get", "/assistants/")
    seen = ask(api, method, f"/preferences/{foreign.pk}/", body)
    assert seen == ask(api, method, f"/preferences/{foreign.pk + 1000}/", body)
    assert (seen.status, seen.body["detail"]) == (404, "There is no such preference.")
    assert UserPreference.objects.get().text == "theirs"


def test_a_preference_cannot_be_said_to_come_from_a_foreign_session(alice: Any) -> None:
    api, foreign = Api(alice), theirs("another person")
    body = {"key": "tone", "text": "formal", "session": str(foreign.pk)}
    seen = ask(api, "post", "/preferences/", body)
    assert seen == ask(api, "post", "/preferences/", {**body, "session": str(uuid.uuid4())})
    assert (seen.status, UserPreference.objects.count()) == (404, 0)


def test_lists_show_only_what_is_mine(alice: Any) -> None:
    theirs("another person")
    theirs("another tenant")
    mine = builders.chat_session(alice)
    api = Api(alice)
    assert [row["id"] for row in api.get("/sessions/").json()["results"]] == [str(mine.pk)]
    assert api.get("/preferences/").json()["results"] == []


def test_staff_have_no_other_way_in_than_the_admin() -> None:
    foreign = theirs("another person")
    assert ask(Api(builders.superuser()), "get", f"/sessions/{foreign.pk}/").status == 404


def test_my_session_of_another_tenant_is_not_found_until_i_work_there(alice: Any) -> None:
    acme = builders.tenant("acme")
    zeta = builders.tenant("zeta")
    Membership.objects.create(user=alice, tenant=acme)
    Membership.objects.create(user=alice, tenant=zeta)
    chat_session = builders.chat_session(alice, tenant=zeta)
    api = Api(alice)
    assert ask(api, "get", f"/sessions/{chat_session.pk}/").status == 404
    django_session = api.client.session
    django_session[access.TENANT_KEY] = "zeta"
    django_session.save()
    assert ask(api, "get", f"/sessions/{chat_session.pk}/").status == 200


def test_a_member_whose_tenants_are_all_closed_sees_nothing_and_not_the_default_one(
    alice: Any,
) -> None:
    chat_session = builders.chat_session(alice)
    closed = builders.tenant("acme", is_active=False)
    Membership.objects.create(user=alice, tenant=closed)
    seen = ask(Api(alice), "get", f"/sessions/{chat_session.pk}/")
    assert (seen.status, seen.body["detail"]) == (404, "There is no such tenant.")


def test_a_person_who_was_deactivated_is_signed_out(alice: Any) -> None:
    api = Api(alice)
    alice.is_active = False
    alice.save()
    assert ask(api, "get", "/sessions/").status == 401


def test_nobody_gets_in() -> None:
    response = Api(None).get("/sessions/")
    assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
    assert response["WWW-Authenticate"] == 'Session realm="api"'
    with pytest.raises(access.NotFound):
        access.tenant_of(AnonymousUser())


@pytest.mark.parametrize("text", ["", "1", "not-a-uuid", "\x00", "字", "0" * 10_000])
def test_what_is_not_an_id_is_simply_not_found(alice: Any, text: str) -> None:
    with pytest.raises(access.NotFound, match="There is no such session"):
        access.chat_session_for(alice, text)


def test_an_address_with_something_else_than_an_id_is_a_problem_document(alice: Any) -> None:
    seen = ask(Api(alice), "get", "/sessions/not-an-id/")
    assert (seen.status, seen.body["code"]) == (404, "not_found")
    assert seen.headers["Content-Type"] == "application/problem+json"
