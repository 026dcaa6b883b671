"""Whose messages a search may find, as words for the index and as conditions on the rows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from chat.models import SearchEntry
from chat.search import entries

# What a model may be told of: `e` is the entry.
FOR_MODEL = (
    "EXISTS (SELECT 1 FROM chat_chatmessage m"
    " JOIN chat_chatsession s ON s.id = m.chat_session_id"
    " JOIN chat_assistant a ON a.id = s.assistant_id"
    " WHERE m.id = e.message_id AND m.is_on_path AND m.redacted_at IS NULL"
    " AND m.seq > s.memory_starts_after AND NOT s.is_temporary"
    " AND COALESCE(s.memory_enabled, a.memory_enabled))"
)


@dataclass(frozen=True)
class Scope:
    """None of `tenants`: all of them; of `user_id`: everybody in those tenants."""

    tenants: tuple[int, ...] | None
    user_id: int | None = None
    session_id: uuid.UUID | None = None
    for_model: bool = False

    @property
    def is_empty(self) -> bool:
        return self.tenants == () or (self.for_model and not settings.CHAT_MEMORY_ENABLED)

    def words(self) -> tuple[str, ...]:
        """One of these is in every entry of the scope, and in no other; none: everything is."""
        if self.tenants is None:
            return ()
        if self.user_id is None:
            return tuple(entries.tenant_word(each) for each in self.tenants)
        return tuple(entries.user_word(each, self.user_id) for each in self.tenants)

    def condition(self) -> tuple[str, list[Any]]:
        """The same on the row `e` of the entry, for a WHERE clause."""
        parts, values = ["1 = 1"], list[Any]()
        if self.tenants is not None:
            parts.append(f"e.tenant_id IN ({', '.join(['%s'] * len(self.tenants))})")
            values.extend(self.tenants)
        if self.user_id is not None:
            parts.append("e.user_id = %s")
            values.append(self.user_id)
        if self.session_id is not None:
            field = SearchEntry._meta.get_field("chat_session")
            parts.append("e.chat_session_id = %s")
            values.append(field.get_db_prep_value(self.session_id, connection))
        if self.for_model:
            parts.append(FOR_MODEL)
        return " AND ".join(parts), values

    def entries(self) -> QuerySet[SearchEntry]:
        """The entries of the tenants, person and session."""
        rows = SearchEntry.objects.all()
        if self.tenants is not None:
            rows = rows.filter(tenant__in=self.tenants)
        if self.user_id is not None:
            rows = rows.filter(user=self.user_id)
        if self.session_id is not None:
            rows = rows.filter(chat_session=self.session_id)
        return rows
