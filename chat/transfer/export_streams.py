"""An export as bytes: for a file piece by piece, for a download as an asynchronous generator.

Under ASGI a synchronous generator would be gathered whole before its first byte is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async

from chat import hops
from chat.transfer.export_formats import Format
from chat.transfer.export_pages import FIRST_ROWS, ROWS, START, Place, Selection


def pieces(selection: Selection, form: Format) -> Iterator[tuple[int, bytes]]:
    """How many rows, and the bytes of them."""
    yield 0, form.head(selection.kind.names(selection.with_text))
    for rows in selection.batches():
        yield len(rows), form.lines(rows)


async def stream(selection: Selection, form: Format) -> AsyncIterator[bytes]:
    """The same for a response; between two pieces it keeps no connection of the database."""
    if head := form.head(selection.kind.names(selection.with_text)):
        yield head
    place: Place | None = START
    limit = FIRST_ROWS
    while place is not None:
        data, place = await sync_to_async(_piece)(selection, form, place, limit)
        limit = ROWS
        if data:
            yield data


def _piece(
    selection: Selection, form: Format, place: Place, limit: int
) -> tuple[bytes, Place | None]:
    try:
        batch = selection.read(place, limit)
        return form.lines(batch.rows), batch.after
    finally:
        hops.give_back_connections()
