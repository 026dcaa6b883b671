"""Sessions by their title, which is read when it is asked for: a new one counts at once."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from chat.models import ChatSession, SearchEntry
from chat.search.scopes import Scope
from memory.words import tokens

MOST_SESSIONS = 2_000  # whose titles are read, the last active ones
MOST_FOUND = 3


def first_entries(scope: Scope, words: Collection[str]) -> list[int]:
    """The entry of the first message in each session whose title has all of `words`."""
    found = []
    for session_id in _named(scope, set(words)):
        first = SearchEntry.objects.filter(chat_session=session_id).order_by("seq").first()
        if first is not None:
            found.append(first.pk)
    return found


def _named(scope: Scope, words: set[str]) -> list[uuid.UUID]:
    rows = ChatSession.objects.filter(
        user=scope.user_id, tenant__in=scope.tenants or (), is_temporary=False
    ).order_by("-last_active_at", "-pk")
    titles = rows.values_list("pk", "title")[:MOST_SESSIONS]
    return [pk for pk, title in titles if words <= set(tokens(title))][:MOST_FOUND]
