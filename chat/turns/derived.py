"""Which texts of a request hold words from elsewhere: noted, so that forgetting finds each copy."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chat.models import ContextRecord, DerivedText
from chat.records import PART, WHOLE


def note(record: ContextRecord) -> None:
    """Note the sources of every text of the session that the record keeps verbatim."""
    kept = [
        (identifier, line)
        for (role, kind, identifier), line in zip(
            record.layout, record.manifest["parts"], strict=True
        )
        if kind in (PART, WHOLE) and line["kind"] != "prompt"
    ]
    quoted = _quoted(each for _, line in kept for each in line["ids"])
    DerivedText.objects.bulk_create(
        DerivedText(chat_session_id=record.chat_session_id, part_id=identifier, **source)
        for identifier, line in kept
        for source in _sources(record.manifest, line, quoted)
    )


def _quoted(message_ids: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """By message: what results of tools among them quote."""
    found: dict[str, list[dict[str, Any]]] = {}
    ids = [uuid.UUID(each) for each in message_ids]
    if not ids:
        return found
    rows = DerivedText.objects.filter(message__in=ids)
    for message, session, seq in rows.values_list("message", "source_session", "source_seq"):
        source = {"source_session": session, "source_seq": seq}
        found.setdefault(str(message), []).append(source)
    return found


def _sources(
    manifest: Mapping[str, Any],
    line: Mapping[str, Any],
    quoted: Mapping[str, list[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    for preference in line.get("preferences", ()):
        yield {"source_preference": preference}
    if line.get("digest"):
        yield from ({"source_session": each} for each in manifest["digest"]["sources"])
    for message in line["ids"]:
        yield from quoted.get(message, ())
