"""`manage.py demo_data`: sample conversations, as many as you like, to try the product with."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from chat import demo_data


class Command(BaseCommand):
    help = (
        "Write sample conversations of people and tenants whose names begin with demo-data. The"
        " same seed gives the same data; another seed adds to what is there, and the same one again"
        " is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--sessions", type=int, default=200, help="Default: 200.")
        parser.add_argument("--messages", type=int, default=4_000, help="Default: 4000.")
        parser.add_argument("--seed", type=int, default=1, help="Default: 1.")
        parser.add_argument("--tenants", type=int, default=3, help="Default: 3.")
        parser.add_argument("--users", type=int, default=100, help="Default: 100.")
        parser.add_argument(
            "--until",
            type=date.fromisoformat,
            metavar="YYYY-MM-DD",
            help="The last day (UTC) of the months that the conversations lie in. Default: today.",
        )
        parser.add_argument(
            "--search", action="store_true", help="Also make the entries that search reads."
        )
        parser.add_argument(
            "--yes", action="store_true", help="Also beside conversations of real people."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["yes"] and demo_data.has_real_sessions():
            raise CommandError(
                "This database holds conversations that are no sample data. Give --yes to write"
                " sample data beside them, or another DATABASE_URL."
            )
        names = ("sessions", "messages", "seed", "tenants", "users")
        order = demo_data.Order(
            **{name: options[name] for name in names}, until=_end(options["until"])
        )
        try:
            done = demo_data.run(order, self.say)
        except demo_data.Refused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(
            f"Written: {done.sessions:,} sessions, {done.messages:,} messages"
            f" in {done.seconds:.0f} s."
        )
        if options["search"]:
            found = demo_data.index(order, self.say)
            self.stdout.write(f"Indexed: {found.messages:,} messages in {found.seconds:.0f} s.")

    def say(self, progress: demo_data.Progress) -> None:
        self.stdout.write(
            f"  {progress.sessions:,} sessions, {progress.messages:,} messages,"
            f" {progress.messages / progress.seconds:,.0f} messages/s"
        )


def _end(day: date | None) -> datetime:
    """The midnight after `day`; without one the last midnight."""
    if day is None:
        return datetime.combine(timezone.now().astimezone(UTC).date(), time.min, UTC)
    return datetime.combine(day + timedelta(days=1), time.min, UTC)
