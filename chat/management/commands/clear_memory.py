"""`manage.py clear_memory SESSION`: the model is told nothing of what was said so far."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import leases, retention
from chat.management import arguments


class Command(BaseCommand):
    help = (
        "Draw the forget line of a session after its newest message. The transcript stays, and so"
        " do preferences. A running answer is stopped first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=arguments.session_id, help="The session's id.")

    def handle(self, *args: Any, **options: Any) -> None:
        session_id = options["session"]
        try:
            cleared = retention.clear_memory(session_id, reason="clear_memory command")
        except leases.Gone:
            raise CommandError(f"There is no session {session_id}.") from None
        except leases.Busy as busy:
            raise CommandError(f"Memory was not cleared: {busy}") from None
        self.stdout.write(
            f"Session {session_id}: memory starts after message {cleared.memory_starts_after}."
        )
