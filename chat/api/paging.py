"""Pages: sessions by their last activity, messages by `seq` in both directions."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC

from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from chat.api.bodies import Query
from chat.api.problems import FieldError, Invalid, shown
from chat.models import ChatMessage

MAX_SEQ = 2**63 - 1
LONGEST_PAGE = 100


class PageQuery(Query):
    cursor = serializers.CharField(
        required=False, allow_blank=True, help_text="From `next` or `previous`."
    )
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=LONGEST_PAGE,
        help_text="Rows of a page; when absent 30, of preferences 100.",
    )


class Pages(CursorPagination):
    """Cursor pages; a size or a cursor that is none of this server's is refused."""

    page_size = 30

    def get_page_size(self, request: Request) -> int:
        size: int = PageQuery.read(request).get("page_size", self.page_size)
        return size

    def decode_cursor(self, request: Request) -> Cursor | None:
        value = request.query_params.get(self.cursor_query_param)
        try:
            base64.b64decode(value or "", validate=True)
            cursor = super().decode_cursor(request)
            if cursor is not None and cursor.position is not None:
                self.check_position(str(cursor.position))
        except (NotFound, ValueError, OverflowError):
            message = "Take it from `next` or `previous` of an earlier page."
            raise Invalid([FieldError("cursor", shown(value), message)]) from None
        return cursor

    def check_position(self, position: str) -> None:
        """Raise when a position cannot be a value of the ordering's first column."""
        raise NotImplementedError


class MomentPages(Pages):
    """Pages in the order of a time."""

    def check_position(self, position: str) -> None:
        moment = parse_datetime(position)
        if moment is None or moment.tzinfo is None:
            raise ValueError(position)
        moment.astimezone(UTC)  # the first and the last day have none there: OverflowError


class SessionPages(MomentPages):
    """Sessions, the one with the newest activity first."""

    ordering = ("-last_active_at", "-id")


class ReceiptPages(MomentPages):
    """Receipts, the newest first."""

    ordering = ("-created_at", "-id")


class PreferencePages(Pages):
    """Preferences, the newest first."""

    page_size = 100
    ordering = ("-id",)

    def check_position(self, position: str) -> None:
        if not 0 <= int(position) <= MAX_SEQ:
            raise ValueError(position)


# --- Messages -------------------------------------------------------------------------------------


class SeqQuery(Query):
    """Which part of a conversation: at most one of `before`, `after` and `around`."""

    before = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_SEQ, help_text="Messages below this seq."
    )
    after = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_SEQ, help_text="Messages above this seq."
    )
    around = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_SEQ, help_text="This seq and its neighbours."
    )
    limit = serializers.IntegerField(required=False, min_value=1, max_value=200, default=50)

    @classmethod
    def read(cls, request: Request) -> dict[str, int]:
        values: dict[str, int] = super().read(request)
        given = [name for name in ("before", "after", "around") if name in values]
        if len(given) > 1:
            message = "Give only one of before, after and around."
            raise Invalid(FieldError(name, shown(values[name]), message) for name in given)
        return values


@dataclass(frozen=True)
class SeqPage:
    """Messages in the order of `seq`, and whether the branch has more on either side."""

    messages: list[ChatMessage]
    has_before: bool
    has_after: bool


def seq_page(
    branch: QuerySet[ChatMessage],
    limit: int,
    before: int | None = None,
    after: int | None = None,
    around: int | None = None,
) -> SeqPage:
    """One page of a branch: the newest messages, or those next to a seq. Costs what it returns."""
    if after is not None:
        newer, has_after = upward(branch, after + 1, limit)
        return SeqPage(newer, branch.filter(seq__lte=after).exists(), has_after)
    if around is not None:
        older, has_before = downward(branch, around, limit // 2)
        newer, has_after = upward(branch, around, limit - len(older))
        return SeqPage(older + newer, has_before, has_after)
    older, has_before = downward(branch, before, limit)
    has_after = before is not None and branch.filter(seq__gte=before).exists()
    return SeqPage(older, has_before, has_after)


def upward(branch: QuerySet[ChatMessage], first: int, limit: int) -> tuple[list[ChatMessage], bool]:
    """Messages from seq `first` on, and whether there are more after them."""
    rows = list(branch.filter(seq__gte=first).order_by("seq")[: limit + 1])
    return rows[:limit], len(rows) > limit


def downward(
    branch: QuerySet[ChatMessage], end: int | None, limit: int
) -> tuple[list[ChatMessage], bool]:
    """The last messages below seq `end`, oldest first, and whether there are more before them."""
    older = branch if end is None else branch.filter(seq__lt=end)
    rows = list(older.order_by("-seq")[: limit + 1])
    return rows[:limit][::-1], len(rows) > limit
