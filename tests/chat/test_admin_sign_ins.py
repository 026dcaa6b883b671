"""Sign-ins and failed attempts: superusers find them, and nothing asked ends in an error."""

from __future__ import annotations

from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client

from chat.models import AuditEvent
from tests import builders
from tests.chat.admin_site import list_url, page_url, said, signed_in

pytestmark = pytest.mark.django_db

MODELS = [AccessAttempt, AccessFailureLog, AccessLog]


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser())


def tried(model: type[Any], name: str, address: str) -> Any:
    more = {"failures_since_start": 1} if model is AccessAttempt else {}
    return model._default_manager.create(
        username=name, ip_address=address, user_agent=name, path_info="/", http_accept="", **more
    )


@pytest.mark.parametrize("key", ["abc", "\x00", "9" * 30])
def test_ticked_rows_that_cannot_exist_are_told(client: Client, key: str) -> None:
    tried(AccessAttempt, "mallory", "192.0.2.1")
    form = {"action": "cleanup_expired_attempts", "_selected_action": [key], "index": "0"}
    response = client.post(list_url(AccessAttempt), form, follow=True)
    assert said(response) == ["None of the access attempts that were chosen is in this list."]


@pytest.mark.parametrize("model", MODELS)
def test_they_are_found_by_name_and_by_address(client: Client, model: type[Any]) -> None:
    found = tried(model, "mallory", "192.0.2.1")
    tried(model, "alice", "192.0.2.2")
    for term in ("mall", "192.0.2.1"):
        assert list(client.get(list_url(model), {"q": term}).context["cl"].result_list) == [found]
    for term in ("192.0.2", "::1%eth0", "2001:db8::", "\x00"):
        assert client.get(list_url(model), {"q": term}).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_their_lists_read_no_more_than_a_page(client: Client, model: type[Any]) -> None:
    """No choice of every day or of every path that anybody ever asked for."""
    assert admin.site._registry[model].date_hierarchy is None
    for number in range(3):
        tried(model, f"name {number}", f"192.0.2.{number + 1}")
    page = client.get(list_url(model), {"attempt_time_from": "2000-01-01", "q": "name "})
    assert page.context["cl"].result_count == 3
    assert not [each for each in page.context["cl"].filter_specs if "path" in str(each.title)]


@pytest.mark.parametrize("model", MODELS)
def test_what_is_deleted_of_them_is_recorded_and_names_nobody(
    client: Client, model: type[Any]
) -> None:
    row = tried(model, "mallory", "192.0.2.1")
    client.post(page_url(row).replace("/change/", "/delete/"), {"post": "yes"})
    assert not model._default_manager.filter(username="mallory").exists()
    event = AuditEvent.objects.get()
    name = model._meta.model_name
    assert (event.action, event.object_id) == (f"{name}.delete", str(row.pk))
    assert not LogEntry.objects.filter(object_repr__contains="mallory").exists()
