"""Sessions as reviewers find them, and what the forms of a transcript send."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from chat.models import ChatSession, ReviewTag
from tests import builders
from tests.chat.admin_site import READ, review_url

REVIEWS = [READ, "chat.add_reviewnote", "chat.add_reviewscore", "chat.change_reviewtag"]
State = ChatSession.ReviewState


def queued(**fields: Any) -> ChatSession:
    return builders.chat_session(review_state=State.QUEUED, **fields)


def claimed(person: Any, hours_ago: int = 0, **fields: Any) -> ChatSession:
    at = timezone.now() - timedelta(hours=hours_ago)
    return builders.chat_session(
        review_state=State.IN_REVIEW, review_claimed_by=person, review_claimed_at=at, **fields
    )


def send(client: Client, chat_session: ChatSession, do: str, **fields: Any) -> Any:
    return client.post(review_url(chat_session), {"do": do, **fields}, follow=True)


def state_of(chat_session: ChatSession) -> tuple[str, Any]:
    chat_session.refresh_from_db()
    return chat_session.review_state, chat_session.review_claimed_by


def tag_of(chat_session: ChatSession, name: str) -> ReviewTag:
    tag = ReviewTag.objects.create(
        tenant=chat_session.tenant, slug=name.lower().replace(" ", "-"), name=name
    )
    tag.chat_sessions.add(chat_session)
    return tag
