"""How the turns of a session ended and were rated: counted on its row.

Lists of very many sessions are asked for "with errors" and "rated bad", which no join answers fast.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import Count, F, Q

from chat.models import ChatSession, ChatTurn, Feedback

TURNS = {
    "failed_turns": ChatTurn.Status.FAILED,
    "interrupted_turns": ChatTurn.Status.INTERRUPTED,
    "stopped_turns": ChatTurn.Status.STOPPED,
}
VOTES = {"good_votes": Feedback.Value.GOOD, "bad_votes": Feedback.Value.BAD}


@contextmanager
def counting(session_id: uuid.UUID) -> Iterator[None]:
    """A transaction in which turns or ratings of a session change; they are counted at its end."""
    with transaction.atomic():
        # The row is held first, as everywhere: what others change of the session waits.
        ChatSession.objects.filter(pk=session_id).update(turn_count=F("turn_count"))
        yield
        recount(session_id)


def recount(session_id: uuid.UUID) -> None:
    """Count anew, in a transaction that holds the session's row."""
    turns = {name: Count("pk", filter=Q(status=status)) for name, status in TURNS.items()}
    votes = {name: Count("pk", filter=Q(value=value)) for name, value in VOTES.items()}
    ChatSession.objects.filter(pk=session_id).update(
        **ChatTurn.objects.filter(chat_session=session_id).aggregate(**turns),
        **Feedback.objects.filter(turn__chat_session=session_id).aggregate(**votes),
    )
