"""`manage.py cleanup_chats`: delete sessions that nobody has used for a while."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat import retention
from chat.management import arguments
from chat.management.runs import recorded


class Command(BaseCommand):
    help = (
        "Delete sessions without activity for more than N days, or for more than their tenant's"
        " retention days where those are fewer. Held and pinned sessions are kept. What a run that"
        " was cut short has left is taken by the next one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--days",
            type=arguments.days,
            metavar="N",
            help="Days without activity (default: CHAT_MEMORY_AUTO_CLEANUP_DAYS).",
        )
        parser.add_argument("--dry-run", action="store_true", help="Count and delete nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["days"] or settings.CHAT_MEMORY_AUTO_CLEANUP_DAYS
        with recorded("cleanup_chats", is_preview=options["dry_run"]) as run:
            try:
                report = retention.cleanup(days, dry_run=options["dry_run"])
            except ValueError as problem:
                run.error = str(problem)
                raise CommandError(f"CHAT_MEMORY_AUTO_CLEANUP_DAYS: {problem}") from None
            run.counts = {"sessions": report.sessions, **report.removed.rows}
            run.counts["failed"] = len(report.failed)
        for each in report.tenants:
            self.stdout.write(line(each, report.is_dry_run))
        if not report.tenants:
            self.stdout.write(
                "Nothing to do: give --days, or set CHAT_MEMORY_AUTO_CLEANUP_DAYS or a tenant's"
                " retention days."
            )
        if report.failed:
            names = ", ".join(str(each) for each in report.failed)
            raise CommandError(f"Not deleted, see the log: {names}")


def line(found: retention.TenantCleanup, is_dry_run: bool) -> str:
    verb = "would be deleted" if is_dry_run else "deleted"
    return (
        f"{found.tenant}: {found.sessions} sessions with {found.messages} messages, idle for more"
        f" than {found.days} days, {verb}; kept: {found.held} held, {found.pinned} pinned"
    )
