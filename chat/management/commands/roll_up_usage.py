"""`manage.py roll_up_usage`: make the daily roll-up of some days anew."""

from __future__ import annotations

import argparse
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from chat import usage


def day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day; write 2026-11-30") from None


class Command(BaseCommand):
    help = "Make the daily roll-up anew, out of the rows that are there; without days: today's."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="first", type=day, help="The first day (UTC).")
        parser.add_argument("--through", dest="last", type=day, help="The last day (UTC).")

    def handle(self, *args: Any, **options: Any) -> None:
        last = options["last"] or usage.day_of(timezone.now())
        first = options["first"] or last
        count = max(0, (last - first).days + 1)
        for each in usage.days_before(last, count):
            self.stdout.write(f"{each}: {usage.roll_up(each)} rows")
        if not count:
            self.stdout.write(f"No days from {first} through {last}.")
