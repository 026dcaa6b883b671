"""`manage.py rebuild_search`: make the index of messages anew."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat.management import arguments
from chat.models import ChatSession
from chat.search import messages, rebuilding

SECONDS = 5.0  # between two lines about the progress


class Command(BaseCommand):
    help = (
        "Index the messages of all sessions anew, or of one. Run it once after an update from a"
        " version without search, and when search does not find what is there. People can go on"
        " writing meanwhile; what was stopped can be begun again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--session", type=arguments.session_id, help="Only this session.")

    def handle(self, *args: Any, **options: Any) -> None:
        session_id = options["session"]
        sessions = ChatSession.objects.all()
        if session_id is not None:
            sessions = sessions.filter(pk=session_id)
            if not sessions.exists():
                raise CommandError(f"There is no session {session_id}.")
        total, told = sessions.count(), time.monotonic()

        def tell(progress: rebuilding.Progress) -> None:
            nonlocal told
            if time.monotonic() - told >= SECONDS:
                told = time.monotonic()
                self.stdout.write(f"{progress.sessions} of {total} sessions ...")

        if session_id is None and (note := rebuilding.prepare()):
            self.stdout.write(note)
        done = rebuilding.rebuild(session_id, tell)
        self.stdout.write(f"Sessions: {done.sessions}; messages that can be found: {done.messages}")
        if note := messages.notice():
            self.stdout.write(note)
