"""What can be exported, and the columns of each kind.

Columns that hold what somebody wrote, or that quote it, are `texts`; everything else is metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncMonth

from chat.models import (
    ChatMessage,
    ChatSession,
    ChatTurn,
    Feedback,
    ReviewNote,
    ReviewScore,
    ReviewTag,
)
from chat.transfer.export_pages import Batch, Kind, Place, Row, Selection

PEOPLE = 100  # whose usage is added up at once
OF_SESSION = {
    "session": "chat_session_id",
    "tenant": "chat_session__tenant__slug",
    "user": "chat_session__user__username",
}


def _complete_sessions(rows: Sequence[Row], with_text: bool) -> None:
    ids = [row["id"] for row in rows]
    tags, scores, notes = defaultdict(list), defaultdict(list), defaultdict(list)
    filed = ReviewTag.objects.filter(chat_sessions__in=ids).order_by("slug")
    for session, name in filed.values_list("chat_sessions", "name"):
        tags[session].append(name)
    given = ReviewScore.objects.filter(chat_session__in=ids).order_by("id")
    names = ("turn", "name", "value", "author__username")
    for session, *score in given.values_list("chat_session", *names):
        scores[session].append(dict(zip(("turn", "name", "value", "author"), score, strict=True)))
    if with_text:
        written = ReviewNote.objects.filter(chat_session__in=ids).order_by("id")
        for session, text in written.values_list("chat_session", "text"):
            notes[session].append(text)
    thumbs = _thumbs("turn__chat_session", ids)
    for row in rows:
        good, bad = thumbs.get(row["id"], (0, 0))
        row |= {"tags": tags[row["id"]], "scores": scores[row["id"]], "notes": notes[row["id"]]}
        row |= {"feedback_good": good, "feedback_bad": bad}


def _complete_messages(rows: Sequence[Row], with_text: bool) -> None:
    if with_text:
        for row in rows:
            row["content_characters"] = len(row["content"] or "")


def _complete_turns(rows: Sequence[Row], with_text: bool) -> None:
    thumbs = _thumbs("turn", [row["id"] for row in rows])
    for row in rows:
        good, bad = thumbs.get(row["id"], (0, 0))
        row |= {"feedback_good": good, "feedback_bad": bad}
        row["first_token_ms"] = _milliseconds(row["started_at"], row["first_token_at"])
        row["duration_ms"] = _milliseconds(row["started_at"], row["finished_at"])


def _thumbs(path: str, ids: Sequence[Any]) -> Mapping[Any, tuple[int, int]]:
    """Good and bad feedback, by what `path` leads to."""
    counted = (
        Feedback.objects.filter(**{f"{path}__in": ids})
        .order_by()
        .values(path)
        .annotate(good=Count("pk", filter=Q(value=1)), bad=Count("pk", filter=Q(value=-1)))
    )
    return {each[path]: (each["good"], each["bad"]) for each in counted}


def _milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    return round((end - start).total_seconds() * 1000) if start and end else None


def _read_usage(selection: Selection, place: Place, limit: int) -> Batch:
    """What people used in each month (UTC): a row for each person, tenant and month."""
    assert selection.sessions is not None
    sessions = selection.sessions.order_by().select_related(None).prefetch_related(None)
    people = sessions if place.session is None else sessions.filter(user__gt=place.session)
    users = people.order_by("user_id").values_list("user_id", flat=True).distinct()
    ids = list(users[:PEOPLE])
    chosen = sessions.filter(user__in=ids).values("pk")
    used: Any = (
        ChatTurn.objects.filter(chat_session__in=chosen)
        .order_by()
        .annotate(month=TruncMonth("started_at", tzinfo=UTC))
        .values("chat_session__tenant__slug", "chat_session__user__username", "month")
        .annotate(
            sessions=Count("chat_session", distinct=True),
            turns=Count("pk"),
            failed=Count("pk", filter=Q(status=ChatTurn.Status.FAILED)),
            input=Sum("input_tokens", default=0),
            cached=Sum("cached_input_tokens", default=0),
            output=Sum("output_tokens", default=0),
            paid=Sum("cost", default=0),
        )
        .order_by("chat_session__user__username", "chat_session__tenant__slug", "month")
    )
    rows = [{name: _usage(each, path) for name, path in USAGE.items()} for each in used]
    return Batch(rows, Place(ids[-1]) if len(ids) == PEOPLE else None)


def _usage(row: Row, path: str) -> Any:
    return row[path].strftime("%Y-%m") if path == "month" else row[path]


USAGE = {
    "tenant": "chat_session__tenant__slug",
    "user": "chat_session__user__username",
    "month": "month",
    "sessions": "sessions",
    "turns": "turns",
    "failed_turns": "failed",
    "input_tokens": "input",
    "cached_input_tokens": "cached",
    "output_tokens": "output",
    "cost": "paid",
}

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="sessions",
            label="Sessions",
            model=ChatSession,
            session="pk",
            columns={
                "id": "id",
                "tenant": "tenant__slug",
                "user": "user__username",
                "assistant": "assistant__slug",
                "review_state": "review_state",
                "messages": "message_count",
                "messages_on_branch": "path_count",
                "turns": "turn_count",
                "tokens": "token_count",
                "is_pinned": "is_pinned",
                "is_archived": "is_archived",
                "is_temporary": "is_temporary",
                "is_held": "is_held",
                "memory_enabled": "memory_enabled",
                "forget_line": "memory_starts_after",
                "created_at": "created_at",
                "last_active_at": "last_active_at",
            },
            added=("tags", "scores", "feedback_good", "feedback_bad"),
            texts={"title": "title"},
            added_texts=("notes",),
            complete=_complete_sessions,
        ),
        Kind(
            name="messages",
            label="Messages",
            model=ChatMessage,
            row="seq",
            counters=("message_count",),
            columns={
                "id": "id",
                **OF_SESSION,
                "seq": "seq",
                "parent": "parent_id",
                "turn": "turn_id",
                "role": "role",
                "name": "name",
                "tool_call_id": "tool_call_id",
                "is_on_chosen_branch": "is_on_path",
                "is_partial": "is_partial",
                "is_error": "is_error",
                "tokens": "token_count",
                "encoding": "token_encoding",
                "created_at": "created_at",
                "redacted_at": "redacted_at",
            },
            texts={"content": "content", "parts": "parts", "tool_calls": "tool_calls"},
            added_texts=("content_characters",),
            long_text="content",
            complete=_complete_messages,
        ),
        Kind(
            name="turns",
            label="Turns",
            model=ChatTurn,
            row="number",
            counters=("turn_count",),
            columns={
                "id": "id",
                **OF_SESSION,
                "number": "number",
                "input": "input_id",
                "status": "status",
                "finish_reason": "finish_reason",
                "error_code": "error_code",
                "follows_schema": "follows_schema",
                "endpoint": "endpoint_name",
                "model": "model_name",
                "started_at": "started_at",
                "first_token_at": "first_token_at",
                "finished_at": "finished_at",
                "input_tokens": "input_tokens",
                "cached_input_tokens": "cached_input_tokens",
                "output_tokens": "output_tokens",
                "cost": "cost",
            },
            added=("first_token_ms", "duration_ms", "feedback_good", "feedback_bad"),
            texts={"error_detail": "error_detail"},
            complete=_complete_turns,
        ),
        Kind(
            name="feedback",
            label="Feedback",
            model=Feedback,
            session="turn__chat_session_id",
            row="pk",
            counters=("good_votes", "bad_votes"),
            columns={
                "id": "id",
                "session": "turn__chat_session_id",
                "turn": "turn_id",
                "tenant": "turn__chat_session__tenant__slug",
                "user": "user__username",
                "value": "value",
                "created_at": "created_at",
            },
            texts={"comment": "comment"},
        ),
        Kind(
            name="usage",
            label="Usage by person and month",
            model=ChatTurn,
            columns=USAGE,
            texts={},
            read=_read_usage,
        ),
    )
}
