"""`manage.py doctor SESSION`: every check of a session's memory, with what to do about it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat.inspection import doctor
from chat.inspection.checks import FINDING
from chat.management import arguments
from chat.models import ChatSession


class Command(BaseCommand):
    help = (
        "Check what a session remembers: its rows, limits, lines, snapshot, summary, preferences,"
        " endpoint and last errors. Shows no text. Ends with 1 when something was found."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=arguments.session_id, help="The session's id.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = doctor.examine(options["session"])
        except ChatSession.DoesNotExist:
            raise CommandError(f"There is no session {options['session']}.") from None
        for group in report.groups:
            if not group.checks:
                continue
            self.stdout.write(f"{group.title}")
            for check in group.checks:
                self.stdout.write(f"  {check.state:8}{check.about}: {check.found}")
                if check.remedy and check.state == FINDING:
                    self.stdout.write(f"          -> {check.remedy}")
        found = "Nothing found" if not report.findings else f"{report.findings} finding(s)"
        self.stdout.write(f"{found}; {report.notes} to know, {report.fine} ok.")
        if report.findings:
            raise SystemExit(1)
