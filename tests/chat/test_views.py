"""The pages of people: what they show, and to whom."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.template.loader import get_template
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.models import ChatSession
from tests import builders

pytestmark = [pytest.mark.django_db, pytest.mark.pages]

PAYLOAD = '</script><script>alert(1)</script><img src=x onerror="alert(1)">'


def signed_in(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def page_data(html: str) -> Any:
    found = re.search(r'<script id="page-data" type="application/json">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found.group(1))


@pytest.mark.parametrize("path", ["/", f"/chat/{uuid.uuid4()}/"])
def test_who_is_not_signed_in_is_asked_to(path: str) -> None:
    response = Client().get(path)
    assert response.status_code == 302
    assert response["Location"] == f"/accounts/login/?next={path}"


def test_the_start_shows_the_session_with_the_newest_activity() -> None:
    alice = builders.user()
    older, newer = builders.chat_session(alice), builders.chat_session(alice, title="Newest")
    builders.chat_session(builders.user(), title="Somebody else's")
    now = timezone.now()
    ChatSession.objects.filter(pk=older.pk).update(last_active_at=now - timedelta(days=1))
    ChatSession.objects.filter(pk=newer.pk).update(last_active_at=now)
    html = signed_in(alice).get("/").content.decode()
    assert page_data(html)["session"] == str(newer.pk)
    assert "<title>Newest · Chat</title>" in html


def test_the_start_without_sessions_creates_none() -> None:
    builders.assistant(is_default=True)
    response = signed_in(builders.user()).get("/")
    assert response.status_code == 200
    assert page_data(response.content.decode())["session"] is None
    assert ChatSession.objects.count() == 0


def test_the_start_without_an_assistant_is_shown_too() -> None:
    response = signed_in(builders.user()).get("/")
    assert page_data(response.content.decode())["assistants"] == []


def test_a_user_without_an_active_tenant_is_told_so() -> None:
    tenant = builders.tenant(is_active=False)
    response = signed_in(builders.user(tenants=[tenant])).get("/")
    assert response.status_code == 403
    assert "belongs to no active tenant" in response.content.decode()


def test_a_session_of_somebody_else_and_an_unknown_one_are_the_same_404() -> None:
    foreign = builders.chat_session(builders.user(), title="Foreign")
    client = signed_in(builders.user())
    answers = []
    for session_id in (foreign.pk, uuid.uuid4()):
        with CaptureQueriesContext(connection) as queries:
            response = client.get(f"/chat/{session_id}/")
        answers.append((response.status_code, response.content, len(queries)))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    assert b"Foreign" not in answers[0][1]


def test_a_title_cannot_break_out_of_the_page() -> None:
    alice = builders.user(name="alice-of-titles")
    chat_session = builders.chat_session(alice, title=PAYLOAD)
    html = signed_in(alice).get(f"/chat/{chat_session.pk}/").content.decode()
    assert PAYLOAD not in html
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_an_assistant_cannot_break_out_of_the_page_data() -> None:
    builders.assistant(name=PAYLOAD)
    html = signed_in(builders.user()).get("/").content.decode()
    assert PAYLOAD not in html
    assert page_data(html)["assistants"][0]["name"] == PAYLOAD


def test_the_page_says_when_the_model_is_the_scripted_one() -> None:
    alice = builders.user()
    demo = builders.assistant(slug="scripted")
    real = builders.assistant(
        slug="real", endpoint=builders.endpoint(base_url="https://api.example.org/v1")
    )
    client = signed_in(alice)
    shown = {}
    for assistant in (demo, real):
        chat_session = builders.chat_session(alice, assistant=assistant)
        response = client.get(f"/chat/{chat_session.pk}/")
        shown[assistant.slug] = response.context["demo_model"]
        assert page_data(response.content.decode())["demo_assistants"] == ["scripted"]
    assert shown == {"scripted": True, "real": False}


def test_every_page_keeps_scripts_and_styles_out_of_its_html() -> None:
    alice = builders.superuser()
    client = signed_in(alice)
    chat_session = builders.chat_session(alice, title="T")
    pages = [
        client.get(f"/chat/{chat_session.pk}/"),
        client.get(f"/chat/{uuid.uuid4()}/"),
        Client().get("/accounts/login/"),
    ]
    for page in pages:
        html = page.content.decode()
        assert not re.search(r"\s(style|on[a-z]+)=", html)
        assert "<style" not in html
        for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", html, re.S):
            assert "src=" in attributes or 'type="application/json"' in attributes
            assert not body.strip() or 'type="application/json"' in attributes
        assert "script-src 'self'" in page["Content-Security-Policy"]
        assert "unsafe" not in page["Content-Security-Policy"]


def test_pages_are_not_kept_by_browsers_or_proxies() -> None:
    assert "no-store" in signed_in(builders.user()).get("/")["Cache-Control"]


def test_signing_in_and_out() -> None:
    alice = builders.user()
    client = Client()
    answer = client.post(
        "/accounts/login/?next=/chat/x/",
        {"username": alice.username, "password": builders.PASSWORD, "next": "/"},
    )
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/").status_code == 200
    assert client.get("/accounts/logout/").status_code == 405
    assert client.post("/accounts/logout/")["Location"] == "/accounts/login/"
    assert client.get("/").status_code == 302


def test_a_wrong_password_is_answered_in_the_form_and_keeps_the_name() -> None:
    html = Client().post("/accounts/login/", {"username": "<alice>", "password": "x"}).content
    assert b'value="&lt;alice&gt;"' in html
    assert b'role="alert"' in html


def test_signing_in_never_leads_to_another_site() -> None:
    alice = builders.user()
    form = {"username": alice.username, "password": builders.PASSWORD, "next": "//evil.example"}
    assert Client().post("/accounts/login/", form)["Location"] == settings.LOGIN_REDIRECT_URL


@override_settings(AXES_FAILURE_LIMIT=2)
def test_too_many_wrong_passwords_are_explained_on_a_page() -> None:
    form = {"username": "carol", "password": "x"}
    answers = [Client().post("/accounts/login/", form) for _ in range(2)]
    assert answers[-1].status_code == 429
    assert "Too many tries" in answers[-1].content.decode()


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "500"])
def test_every_error_page_stands_without_a_request(name: str) -> None:
    html = get_template(f"{name}.html").render()
    assert "Back to your conversations" in html
