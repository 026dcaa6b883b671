"""The test database behaves as production's does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from django.db import connection

from chat import hops
from chat.models import Tenant


@pytest.mark.django_db
def test_sqlite_is_a_file_with_a_write_ahead_log_and_immediate_transactions() -> None:
    if connection.vendor != "sqlite":
        assert connection.vendor == "postgresql"
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
    assert Path(connection.settings_dict["NAME"]).is_file()
    assert connection.settings_dict["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.django_db(transaction=True)
def test_a_hop_sees_what_the_test_wrote_and_the_test_what_the_hop_wrote() -> None:
    def rename(slug: str) -> int:
        return Tenant.objects.filter(slug=slug).update(name="renamed by the hop")

    Tenant.objects.create(slug="seen-from-a-thread", name="written by the test")
    assert asyncio.run(hops.hop(rename, "seen-from-a-thread")) == 1
    assert Tenant.objects.get(slug="seen-from-a-thread").name == "renamed by the hop"
