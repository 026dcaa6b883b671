"""The lock that lasts as long as its process, while the database is away."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from chat import liveness


def test_a_database_that_is_away_is_told_once_and_tried_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries, opened = list[int](), object()

    def open_at_last(lock: Any) -> object:
        tries.append(len(tries))
        if len(tries) < 4:
            raise psycopg.OperationalError("the database system is starting up")
        return opened

    monkeypatch.setattr(liveness, "PROBE_PAUSE", 0.0)
    monkeypatch.setattr(liveness.AdvisoryLock, "open", open_at_last)
    lock = object.__new__(liveness.AdvisoryLock)
    lock.reopens = True
    lock.reopen()
    assert lock.connection is opened
    assert caplog.text.count("cannot be taken yet: the database system is starting up") == 1
