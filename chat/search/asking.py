"""Asking the index of messages: by people, by models and by staff."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from chat.models import ChatMessage, ChatSession, SearchEntry, Tenant
from chat.search import embeddings, titles, without_engine
from chat.search.engines import engine
from chat.search.ranking import rank
from chat.search.scopes import Scope
from memory.words import question_tokens

MOST_WORDS = 40  # of a question: its first and its last ones
MOST_POSTINGS = 2_000  # entries of one person that are looked at for one word, the newest ones
MOST_OF_EVERYBODY = 500  # the same where staff look for a word among everybody's
MOST_FUSED = 100  # of those that words find, where there is a second leg
NOT_INDEXED = "Your conversations cannot be searched yet: the server has still to index them."


@dataclass(frozen=True)
class Found:
    """A message that was found, the session it is in, and how well it fits (higher is better)."""

    session_id: uuid.UUID
    message_id: uuid.UUID
    seq: int
    role: str
    at: datetime
    title: str
    text: str
    score: float


def is_supported() -> bool:
    """Whether this database has an index of words."""
    return engine() is not None


def notice() -> str | None:
    """What people should know about searching on this database."""
    return None if is_supported() else without_engine.NOTICE


def notice_for(tenant_id: int, user_id: int) -> str | None:
    """The same for one person who found nothing: whether their messages are indexed at all."""
    mine = ChatMessage.objects.filter(
        chat_session__user=user_id, chat_session__tenant=tenant_id, chat_session__is_temporary=False
    )
    owned = SearchEntry.objects.filter(user=user_id, tenant=tenant_id)
    return notice() if owned.exists() or not mine.exists() else NOT_INDEXED


def find(
    *,
    tenant_id: int,
    user_id: int,
    question: str,
    limit: int = 10,
    session_id: uuid.UUID | None = None,
    for_model: bool = False,
) -> list[Found]:
    """A person's own messages that fit `question` best: on all branches, in archived sessions too.

    A session whose title has every word of the question comes first, with its first message.
    `for_model`: only messages, and only what a model may be told of: on the chosen branch, after
    the forget line, not redacted, in sessions with memory. A question without a word that counts
    finds nothing.
    """
    scope = Scope((tenant_id,), user_id, session_id, for_model)
    asked = _asked(question)
    if not asked or scope.is_empty or limit < 1:
        return []
    scores = _scores(scope, question, asked, limit)
    if not for_model and session_id is None:
        best = max(scores.values(), default=0.0)
        named = dict.fromkeys(titles.first_entries(scope, asked), best + 1)
        rest = ((entry, score) for entry, score in scores.items() if entry not in named)
        scores = dict([*named.items(), *rest][:limit])
    return _loaded(scope, scores)


def find_for_staff(
    *, tenants: QuerySet[Tenant] | None, question: str, limit: int = 50
) -> list[Found]:
    """Everybody's messages in `tenants` (None: in all) that fit `question` best."""
    ids = None if tenants is None else tuple(tenants.order_by("pk").values_list("pk", flat=True))
    scope, asked = Scope(ids), _asked(question)
    if not asked or scope.is_empty or limit < 1:
        return []
    return _loaded(scope, _scores(scope, question, asked, limit))


def _asked(question: str) -> list[str]:
    words = question_tokens(question)
    half = MOST_WORDS // 2
    return words if len(words) <= MOST_WORDS else words[:half] + words[-half:]


def _scores(scope: Scope, question: str, asked: Sequence[str], limit: int) -> dict[int, float]:
    """The entries that fit best, best first."""
    if (words := engine()) is None:
        return without_engine.newest_with(scope, question, limit)
    most = MOST_OF_EVERYBODY if scope.user_id is None else MOST_POSTINGS
    ranked = rank(words.postings(scope, asked, most), asked, _total(scope), most)
    if scope.user_id is None or embeddings.embedder() is None:
        return {each.entry: each.score for each in ranked[:limit]}
    near = embeddings.nearest(words, scope, question)
    fused = embeddings.fuse([each.entry for each in ranked[:MOST_FUSED]], near)
    return dict(list(fused.items())[:limit])


def _total(scope: Scope) -> int:
    """How many messages may be found; of everybody's, the highest id is near enough."""
    if scope.user_id is None:
        newest = SearchEntry.objects.order_by("-pk").values_list("pk", flat=True).first()
        return newest or 0
    return scope.entries().count()


def _loaded(scope: Scope, scores: dict[int, float]) -> list[Found]:
    """The messages of entries, in the order of `scores`; whose they are is asked of the session."""
    rows = SearchEntry.objects.filter(pk__in=scores, message__redacted_at=None)
    rows = rows.select_related("message", "chat_session")
    if scope.tenants is not None:
        rows = rows.filter(chat_session__tenant__in=scope.tenants)
    if scope.user_id is not None:
        rows = rows.filter(chat_session__user=scope.user_id)
    by_id = {row.pk: row for row in rows}
    return [
        Found(
            session_id=row.chat_session_id,
            message_id=row.message_id,
            seq=row.seq,
            role=row.message.role,
            at=row.message.created_at,
            title=_title(scope, row.chat_session),
            text=row.message.content or "",
            score=score,
        )
        for entry, score in scores.items()
        if (row := by_id.get(entry)) is not None
    ]


def _title(scope: Scope, chat_session: ChatSession) -> str:
    """A model is told no title that nobody gave where memory was cleared: it may have been made of
    what was said before that."""
    was_given = chat_session.title_source == ChatSession.TitleSource.USER
    is_hidden = scope.for_model and chat_session.memory_starts_after and not was_given
    return "" if is_hidden else chat_session.title
