"""Ending turns whose process has died and that nobody watches."""

from __future__ import annotations

import logging

from django.db.models import Q
from django.db.models.functions import Now

from chat import events, leases
from chat.models import ChatSession

logger = logging.getLogger(__name__)


def reap_turns() -> int:
    """End turns whose owner is dead or has let its lease expire, as interrupted; how many."""
    running = (
        ChatSession.objects.exclude(running_turn=None)
        .annotate(is_expired=Q(lease_expires_at__lt=Now()))
        .values_list("pk", "running_turn", "lease_owner", "is_expired")
    )
    ended = 0
    for session_id, *held in list(running):
        found = leases.Holder(*held)
        if not leases.can_take_over(found) or not leases.settle(session_id, found):
            continue
        ended += 1
        logger.info("Turn %s of session %s was interrupted.", found.turn, session_id)
        frame = events.ended(found.turn)
        if frame is not None:
            events.publish_from_thread(session_id, frame)
    return ended
