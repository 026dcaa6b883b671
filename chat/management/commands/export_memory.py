"""`manage.py export_memory SESSION [FILE] --dialect ...`: a session's memory for another system."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import leases, temporary, transfer
from chat.management import arguments
from memory.formats import DIALECTS, dumps


class Command(BaseCommand):
    help = (
        "Write the messages of a session's chosen branch after its forget line as another system"
        " stores them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=arguments.session_id, help="The session's id.")
        parser.add_argument("file", nargs="?", default="-", help="A new file (default: print).")
        parser.add_argument("--dialect", choices=DIALECTS, required=True)
        parser.add_argument(
            "--whole", action="store_true", help="Also what was said before the forget line."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        session_id, file = options["session"], options["file"]
        try:
            messages = transfer.export_messages(session_id, whole=options["whole"])
        except leases.Gone:
            raise CommandError(f"There is no session {session_id}.") from None
        except temporary.TextsUnavailable as problem:
            raise CommandError(str(problem)) from None
        text = dumps(messages, options["dialect"])
        if file == "-":
            self.stdout.write(text)
            return
        try:
            with open(file, "x", encoding="utf-8", newline="") as stream:
                stream.write(text)
        except OSError as problem:
            raise CommandError(f"{file} was not written: {problem.strerror}.") from None
        self.stdout.write(f"Session {session_id}: {len(messages)} messages in {file}.")
