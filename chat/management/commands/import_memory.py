"""`manage.py import_memory SESSION FILE --dialect ...`: another system's messages as history."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import leases, transfer
from chat.management import arguments
from memory.formats import DIALECTS, FormatError, loads


class Command(BaseCommand):
    help = (
        "Append the messages of a file to a session in which nothing runs. Fields and kinds of"
        " messages that are not known are kept for the export; system messages are left out, since"
        " the assistant's prompt stands in their place."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=arguments.session_id, help="The session's id.")
        parser.add_argument("file", help="JSON in UTF-8; - is the standard input.")
        parser.add_argument("--dialect", choices=DIALECTS, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        session_id, file = options["session"], options["file"]
        try:
            messages = loads(self.text_of(file), options["dialect"])
            imported = transfer.import_messages(session_id, messages)
        except FormatError as problem:
            raise CommandError(f"{file}: {problem}; nothing was imported.") from None
        except leases.Gone:
            raise CommandError(f"There is no session {session_id}.") from None
        except (leases.Busy, transfer.NotImportable) as problem:
            raise CommandError(f"Nothing was imported: {problem}") from None
        self.stdout.write(f"Session {session_id}: {imported.stored} messages imported.")
        if imported.cleaned:
            self.stdout.write(
                f"Changed: {imported.cleaned} messages had NUL characters or lone surrogates."
            )
        for what, count in imported.left_out.items():
            self.stdout.write(f"Left out: {count} {what}.")

    def text_of(self, file: str) -> str:
        try:
            if file == "-":
                return sys.stdin.buffer.read().decode("utf-8")
            with open(file, encoding="utf-8", newline="") as stream:
                return stream.read()
        except OSError as problem:
            raise CommandError(f"{file} cannot be read: {problem.strerror}.") from None
        except UnicodeDecodeError as problem:
            raise CommandError(
                f"{file} is not in UTF-8: byte {problem.start} is no character; convert it first."
            ) from None
