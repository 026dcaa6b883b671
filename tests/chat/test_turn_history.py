"""A session's stored messages as memory reads them."""

from __future__ import annotations

import uuid

import pytest

from chat.turns.history import SessionHistory
from tests import builders

pytestmark = pytest.mark.django_db


def test_a_message_is_held_on_the_chosen_branch_before_the_input_alone() -> None:
    chat_session = builders.chat_session()
    left = builders.message(chat_session, is_on_path=False)
    first = builders.message(chat_session)
    current = builders.message(chat_session)
    foreign = builders.message(builders.chat_session())
    reader = SessionHistory(chat_session.pk, after=first.seq, before=current.seq)
    assert reader.newest(None, 9) == []
    assert reader.holds(str(first.pk)) is True
    others = (left.pk, current.pk, foreign.pk, uuid.uuid4())
    assert [reader.holds(str(each)) for each in others] == [False] * 4
