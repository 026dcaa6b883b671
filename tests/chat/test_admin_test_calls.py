"""Test calls from the admin: request, answer, time, error; for superusers alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from chat.models import AuditEvent, ChatMessage, ModelCall
from tests import builders
from tests.chat.admin_site import signed_in
from tests.fakes import FakeEndpoint, answer, failure

pytestmark = pytest.mark.django_db(transaction=True)


def url(row: Any) -> str:
    return reverse(f"admin:chat_{row._meta.model_name}_test", args=[row.pk])


def test_an_endpoint_is_asked_and_what_came_of_it_shown(fake_endpoint: FakeEndpoint) -> None:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    fake_endpoint.replies(answer("在的 <b>", usage=(12, 0, 3)))
    client = signed_in(builders.superuser())
    client.get(url(endpoint))
    assert not fake_endpoint.requests  # looking is not calling
    page = client.post(url(endpoint), {"question": "在吗？"}).content.decode()
    assert fake_endpoint.requests[-1].body["messages"] == [{"role": "user", "content": "在吗？"}]
    assert "在的 &lt;b&gt;" in page
    assert "12 tokens in" in page
    assert AuditEvent.objects.get().action == "endpoint.test"
    assert not ChatMessage.objects.exists()
    assert not ModelCall.objects.exists()


def test_an_assistant_is_asked_with_its_prompt_and_parameters(
    fake_endpoint: FakeEndpoint,
) -> None:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    assistant = builders.assistant(
        endpoint=endpoint, system_prompt="Be brief.", parameters={"temperature": 0.2}
    )
    signed_in(builders.superuser()).post(url(assistant), {"question": "Hi"})
    body = fake_endpoint.requests[-1].body
    assert [each["content"] for each in body["messages"]] == ["Be brief.", "Hi"]
    assert body["temperature"] == 0.2


def test_an_error_is_told_without_secrets(
    fake_endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_CALL_KEY", "sk-very-secret")
    endpoint = builders.endpoint(
        base_url=fake_endpoint.base_url, model="fake", api_key_env="TEST_CALL_KEY"
    )
    fake_endpoint.replies(failure(401, "Bad key sk-very-secret."))
    page = signed_in(builders.superuser()).post(url(endpoint)).content.decode()
    assert "auth_failed" in page
    assert "sk-very-secret" not in page
    assert len(fake_endpoint.requests) == 1  # no retries


def test_staff_make_none(fake_endpoint: FakeEndpoint) -> None:
    endpoint = builders.endpoint(base_url=fake_endpoint.base_url, model="fake")
    permissions = ["chat.view_modelendpoint", "chat.change_modelendpoint"]
    client = signed_in(builders.staff(permissions=permissions))
    assert client.post(url(endpoint)).status_code == 403
    assert not fake_endpoint.requests
