"""Search over what a person said and was told."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import CleanText, Query
from chat.models import ChatMessage
from chat.search import messages
from chat.search.entries import day_words
from chat.search.messages import Found
from chat.search.neighbours import Neighbourhood
from chat.search.snippets import Piece, snippet
from memory.words import question_tokens

MOST_RESULTS = 50


class SearchQuery(Query):
    q = CleanText(
        allow_blank=True,
        help_text="Words in any language; each result has at least one of them nearby.",
    )
    session = serializers.UUIDField(required=False, help_text="Only in this session.")
    limit = serializers.IntegerField(
        required=False, min_value=1, max_value=MOST_RESULTS, default=20
    )


class SnippetPiece(schema.Shape):
    text = serializers.CharField()
    hit = serializers.BooleanField(help_text="Whether it is a word that was asked for.")


class SearchHit(schema.Shape):
    session = serializers.UUIDField()
    title = serializers.CharField()
    message = serializers.UUIDField()
    seq = serializers.IntegerField(help_text="Its place in the session.")
    role = serializers.CharField()
    at = serializers.DateTimeField()
    snippet = SnippetPiece(many=True, help_text="A part of the text, in order.")


class SearchNear(schema.Shape):
    """The message before or after, whose words a result was found by."""

    message = serializers.UUIDField()
    seq = serializers.IntegerField()
    role = serializers.CharField()
    snippet = SnippetPiece(many=True)


class SearchResult(SearchHit):
    found_by = serializers.ChoiceField(
        ["words", "near", "day", "other"],
        help_text="Its own words; those of the message next to it; the day that it was said on;"
        " anything else, such as its meaning.",
    )
    near = SearchNear(allow_null=True, help_text="With found_by near.")


class SearchResults(schema.Shape):
    results = SearchResult(many=True, help_text="Best first.")
    notice = serializers.CharField(
        allow_null=True, help_text="What to know about searching on this server."
    )


class Search(Endpoint):
    @extend_schema(
        operation_id="search_messages",
        parameters=[SearchQuery],
        responses={200: SearchResults, **schema.problems(400, 404)},
    )
    def get(self, request: Request) -> Response:
        """The asker's own messages, on every branch and in archived sessions too."""
        query = SearchQuery.read(request)
        session_id = query.get("session")
        if session_id is not None:
            self.chat_session(session_id)
        owner = {"tenant_id": self.tenant().pk, "user_id": self.person.pk}
        found = messages.find(
            **owner, question=query["q"], limit=query["limit"], session_id=session_id
        )
        words = set(question_tokens(query["q"]))
        notice = messages.notice() if found else messages.notice_for(**owner)
        return Response({"results": results(found, words), "notice": notice})


def results(found: Sequence[Found], words: set[str]) -> list[dict[str, Any]]:
    """What was found, each with the reason why."""
    snippets = {each.message_id: snippet(each.text, words) for each in found}
    unexplained = [pk for pk, pieces in snippets.items() if not has_hit(pieces)]
    near = neighbours_with(words, unexplained)
    return [
        result(each, snippets[each.message_id], near.get(each.message_id), words) for each in found
    ]


def result(
    found: Found, pieces: Sequence[Piece], near: dict[str, Any] | None, words: set[str]
) -> dict[str, Any]:
    reasons = {
        "words": has_hit(pieces),
        "near": near is not None,
        "day": not words.isdisjoint(day_words(found.at)),
    }
    return {
        "session": str(found.session_id),
        "title": found.title,
        "message": str(found.message_id),
        "seq": found.seq,
        "role": found.role,
        "at": found.at.isoformat(),
        "snippet": shown(pieces),
        "found_by": next((reason for reason, holds in reasons.items() if holds), "other"),
        "near": near,
    }


def neighbours_with(words: set[str], ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    """For messages without any of the words: the one before or after that has some, if one does."""
    if not ids:
        return {}
    around = Neighbourhood(ChatMessage.objects.filter(pk__in=ids))
    around.look_before(ids)
    around.look_after(ids)
    found = {}
    for pk in ids:
        before = around.before(pk)
        for each in [*([before] if before is not None else []), *around.after(pk)]:
            pieces = snippet(each.content or "", words)
            if has_hit(pieces):
                found[pk] = {
                    "message": str(each.pk),
                    "seq": each.seq,
                    "role": each.role,
                    "snippet": shown(pieces),
                }
                break
    return found


def has_hit(pieces: Sequence[Piece]) -> bool:
    return any(piece.hit for piece in pieces)


def shown(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    return [{"text": piece.text, "hit": piece.hit} for piece in pieces]
