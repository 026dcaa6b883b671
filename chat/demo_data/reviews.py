"""What people and reviewers say of the sample data's conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta

from django.db.models import Model

from chat import tallies
from chat.demo_data import phrases
from chat.demo_data.conversations import Conversation
from chat.demo_data.people import Cast
from chat.models import ChatSession, Feedback, ReviewNote, ReviewScore, ReviewTag

STATES = (
    (ChatSession.ReviewState.NONE, 80),
    (ChatSession.ReviewState.QUEUED, 6),
    (ChatSession.ReviewState.IN_REVIEW, 2),
    (ChatSession.ReviewState.REVIEWED, 7),
    (ChatSession.ReviewState.FLAGGED, 3),
    (ChatSession.ReviewState.RESOLVED, 2),
)
DONE = {
    ChatSession.ReviewState.REVIEWED,
    ChatSession.ReviewState.FLAGGED,
    ChatSession.ReviewState.RESOLVED,
}
NAMES = ("correctness", "tone")


def feedback(made: Conversation) -> Iterator[Feedback]:
    """Thumbs under a few answers, some with a comment."""
    chance = made.chance
    for turn in made.turns:
        if turn.status != "completed" or chance.random() >= 0.06:
            continue
        has_comment = chance.random() < 0.3
        comment = phrases.fill(chance, phrases.ENGLISH, chance.choice(phrases.COMMENTS))
        yield Feedback(
            turn_id=turn.pk,
            user_id=made.session.user_id,
            value=chance.choice((1, 1, 1, -1)),
            comment=comment if has_comment else "",
            created_at=turn.finished_at or turn.started_at,
        )


def tally(made: Conversation, votes: Iterable[Feedback]) -> None:
    """Count on the session's row how turns ended and were rated; before the row is written."""
    ended = Counter(turn.status for turn in made.turns)
    cast = Counter(vote.value for vote in votes)
    for name, status in tallies.TURNS.items():
        setattr(made.session, name, ended[status])
    for name, value in tallies.VOTES.items():
        setattr(made.session, name, cast[value])


def decide(made: Conversation, cast: Cast) -> None:
    """The state of the session's row; before the row is written."""
    states, weights = zip(*STATES, strict=True)
    session = made.session
    session.review_state = made.chance.choices(states, weights)[0]
    if session.review_state == ChatSession.ReviewState.IN_REVIEW:
        session.review_claimed_by_id = made.chance.choice(cast.reviewers).pk
        session.review_claimed_at = session.last_active_at + timedelta(hours=1)


def reviews(made: Conversation, cast: Cast) -> Iterator[Model]:
    """Tags, scores and notes of what was reviewed."""
    session, chance = made.session, made.chance
    if session.review_state not in DONE:
        return
    author = chance.choice(cast.reviewers)
    when = session.last_active_at + timedelta(hours=2)
    through = ReviewTag.chat_sessions.through
    for tag in chance.sample(cast.tags[session.tenant_id], chance.choice((0, 1, 1, 2))):
        yield through(reviewtag_id=tag.pk, chatsession_id=session.pk)
    for name in NAMES[: chance.choice((1, 2))]:
        yield ReviewScore(
            chat_session_id=session.pk,
            subject="session",
            name=name,
            author_id=author.pk,
            value=chance.randint(1, 5),
            created_at=when,
            updated_at=when,
        )
    if chance.random() < 0.4:
        text = phrases.fill(chance, phrases.ENGLISH, chance.choice(phrases.NOTES))
        yield ReviewNote(
            chat_session_id=session.pk, author_id=author.pk, text=text, created_at=when
        )
