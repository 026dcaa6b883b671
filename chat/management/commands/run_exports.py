"""`manage.py run_exports`: write the exports that wait; remove those whose time is over."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import close_old_connections

from chat.transfer import export_jobs

PAUSE_SECONDS = 2.0


class Command(BaseCommand):
    help = (
        "Write the exports that were asked for in the admin and are too large to wait for, and"
        " remove files whose time is over. With --loop: go on until stopped. Several of these"
        " processes share the work; one that is killed loses nothing but its time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--loop", action="store_true", help="Look again every 2 seconds.")

    def handle(self, *args: Any, **options: Any) -> None:
        while True:
            done = export_jobs.run_due_exports()
            if done or not options["loop"]:
                self.stdout.write(f"Exports written: {done}")
            if not options["loop"]:
                return
            close_old_connections()
            time.sleep(PAUSE_SECONDS)
