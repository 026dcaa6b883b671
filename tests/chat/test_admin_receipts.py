"""Receipts in the admin: read only, for superusers, without a name."""

from __future__ import annotations

import pytest
from django.test import Client

from chat import retention
from chat.models import DeletionReceipt, PendingRemoval
from tests import builders
from tests.chat.admin_site import READ, list_url, page_url, signed_in, text_of, viewer

pytestmark = [pytest.mark.django_db, pytest.mark.pages]


@pytest.fixture
def client() -> Client:
    return signed_in(builders.superuser())


def made() -> DeletionReceipt:
    chat_session = builders.chat_session(builders.user("alice"), title="secret")
    builders.exchange(chat_session)
    return retention.forget_session(chat_session.pk, actor=chat_session.user)


def test_a_receipt_shows_what_went_by_place(client: Client) -> None:
    receipt = made()
    shown = text_of(client.get(page_url(receipt)))
    assert ("messages: 2" in shown, "complete" in shown) == (True, True)
    assert ("It was not searched for." in shown, "secret" in shown) == (True, False)


def test_what_is_still_to_be_removed_and_what_was_found_is_shown(client: Client) -> None:
    receipt = made()
    PendingRemoval.objects.create(kind="cache", name="x", receipt=receipt)
    DeletionReceipt.objects.update(verification={"found": {"chat_reviewnote.text": 1}})
    assert "1 still to be removed" in text_of(client.get(list_url(DeletionReceipt)))
    assert "chat_reviewnote.text: 1" in text_of(client.get(page_url(receipt)))


def test_nobody_changes_one_and_only_superusers_see_any(client: Client) -> None:
    receipt = made()
    assert client.post(page_url(receipt), {"kind": "user"}).status_code == 403
    staff = signed_in(viewer(READ, "chat.view_deletionreceipt"))
    assert str(receipt.pk) not in text_of(staff.get(list_url(DeletionReceipt)))
    assert staff.get(page_url(receipt)).status_code == 302
