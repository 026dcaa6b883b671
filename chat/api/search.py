"""Search over what a person said and was told."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chat.api import schema
from chat.api.base import Endpoint
from chat.api.bodies import CleanText, Query
from chat.search import messages
from chat.search.messages import Found
from chat.search.snippets import snippet
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


class SearchResult(schema.Shape):
    session = serializers.UUIDField()
    title = serializers.CharField()
    message = serializers.UUIDField()
    seq = serializers.IntegerField(help_text="Its place in the session.")
    role = serializers.CharField()
    at = serializers.DateTimeField()
    snippet = SnippetPiece(many=True, help_text="A part of the text, in order.")


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
        results = [result(each, words) for each in found]
        return Response({"results": results, "notice": notice})


def result(found: Found, words: set[str]) -> dict[str, Any]:
    return {
        "session": str(found.session_id),
        "title": found.title,
        "message": str(found.message_id),
        "seq": found.seq,
        "role": found.role,
        "at": found.at.isoformat(),
        "snippet": [{"text": piece.text, "hit": piece.hit} for piece in snippet(found.text, words)],
    }
